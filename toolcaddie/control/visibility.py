"""Decides which tools a caller may see: the restrictions of tools and bots, which hold under every policy.

Unlike selection, which saves tokens, this is access control. It is applied twice in every run: `Visibility` makes the mask
(one byte for each tool of the catalog) through which tools are listed, searched, shown and selected, and `may_use` checks
the tool again when a call is admitted.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from toolcaddie.control.bots import Bots
from toolcaddie.core.bots import Mode
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Principal
from toolcaddie.core.tool import CLIENT_SOURCE, Tool
from toolcaddie.util.bounded import Bounded

_CATALOGS = 4
"""Number of catalogs whose masks are cached, unless more are used at once."""
_MAX_MASKS = 1_000
"""Largest number of cached masks of one catalog."""

_Caller = tuple[str | None, str | None, str | None, Mode]
"""Role, bot, tenant and mode; the tenant is None for a catalog in which no tool depends on it."""

_Restricted = tuple[tuple[int, Tool], ...]
"""Restricted tools, with their positions in the catalog."""


def may_use(tool: Tool, principal: Principal) -> bool:
    """Returns True if the tool's own roles, scope and tenant let this principal use it."""
    return (
        (not tool.roles or principal.role in tool.roles)
        and (tool.scope in ("all", principal.bot) or (tool.creator is not None and tool.creator == principal.bot))
        and tool.tenant in (None, principal.tenant)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """What hides a tool from a caller, whatever the policy says."""

    rule: str
    """The setting: `tool.roles`, `tool.scope`, `tool.tenant`, `catalog.categories`, `bots.NAME.disabled_tools` or
    `bots.NAME.categories`."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _CatalogMasks:
    """A catalog's restricted tools by position, and the masks made so far."""

    restricted: _Restricted
    has_tenants: bool
    masks: dict[_Caller, Mask | None] = field(default_factory=dict)


class Visibility:
    """Masks a catalog by the roles and scope of its tools, and by the settings of the bots.

    The tools that a caller sends with a request stay visible whatever categories are enabled.
    """

    def __init__(self, bots: Bots, *, catalogs: int = 0) -> None:
        """`catalogs`: the number of catalogs that are used at once, such as those of tenants."""
        self._bots = bots
        # Keyed by version, so that no catalog is kept alive; bounded, because a long-lived process has many catalogs.
        self._cached: Bounded[str, _CatalogMasks] = Bounded(_CATALOGS + catalogs)

    def mask(self, catalog: Catalog, principal: Principal, mode: Mode = "conversation") -> Mask | None:
        """Returns the mask for a role and a bot in a mode, made once for each; None: everything is visible."""
        cached = self._cached.get(catalog.version) or self._add(catalog)
        caller = (principal.role, principal.bot, principal.tenant if cached.has_tenants else None, mode)
        with suppress(KeyError):
            return cached.masks[caller]
        if len(cached.masks) >= _MAX_MASKS:
            cached.masks.clear()
        mask = cached.masks[caller] = self._new_mask(catalog, cached.restricted, principal, mode)
        return mask

    def forget(self, catalog: Catalog) -> None:
        """Drops the masks of a catalog that is no longer used."""
        self._cached.pop(catalog.version)

    def restriction(self, tool: Tool, principal: Principal) -> Restriction | None:
        """Returns what hides one tool from a principal, as `mask` does; None: nothing does."""
        if not may_use(tool, principal):
            return Restriction(rule=_rule(tool, principal), reason="the tool's own restrictions exclude this caller")
        if tool.name in self._bots.disabled_tools(principal):
            return Restriction(rule=self._bots.rule_of(tool.name, principal), reason="the bot may not use this tool")
        enabled = self._bots.categories(principal)
        if enabled is None or tool.category in enabled or tool.source == CLIENT_SOURCE:
            return None
        bot = self._bots.of(principal)
        of_bot = bot is not None and bot.categories is not None and tool.category not in bot.categories
        rule = f"bots.{principal.bot}.categories" if of_bot else "catalog.categories"
        return Restriction(rule=rule, reason="the category of the tool is not enabled")

    def _add(self, catalog: Catalog) -> _CatalogMasks:
        """Makes the entry of a catalog without masks."""
        restricted = tuple((position, tool) for position, tool in enumerate(catalog.tools) if tool.is_restricted)
        has_tenants = any(tool.tenant is not None for _, tool in restricted)
        masks = _CatalogMasks(restricted=restricted, has_tenants=has_tenants)
        self._cached.put(catalog.version, masks)
        return masks

    def _new_mask(self, catalog: Catalog, restricted: _Restricted, principal: Principal, mode: Mode) -> Mask | None:
        """Returns the mask of a catalog for this principal; None: every tool is visible."""
        disabled, enabled = self._bots.disabled_tools(principal, mode), self._bots.categories(principal)
        if not restricted and not disabled and enabled is None:
            return None
        mask = bytearray(b"\1") * len(catalog)
        for position, tool in restricted:
            mask[position] = may_use(tool, principal)
        for name in disabled:
            if (at := catalog.position(name)) is not None:
                mask[at] = False
        if enabled is not None:
            for position, tool in enumerate(catalog.tools):
                mask[position] &= tool.category in enabled or tool.source == CLIENT_SOURCE
        return bytes(mask) if 0 in mask else None


def _rule(tool: Tool, principal: Principal) -> str:
    """Returns the field of a tool that hides it from a principal."""
    if tool.roles and principal.role not in tool.roles:
        return "tool.roles"
    return "tool.scope" if tool.tenant in (None, principal.tenant) else "tool.tenant"
