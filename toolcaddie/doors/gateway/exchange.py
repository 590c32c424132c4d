"""One HTTP request and its answer on bare ASGI: the body in, bytes out, and a watch on whether the client is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from typing import Any

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.bodies import Share
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.ports.wires import DoorWire

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_UNWATCHED = 0.05
"""Seconds in which nobody looks whether the client is still there."""


class Exchange:
    """Starts the answer at most once; everything after the start is a piece of the body. `wire` writes its errors."""

    def __init__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Send,
        *,
        wire: DoorWire,
        bounds: Bounds = DEFAULT,
    ) -> None:
        self._wire = wire
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.client: str | None = scope["client"][0] if scope.get("client") else None
        self.query: bytes = scope.get("query_string", b"")
        self.started = False
        self._notes: dict[str, str] = {}
        self._sent_headers: Mapping[str, str] | list[tuple[bytes, bytes]] = {}
        self._receive = receive
        self._send = send
        self._bounds = bounds

    async def body(self, share: Share) -> bytes | Problem | None:
        """The whole body, counted in `share`; a problem when it is too large; None when the client went away first."""
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and len(declared) < 20 and int(declared) > self._bounds.body:
            return self._too_large()
        parts: list[bytes] = []
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            if not share.take(len(part)):
                return self._too_many_bodies()
            if share.size > self._bounds.body:
                return self._too_large()
            parts.append(part)
            if not message.get("more_body"):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def through(self, around: Callable[[Send], Send]) -> None:
        """From now on the answer goes through `around`, which is given what it would have gone to."""
        self._send = around(self._send)

    def _too_large(self) -> Problem:
        told = f"the body is too large; at most {self._bounds.body:,} bytes are accepted (setting bounds.body)"
        return problem(413, told, kind="invalid_request_error", code="body_too_large")

    def _too_many_bodies(self) -> Problem:
        told = (
            f"the bodies of all requests together are over {self._bounds.bodies:,} bytes (setting bounds.bodies); "
            "send this one again in a moment"
        )
        return problem(503, told, kind="server_error", code="bodies_too_large", headers={"retry-after": "1"})

    def note(self, header: str, value: str) -> None:
        """A header for the answer, whatever that will be."""
        self._notes[header] = value

    async def start(self, status: int, headers: Mapping[str, str] | list[tuple[bytes, bytes]]) -> None:
        self.started = True
        self._sent_headers = headers
        raw = headers if isinstance(headers, list) else _raw(headers)
        if self._notes:
            raw = [*raw, *_raw(self._notes)]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        whole = {"content-type": "application/json", "content-length": str(len(body)), **headers}
        await self.start(status, whole)
        await self.write(body, more=False)

    async def refuse(self, found: Problem) -> None:
        await self.answer(found.status, self._wire.write_error(found), found.headers)

    async def fail(self, found: Problem) -> None:
        """Refuse, or where the answer has begun, end its stream with the error. What is no stream of events has no place
        for an error: it stays without its end, which clients take for a broken connection."""
        if not self.started:
            await self.refuse(found)
        elif self._streams:
            # The blank line, because an upstream's event may be cut in the middle.
            await self.write(b"\n\n" + self._wire.write_error_event(found), more=False)

    @property
    def _streams(self) -> bool:
        sent = self._sent_headers
        kind = dict(sent).get(b"content-type", b"") if isinstance(sent, list) else sent.get("content-type", "").encode()
        return kind.startswith(b"text/event-stream")

    async def while_there(self, job: Awaitable[None]) -> None:
        """Do the job; cancel it as soon as the client goes away. What the job raises is raised here."""
        watch = _Watch(self._gone)
        # A task to watch with costs a tenth of a short request; only what takes its time is worth one.
        beginning = asyncio.get_running_loop().call_later(_UNWATCHED, watch.begin)
        try:
            await job
        except asyncio.CancelledError:
            if not watch.left_alone():
                raise
        finally:
            beginning.cancel()
            watch.end()

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


class _Watch:
    """Cancels the task it was made in when `gone` returns."""

    def __init__(self, gone: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._gone = gone
        self._watched = asyncio.current_task()
        self._watching: asyncio.Task[None] | None = None
        self._cancelled = False

    def begin(self) -> None:
        self._watching = asyncio.ensure_future(self._cancel_when_gone())

    def end(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    def left_alone(self) -> bool:
        """Whether the client is the only reason for the cancellation; then it is dealt with."""
        assert self._watched is not None
        return self._cancelled and self._watched.uncancel() == 0

    async def _cancel_when_gone(self) -> None:
        await self._gone()
        assert self._watched is not None
        self._cancelled = True
        self._watched.cancel()
