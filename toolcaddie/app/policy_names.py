"""Finds names in the settings of the policy that nothing has: for the log at start, and for `toolcaddie policy check`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolcaddie.app.runtimes import host_parts, policy_of
from toolcaddie.app.settings import Settings
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.control.policy.cedar.unused import KnownCallers
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.storage import ApiKey
from toolcaddie.registry import Registry
from toolcaddie.util.log import Logger

log = Logger(__name__)

_CEDAR = "cedar"


def names_without_meaning(settings: Settings, catalog: Catalog, keys: Iterable[ApiKey]) -> Sequence[str]:
    """Returns a sentence for each name in the table `[policy]`, and in its files of rules, that no tool, category, bot or caller
    has. `catalog`: all tools, also those of categories that are not enabled; `keys`: the API keys, whose roles and bots are
    known. Policies of other types are not read."""
    if settings.policy is None or settings.policy.type != _CEDAR:
        return ()
    policy = policy_of(settings, Registry(), host_parts(settings))
    if not isinstance(policy, CedarPolicy):  # a package may bring another policy of this name
        return ()
    callers = [key.principal for key in keys if key.revoked is None]
    scopes = {tool.scope for tool in catalog} - {"all"}
    roles = {role for tool in catalog for role in tool.roles}
    known = KnownCallers(
        bots=frozenset(settings.bots) or None,
        used_bots=frozenset(scopes.union(caller.bot for caller in callers if caller.bot)),
        used_people=frozenset(caller.id for caller in callers),
        used_roles=frozenset(roles.union(settings.roles, (caller.role for caller in callers if caller.role))),
    )
    return policy.names_nothing(catalog, known)


def warn_of_names(settings: Settings, catalog: Catalog, keys: Iterable[ApiKey]) -> None:
    """Logs these sentences. Sources may bring the tools later, so nothing is refused."""
    for problem in names_without_meaning(settings, catalog, keys):
        log.warning("setting_names_nothing", problem=problem)
