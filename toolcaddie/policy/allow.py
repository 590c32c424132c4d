"""The policy that allows every call. What a tool itself restricts (`roles`, `scope`) still hides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from toolcaddie.catalog import Catalog, Mask
from toolcaddie.run import Decision, Principal, RunContext
from toolcaddie.tool_types import Tool, ToolCall

_CATALOGS_KEPT = 4
_MASKS_KEPT = 1_000
_ALLOW = Decision(verdict="allow", reason="no policy is set: everything is allowed", rule="default")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restrictions:
    """Of one catalog version: which positions are restricted at all, and the masks made of them so far."""

    size: int
    restricted: tuple[tuple[int, Tool], ...]
    masks: dict[tuple[str | None, str | None], Mask] = field(default_factory=dict)


class AllowAll:
    """Allows every call, as rule `default`.

    A tool with `roles` is seen by principals of these roles, one with a `scope` by the bot of that id.
    """

    def __init__(self) -> None:
        # By version and bounded: catalogs come and go in a long-lived process, and none is held here.
        self._known: dict[str, _Restrictions] = {}

    @property
    def version(self) -> str:
        return "allow-all"

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        """None where the catalog restricts nothing; else a read-only mask, made once per role and bot."""
        known = self._known.get(catalog.version) or self._learn(catalog)
        if not known.restricted:
            return None
        who = (principal.role, principal.bot)
        mask = known.masks.get(who)
        return self._mask(known, who) if mask is None else mask

    async def decide(self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any], context: RunContext) -> Decision:
        return _ALLOW

    def _learn(self, catalog: Catalog) -> _Restrictions:
        restricted = tuple((at, tool) for at, tool in enumerate(catalog.tools) if tool.roles or tool.scope != "all")
        known = _Restrictions(size=len(catalog), restricted=restricted)
        kept = list(self._known.items())[1 - _CATALOGS_KEPT :]
        self._known = {**dict(kept), catalog.version: known}
        return known

    @staticmethod
    def _mask(known: _Restrictions, who: tuple[str | None, str | None]) -> Mask:
        role, bot = who
        mask = np.ones(known.size, dtype=np.bool_)
        for position, tool in known.restricted:
            mask[position] = (not tool.roles or role in tool.roles) and tool.scope in ("all", bot)
        mask.flags.writeable = False
        if len(known.masks) >= _MASKS_KEPT:
            known.masks.clear()
        known.masks[who] = mask
        return mask
