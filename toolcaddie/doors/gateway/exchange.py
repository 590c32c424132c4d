"""One HTTP request to the gateway and its answer: reads the body, sends the answer, and notices that the client disconnects.

It works directly on ASGI, the interface of Python's web servers, without a framework. Handlers get an `Exchange` from `router`.
A `Problem` is an error answer that no wire (API format) has written yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from typing import Any

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.bodies import Share, declared_length
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.ports.wires import DoorWire

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_UNWATCHED_SECONDS = 0.05
"""Seconds from the start of a job until its client is watched for a disconnection."""


class Exchange:
    """A request with its answer. The answer starts at most once, and its body follows in pieces. `wire` writes errors in the form
    of the client's API. `part`: the text at the place of `{name}` in the path of the route."""

    def __init__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Send,
        *,
        wire: DoorWire,
        bounds: Bounds = DEFAULT,
        part: str = "",
    ) -> None:
        self._wire = wire
        self.path: str = scope["path"]
        self.part = part
        self.context: dict[str, Any] = {}
        """Values that the handler of the request passes from one of its steps to another."""
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.client: str | None = scope["client"][0] if scope.get("client") else None
        self.query: bytes = scope.get("query_string", b"")
        self.started = False
        self._notes: dict[str, str] = {}
        self._hidden: tuple[bytes, ...] = ()
        self._answer_headers: Mapping[str, str] | list[tuple[bytes, bytes]] = {}
        self._receive = receive
        self._send = send
        self._bounds = bounds

    async def body(self, share: Share) -> bytes | Problem | None:
        """Returns the whole body; a problem if it is too large; None if the client disconnected first.

        `share` counts its bytes towards the limit for the bodies of all requests.
        """
        declared = declared_length(self.headers)
        if declared > self._bounds.body:
            return self._too_large()
        if not share.fits(declared):
            return self._too_many_bodies()
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

    def detached(self, send: Send) -> Exchange:
        """Returns the same request, for a run that continues without its client. `send` takes the answer."""
        scope = {"path": self.path, "headers": list(self.headers.items()), "query_string": self.query}
        other = Exchange.without_client(scope, send, wire=self._wire, bounds=self._bounds, part=self.part)
        other.client, other.context = self.client, dict(self.context)
        return other

    @classmethod
    def without_client(
        cls, scope: MutableMapping[str, Any], send: Send, *, wire: DoorWire, bounds: Bounds, part: str = ""
    ) -> Exchange:
        """Returns a request whose client does not wait. `send` takes the answer."""
        return cls(scope, _never, send, wire=wire, bounds=bounds, part=part)

    def wrap_send(self, wrap: Callable[[Send], Send]) -> None:
        """Replaces the function that sends the messages of the answer by a function around it, for example to record them."""
        self._send = wrap(self._send)

    def _too_large(self) -> Problem:
        message = f"the body is too large; at most {self._bounds.body:,} bytes are accepted (setting bounds.body)"
        return problem(413, message, kind="invalid_request_error", code="body_too_large")

    def _too_many_bodies(self) -> Problem:
        message = (
            f"the bodies of all requests together are over {self._bounds.bodies:,} bytes (setting bounds.bodies); "
            "send this request again in a moment"
        )
        return problem(503, message, kind="server_error", code="bodies_too_large", headers={"retry-after": "1"})

    def note(self, header: str, value: str) -> None:
        """Adds a header to the answer, whether it is a success or an error."""
        self._notes[header] = value

    def hide(self, beginnings: tuple[bytes, ...]) -> None:
        """Removes the headers whose names begin so from the answer, unless they are added by `note`."""
        self._hidden = beginnings

    @property
    def wire_name(self) -> WireName:
        return self._wire.name

    async def start(self, status: int, headers: Mapping[str, str] | list[tuple[bytes, bytes]]) -> None:
        """Sends the status and the headers; `write` sends the body."""
        self.started = True
        self._answer_headers = headers
        raw = headers if isinstance(headers, list) else _raw(headers)
        if self._hidden:
            raw = [(name, value) for name, value in raw if not name.startswith(self._hidden)]
        if self._notes:
            raw = [*raw, *_raw(self._notes)]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Sends a whole answer."""
        all_headers = {"content-type": "application/json", "content-length": str(len(body)), **headers}
        await self.start(status, all_headers)
        await self.write(body, more=False)

    async def refuse(self, refusal: Problem) -> None:
        await self.answer(refusal.status, self._wire.write_error(refusal), refusal.headers)

    async def fail(self, refusal: Problem) -> None:
        """Sends the error as the answer; if the answer has begun and is an event stream, as the last event of the stream.

        Any other answer that has begun has no place for an error: it stays incomplete, and the client sees a broken connection.
        """
        if not self.started:
            await self.refuse(refusal)
        elif self._streams:
            # The upstream's last event may be incomplete. The empty line ends it.
            await self.write(b"\n\n" + self._wire.write_error_event(refusal), more=False)

    @property
    def _streams(self) -> bool:
        """Returns True if the answer that has begun is an event stream."""
        headers = self._answer_headers
        kind = (
            dict(headers).get(b"content-type", b"")
            if isinstance(headers, list)
            else headers.get("content-type", "").encode()
        )
        return kind.startswith(b"text/event-stream")

    async def while_connected(self, job: Awaitable[None]) -> None:
        """Awaits the job, and cancels it if the client disconnects. Raises the job's exceptions."""
        watch = _Watch(self._wait_for_disconnect)
        # A watching task takes a tenth of the time of a short request, so only longer requests are watched.
        beginning = asyncio.get_running_loop().call_later(_UNWATCHED_SECONDS, watch.begin)
        try:
            await job
        except asyncio.CancelledError:
            if not watch.caused_cancellation():
                raise
        finally:
            beginning.cancel()
            watch.end()

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def _never() -> MutableMapping[str, Any]:
    """Waits for a message of a client that is not there."""
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


class _Watch:
    """Cancels the task that made the watch as soon as `disconnect` returns."""

    __slots__ = ("_cancelled", "_task", "_wait_for_disconnect", "_watcher")

    def __init__(self, disconnect: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._wait_for_disconnect = disconnect
        self._task = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None
        self._cancelled = False

    def begin(self) -> None:
        self._watcher = asyncio.ensure_future(self._cancel_on_disconnect())

    def end(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()

    def caused_cancellation(self) -> bool:
        """Returns True if the disconnection was the only reason for the cancellation, and withdraws the request to cancel."""
        assert self._task is not None
        return self._cancelled and self._task.uncancel() == 0

    async def _cancel_on_disconnect(self) -> None:
        await self._wait_for_disconnect()
        assert self._task is not None
        self._cancelled = True
        self._task.cancel()
