"""The methods of Telegram's Bot API, one HTTP request each."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from toolcaddie.core.errors import OutboundError, ProviderProtocolError
from toolcaddie.doors.channels.calls import Calls

_SECONDS = 20.0


class GroupMoved(Exception):
    """The group has another id now."""

    def __init__(self, chat: str) -> None:
        super().__init__(chat)
        self.chat = chat


class _Parameters(Struct, frozen=True):
    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class _Answer(Struct, frozen=True):
    ok: bool
    result: Any = None
    error_code: int = 0
    description: str = ""
    parameters: _Parameters = _Parameters()


class TelegramApi:
    """Calls the methods with a bot's token."""

    def __init__(self, calls: Calls, *, token: str, base_url: str) -> None:
        self._calls = calls
        self._token = token
        self._base_url = base_url.rstrip("/")

    async def call(self, method: str, *, seconds: float = _SECONDS, **parameters: Any) -> Any:
        """Returns the result of a method. Raises `ProviderError`, and `GroupMoved` if a group has got another id."""
        url = f"{self._base_url}/bot{self._token}/{method}"
        headers = {"content-type": "application/json"}
        body = msgspec.json.encode(parameters)
        status, data = await self._calls.call("POST", url, seconds=seconds, data=body, headers=headers)
        try:
            answer = msgspec.json.decode(data, type=_Answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if status >= 500:
                raise self._calls.refusal(status, method) from error
            raise ProviderProtocolError(f"Telegram's answer to {method} is not what its API describes") from error
        if answer.ok and status == 200:
            return answer.result
        if answer.parameters.migrate_to_chat_id is not None:
            raise GroupMoved(str(answer.parameters.migrate_to_chat_id))
        code = answer.error_code or status
        code = 401 if code == 404 else code  # a token that nobody has is an unknown address
        raise self._calls.refusal(code, f"{method}: {answer.description}", answer.parameters.retry_after)

    async def download(self, file_id: str, most: int) -> bytes:
        """Returns a file of at most `most` bytes. Raises `ProviderError` or `OutboundError`."""
        found = await self.call("getFile", file_id=file_id)
        path = found.get("file_path") if isinstance(found, dict) else None
        if not isinstance(path, str) or ".." in path:
            raise ProviderProtocolError("Telegram's answer to getFile has no path")
        if int(found.get("file_size") or 0) > most:
            raise OutboundError(f"it is larger than {most:,} bytes")
        url = f"{self._base_url}/file/bot{self._token}/{quote(path)}"
        status, data = await self._calls.call("GET", url, most=most)
        if status != 200:
            raise self._calls.refusal(status, "the file cannot be downloaded")
        return data
