"""The plugin itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from toolcaddie.core.errors import HostError
from toolcaddie.core.states import BackEnd, Change, State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.nftables import ATTRIBUTES, Nft
from toolcaddie.tools.host.states.privacy.planning import PROFILE, planned
from toolcaddie.tools.host.states.privacy.table import commands, dropped_packets, profile_of

_ADDRESS = {"type": "string", "maxLength": 50}


class PrivacyPlugin:
    """Implements `ports.StatePlugin`."""

    name = "privacy"
    description = (
        "An egress profile, the thing 'profile', which limits outgoing connections. While it exists, this machine reaches only "
        "resolvers (DNS) and allow (addresses and networks, no names); the rest is dropped. Without it, everything is reached."
    )
    attributes: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "resolvers": {"type": "array", "items": _ADDRESS, "maxItems": 32},
            "allow": {
                "type": "array",
                "maxItems": 500,
                "items": {
                    "type": "object",
                    "properties": {
                        "host": _ADDRESS,
                        "protocol": ATTRIBUTES["protocol"],
                        "port": ATTRIBUTES["port"],
                    },
                    "required": ["host"],
                    "additionalProperties": False,
                },
            },
            "intact": {"type": "boolean", "description": "False: another program has changed its rules"},
        },
        "additionalProperties": False,
    }
    may_lock_out = True

    def __init__(self, program: str) -> None:
        self._nft = Nft(program, "toolcaddie_privacy")

    async def query(self) -> State:
        listing = await self._nft.listing()
        return {} if listing is None else {PROFILE: profile_of(listing)}

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        return planned(target, desired, current)

    def effects(self, change: Change) -> tuple[str, ...]:
        return (f"privacy.set {change.target}",)

    def question(self, change: Change) -> str:
        """Returns a question about a profile that lets more through than before: it is deleted in part."""
        if change.before is None or change.after is None:
            return ""  # a deletion asks in any case
        more = [each for key in ("allow", "resolvers") for each in change.after[key] if each not in change.before[key]]
        return f"lets {len(more)} more through the egress profile" if more else ""

    async def apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.after is None:
                await self._nft.delete()
            else:
                await self._nft.make(commands(self._nft, change.after))

    async def back_ends(self) -> Sequence[BackEnd]:
        return (await self._nft.back_end(await self._dropped()),)

    async def close(self) -> None:
        self._nft.close()

    async def _dropped(self) -> str:
        """Returns how many packets the profile has dropped, as a part of a sentence. The number is no part of the state, because
        it changes by itself."""
        try:
            listing = await self._nft.listing()
        except HostError:
            return ""
        return "; no profile is in force" if listing is None else f"; {dropped_packets(listing)} packets were dropped"


def privacy(*, program: str = "/usr/sbin/nft") -> PrivacyPlugin:
    """Returns the plugin. `program`: the absolute path of nft. Raises `ConfigError`."""
    return PrivacyPlugin(program)
