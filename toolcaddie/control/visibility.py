"""Which tools a caller may see at all: what tools and bots restrict holds under every policy.

Selection is economy, visibility is security. Every run passes here twice: `Visibility` makes the mask of its view, through
which tools are listed, searched, shown, revealed and found, and `may_use` is asked again when a call is admitted.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from toolcaddie.control.bots import Bots
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Principal
from toolcaddie.core.tool import CLIENT_SOURCE, Tool

_CATALOGS_KEPT = 4
_MASKS_KEPT = 1_000

_Caller = tuple[str | None, str | None]
"""Role and bot."""


def may_use(tool: Tool, principal: Principal) -> bool:
    """Whether the tool's own roles and scope let this principal use it."""
    return (not tool.roles or principal.role in tool.roles) and tool.scope in ("all", principal.bot)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A catalog's restricted tools by position, and the masks made so far."""

    restricted: tuple[tuple[int, Tool], ...]
    masks: dict[_Caller, Mask | None] = field(default_factory=dict)


class Visibility:
    """Masks a catalog by the roles and scope of its tools, and by what the bots' settings disable.

    A caller's own tools have no category of ours, so that enabled categories do not concern them.
    """

    def __init__(self, bots: Bots) -> None:
        self._bots = bots
        # By version and bounded: catalogs come and go in a long-lived process, and none is held here.
        self._known: dict[str, _Known] = {}

    def mask(self, catalog: Catalog, principal: Principal) -> Mask | None:
        """A mask, made once for each role and bot; None: all is visible."""
        known = self._known.get(catalog.version) or self._learn(catalog)
        caller = (principal.role, principal.bot)
        with suppress(KeyError):
            return known.masks[caller]
        if len(known.masks) >= _MASKS_KEPT:
            known.masks.clear()
        mask = known.masks[caller] = self._made(catalog, known, principal)
        return mask

    def _learn(self, catalog: Catalog) -> _Known:
        restricted = tuple((at, tool) for at, tool in enumerate(catalog.tools) if tool.roles or tool.scope != "all")
        known = _Known(restricted=restricted)
        kept = list(self._known.items())[1 - _CATALOGS_KEPT :]
        self._known = {**dict(kept), catalog.version: known}
        return known

    def _made(self, catalog: Catalog, known: _Known, principal: Principal) -> Mask | None:
        disabled, enabled = self._bots.disabled_tools(principal), self._bots.categories(principal)
        if not known.restricted and not disabled and enabled is None:
            return None
        mask = bytearray(b"\1") * len(catalog)
        for position, tool in known.restricted:
            mask[position] = may_use(tool, principal)
        for name in disabled:
            if (place := catalog.position(name)) is not None:
                mask[place] = False
        if enabled is not None:
            for position, tool in enumerate(catalog.tools):
                mask[position] &= tool.category in enabled or tool.source == CLIENT_SOURCE
        return bytes(mask)
