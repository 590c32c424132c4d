"""The plugin itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from toolcaddie.core.states import BackEnd, Change, State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.firewall.planning import CHAINS, OTHERS_NOTE, is_policy, planned
from toolcaddie.tools.host.states.firewall.table import commands, state_of
from toolcaddie.tools.host.states.nftables import ATTRIBUTES, Nft

_SHOWN_TABLES = 200


class FirewallPlugin:
    """Implements `ports.StatePlugin`."""

    name = "firewall"
    description = (
        "Filter rules by name, to open, close, allow or block ports and addresses, in the table inet toolcaddie: chain, order, "
        "action, and which packets. 'policy input' (forward, output): the action for packets without a rule. Other tables are "
        "shown; what they drop stays dropped."
    )
    attributes: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "chain": {"enum": list(CHAINS)},
            "order": {"type": "integer", "minimum": 0, "maximum": 9999, "description": "Lower ones first"},
            **ATTRIBUTES,
            "note": {"type": "string", "maxLength": 100},
        },
        "additionalProperties": False,
    }
    may_lock_out = True

    def __init__(self, program: str) -> None:
        self._nft = Nft(program, "toolcaddie")

    async def query(self) -> State:
        tables = await self._nft.tables()
        others = {f"table {name}": {"note": OTHERS_NOTE} for name in tables[:_SHOWN_TABLES] if name != self._nft.name}
        listing = await self._nft.listing() if self._nft.name in tables else None
        return {**others, **state_of(listing or [])}

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        return planned(target, desired, current)

    def effects(self, change: Change) -> tuple[str, ...]:
        return (f"firewall.set {change.target.removeprefix('policy ')}",)

    def question(self, change: Change) -> str:
        if is_policy(change.target) and (change.after or {}).get("action") == "drop":
            return f"{change.target}: drops all packets that no rule accepts"
        return ""

    async def apply(self, changes: Sequence[Change]) -> None:
        await self._nft.make(commands(self._nft, await self._nft.listing() or [], changes))

    async def back_ends(self) -> Sequence[BackEnd]:
        return (await self._nft.back_end(),)

    async def close(self) -> None:
        self._nft.close()


def firewall(*, program: str = "/usr/sbin/nft") -> FirewallPlugin:
    """Returns the plugin. `program`: the absolute path of nft. Raises `ConfigError`."""
    return FirewallPlugin(program)
