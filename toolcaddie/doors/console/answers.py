"""Answers of the console's pages: a status, a body, and the headers that every answer has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from toolcaddie.util.replacing import replace

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_SAFETY = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # `no-referrer` would make browsers send `Origin: null` with our own forms. Other sites learn nothing from this value either.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_HTML = "text/html; charset=utf-8"
_JSON = "application/json"


class Reply(Protocol):
    """An answer of any kind that a page returns."""

    @property
    def status(self) -> int: ...

    async def send(self, send: Send, receive: Receive, *, head: bool) -> None:
        """Sends itself. `head`: True for a request that wants no body. `receive`: says when the browser has gone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer to a browser."""

    status: int = 200
    body: bytes = b""
    type: str = _HTML
    headers: tuple[tuple[str, str], ...] = ()
    cookies: tuple[str, ...] = ()
    """Values of `set-cookie`."""
    is_stored: bool = False
    """True: browsers may keep it, because its address changes with its content."""

    @property
    def location(self) -> str:
        """The page to which it sends the browser; empty: none."""
        return dict(self.headers).get("location", "")

    def with_cookie(self, cookie: str) -> Answer:
        return replace(self, cookies=(*self.cookies, cookie))

    async def send(self, send: Send, receive: Receive, *, head: bool) -> None:
        fields = {
            "content-type": self.type,
            "content-length": str(len(self.body)),
            "cache-control": "private, max-age=31536000, immutable" if self.is_stored else "no-store",
        }
        pairs = [*fields.items(), *self.headers, *(("set-cookie", cookie) for cookie in self.cookies)]
        await send(_start(self.status, pairs))
        await send({"type": "http.response.body", "body": b"" if head else self.body})


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStream:
    """An answer for an `EventSource`: it goes on until the browser has gone, or there are no more events.

    `events` yields the data of each event; an empty text is a comment that keeps the connection open.
    """

    events: AsyncGenerator[bytes, None]
    status: int = 200

    async def send(self, send: Send, receive: Receive, *, head: bool) -> None:
        await send(_start(self.status, [("content-type", "text/event-stream"), ("cache-control", "no-store")]))
        if not head:
            await _send_until_gone(self._send_events(send), receive)
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b""})

    async def _send_events(self, send: Send) -> None:
        async with contextlib.aclosing(self.events) as events:
            async for data in events:
                body = b"data: " + data + b"\n\n" if data else b":\n\n"
                await send({"type": "http.response.body", "body": body, "more_body": True})


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A file that is made while it is sent. It ends early if the browser goes."""

    name: str
    """Its name: letters, digits, `.`, `-` and `_`."""
    type: str
    parts: AsyncIterator[bytes]
    status: int = 200

    async def send(self, send: Send, receive: Receive, *, head: bool) -> None:
        disposition = ("content-disposition", f'attachment; filename="{self.name}"')
        await send(_start(self.status, [("content-type", self.type), ("cache-control", "no-store"), disposition]))
        if not head:
            await _send_until_gone(self._send_parts(send), receive)
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b""})

    async def _send_parts(self, send: Send) -> None:
        async for part in self.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})


async def _send_until_gone(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Sends until everything is sent, or the browser has gone."""
    gone = asyncio.ensure_future(_gone(receive))
    sending = asyncio.ensure_future(work)
    try:
        await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (gone, sending):
            task.cancel()
        await asyncio.wait({gone, sending})
    if not sending.cancelled():
        sending.result()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _start(status: int, pairs: Sequence[tuple[str, str]]) -> MutableMapping[str, Any]:
    """Returns the message that begins an answer, with the headers of all answers."""
    raw = [(name.encode(), value.encode("latin-1")) for name, value in (*_SAFETY.items(), *pairs)]
    return {"type": "http.response.start", "status": status, "headers": raw}


def redirect(path: str) -> Answer:
    """Returns an answer that sends the browser to another page of the console with GET."""
    return Answer(status=303, headers=(("location", path),))


def json_answer(data: Any, *, status: int = 200) -> Answer:
    """Returns data as JSON. Values that JSON does not have become text."""
    return Answer(status=status, body=msgspec.json.encode(data, enc_hook=_plain), type=_JSON)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) else str(value)
