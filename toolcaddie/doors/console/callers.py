"""The principals in whose name a person acts in the console: the person, or one of the bots that the person may use."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.storage import ApiKey
from toolcaddie.doors.console.requests import Visit
from toolcaddie.ports import KeyStore
from toolcaddie.runtime import Runtime
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import did_you_mean

PRESET_NAMES: Sequence[str] = tuple(PRESETS)


class Callers:
    """Knows the keys of people, and so the bots that they may use. A key that belongs to one bot may use no other."""

    def __init__(self, runtime: Runtime, keys: KeyStore) -> None:
        self._runtime = runtime
        self._keys = keys

    async def key_of(self, visit: Visit) -> ApiKey | None:
        """Returns the API key with which the person signed in; None: the server has no keys."""
        key_id = "" if visit.session is None else visit.session.key_id
        return await self._keys.find(key_id) if key_id else None

    async def bots_of(self, visit: Visit) -> Sequence[str]:
        """Returns the names of the bots that the person may use."""
        key = await self.key_of(visit)
        own = None if key is None else key.principal.bot
        return [name for name in self._runtime.bots if own in (None, name)]

    async def caller_of(self, visit: Visit, bot: str) -> Principal:
        """Returns the person as a bot; the person's own bot, if there is one, for an empty name. Raises `RequestError` for a bot
        that the person may not use."""
        if not bot:
            return visit.person
        if bot not in (names := await self.bots_of(visit)):
            raise RequestError(f"there is no bot {bot[:64]!r} for you; {did_you_mean(bot, names)}", param="bot")
        return replace(visit.person, bot=bot)


def preset_in(text: str) -> str | None:
    """Returns the preset of a form; None: that of the server. Raises `RequestError` for an unknown one."""
    if text and text not in PRESETS:
        raise RequestError(f"there is no preset {text[:64]!r}; {did_you_mean(text, PRESET_NAMES)}", param="preset")
    return text or None
