"""The default policy: it hides nothing and allows every call. Restrictions of tools and bots hold under any policy."""

from __future__ import annotations

from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal

_VERSION = "allow-all"
_ALLOW = Decision(
    verdict="allow", reason="no policy is set: everything is allowed", rule="default", policy_version=_VERSION
)


class AllowAll:
    """Allows every call, as rule `default`."""

    @property
    def version(self) -> str:
        return _VERSION

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        """Returns None: no tool is hidden."""
        return None

    async def decide(self, request: CallRequest) -> Decision:
        return _ALLOW
