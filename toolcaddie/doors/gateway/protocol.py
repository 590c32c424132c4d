"""HTTP protocol of `toolcaddie serve`: uvicorn's protocol on httptools, with bounds on the bytes that precede authentication.

    uvicorn.Config(app, http=bounded_protocol(Bounds()))

uvicorn limits neither the size of the URL and the headers nor the time in which they arrive, and httptools joins the pieces of
one header again and again. So the bytes are counted here before the parser sees them. A request beyond the bounds gets an error
in the format of its door, and its connection is closed. The size of bodies is limited later, in `exchange`.

The class has these attributes from uvicorn: `cycle` is the current request with its answer, `pipeline` has the requests that wait
for it, `flow` pauses and resumes the reading of the connection, and `connections` has all open connections of the server.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.joined import JoinedWrites
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.ports.wires import DoorWire
from toolcaddie.wires import chat

resource: Any = importlib.import_module("resource") if importlib.util.find_spec("resource") else None
"""None on Windows, which has no such module."""

_SLICE = 16 * 1024
"""The largest number of bytes that the parser gets at once while headers arrive."""
_FRAMING = 16
"""The largest number of bytes that the length line and the line ends of one chunk of a body may take."""
_LINGER = 2.0
"""Seconds for which the rest of a refused request is read and dropped, up to the largest size of a body. If the connection were
closed at once, the client would see a reset instead of the answer."""

_OTHER_FILES = 256
"""Number of open files besides those of requests. A request needs two: the connections to its client and to the upstream."""

_LENGTHS = (b"content-length", b"transfer-encoding")
"""Headers that say how long the body is."""

_Phase = Literal["idle", "head", "body", "refused"]
"""The part of a request that a connection waits for: no part (`idle`), the URL and headers (`head`), or the body. `refused`: an
error was sent, and nothing more is read."""


class _Refused(Exception):
    """Raised inside the parser's callbacks to stop the parser."""

    def __init__(self, refusal: Problem) -> None:
        self.problem = refusal


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `bounds` and `doors`, the wires of the doors by their paths, are set by `bounded_protocol`."""

    bounds = Bounds()
    doors: Mapping[str, DoorWire] = MappingProxyType({})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.url = b""
        self._phase: _Phase = "idle"
        self._timer_phase: _Phase = "idle"
        """The phase whose duration `_timer` limits."""
        self._timer: asyncio.TimerHandle | None = None
        self._started_at = 0.0
        self._fed_bytes = self._body_bytes = self._header_bytes = self._header_count = self._chunks = 0
        """Counts of the current message, in this order: bytes passed to the parser, bytes of the body, bytes of complete
        headers, headers, and chunks."""
        self._dropped_bytes = 0
        """Bytes that arrived after the answer to their own request."""
        self._refusal: Problem | None = None
        self._body_unparsed = False
        """True if the parser has ended the message after its headers, although a body follows: the request offers to switch to
        another protocol."""

    # --- the connection ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts the connection, or refuses it if too many connections are open and none of them can be closed."""
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        self._started_at = self.loop.time()
        if len(self.connections) > self.bounds.connections and not self._make_room():
            self._refuse(_busy(self.bounds))
            return
        self._phase = "head"
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _make_room(self) -> bool:
        """Closes the connection that has waited longest for a complete request. Returns False if no connection waits."""
        others: set[Any] = self.connections - {self}
        waiting: list[BoundedProtocol] = [other for other in others if other._is_waiting()]
        if not waiting:
            return False
        longest = min(waiting, key=lambda other: other._started_at)
        self.connections.discard(longest)
        longest.transport.abort()
        return True

    def _is_waiting(self) -> bool:
        """Returns True if no request of this connection is being processed: its request is incomplete or was answered."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.disconnected:
            return True
        return self._phase == "body" and not self.pipeline

    # --- what arrives ------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Counts the bytes, passes them to the parser, and refuses a request that is beyond the bounds or invalid."""
        if self._phase == "refused" or self._answered_early():
            self._drop(len(data))
        if self._phase == "refused" or (self._phase == "idle" and not data.strip(b"\r\n")):
            return  # empty lines between two requests are ignored, because some clients end a body with one
        self._unset_keepalive_if_required()
        if self._phase == "idle":
            self._phase, self._started_at = "head", self.loop.time()
        try:
            for piece in (data,) if len(data) <= _SLICE else self._pieces(data):
                self._feed(piece)
                self._check_framing()
        except _Refused as refused:
            self._refuse(refused.problem)
        except httptools.HttpParserError as error:
            self._refuse(self._refusal or _bad_request(f"this is not a valid HTTP request: {str(error)[:200]}"))
        if self._phase != self._timer_phase:
            self._watch()

    def _feed(self, piece: bytes | memoryview) -> None:
        """Passes a piece to the parser, which calls the `on_` methods."""
        self._fed_bytes += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as offer:  # an offer of HTTP/2, which is ignored
            remainder = piece[offer.args[0] :]
            self._fed_bytes -= len(remainder)
            if self._body_unparsed:
                self._read_body()
            if remainder:
                self._feed(remainder)

    def _read_body(self) -> None:
        """Makes a new parser for the body of a request that offers to switch to another protocol. The old parser would read the
        body as bytes of that protocol, or as the next request."""
        fields = b"".join(b"%b: %b\r\n" % pair for pair in self.headers if pair[0] in _LENGTHS)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(b"POST / HTTP/1.1\r\n" + fields + b"\r\n")
        self._body_unparsed = False

    def _answered_early(self) -> bool:
        """Returns True if the current request was answered before the end of its body."""
        return self._phase == "body" and self.cycle is not None and self.cycle.response_complete

    def _drop(self, size: int) -> None:
        """Counts bytes that nobody reads. If there are too many, the reading stops."""
        self._dropped_bytes += size
        if self._dropped_bytes > self.bounds.body:
            self.flow.pause_reading()  # the timer closes the connection

    def _pieces(self, data: bytes) -> Iterator[memoryview]:
        """Yields small pieces while headers arrive, so that at most one piece is read beyond the bounds."""
        view, at = memoryview(data), 0
        while at < len(data):
            size = _SLICE if self._phase == "head" else len(data)
            yield view[at : at + size]
            at += size

    def _start_message(self) -> None:
        """Sets the counts of the current message to zero."""
        self._fed_bytes = self._body_bytes = self._header_bytes = self._header_count = self._chunks = (
            self._dropped_bytes
        ) = 0

    def _check_framing(self) -> None:
        """Refuses a request with too many bytes that belong neither to its body nor to complete headers, such as an endless
        header, trailer or chunk extension."""
        bounds = self.bounds
        if self._phase == "head" and self._fed_bytes > bounds.headers + bounds.url:
            raise _Refused(_headers_too_large(bounds))
        if self._fed_bytes - self._body_bytes - self._chunks * _FRAMING > bounds.headers + bounds.url:
            raise _Refused(
                _fields_too_large(beyond("trailers or chunk extensions are too large", bounds.headers, "headers"))
            )

    # --- what the parser calls ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begins a request. Stops the parser if too many requests of this connection wait."""
        if self._body_unparsed:
            return  # the parser of `_read_body` repeats a message whose headers were read already
        self._unset_keepalive_if_required()
        super().on_message_begin()
        if len(self.pipeline) >= self.bounds.pipelined:
            message = beyond("too many requests at once on one connection", self.bounds.pipelined, "pipelined")
            self._stop(_bad_request(message))
        self._phase = "head"

    def on_url(self, url: bytes) -> None:
        if self._body_unparsed:
            return
        super().on_url(url)
        if len(self.url) > self.bounds.url:
            message = beyond("the URL is too long", self.bounds.url, "url")
            self._stop(problem(414, message, kind="invalid_request_error", code="url_too_long"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a complete header or trailer. Stops the parser if it or all headers together are beyond the bounds."""
        if self._body_unparsed:
            return
        bounds, size = self.bounds, len(name) + len(value)
        self._header_bytes += size
        self._header_count += 1
        many = self._header_count > bounds.header_count
        if many or size > bounds.header_line or self._header_bytes > bounds.headers:
            self._stop(self._too_much_of_headers(name, size))
        if self._phase == "head":
            HttpToolsProtocol.on_header(self, name, value)  # trailers are ignored

    def _too_much_of_headers(self, name: bytes, size: int) -> Problem:
        """Returns the refusal of a request whose headers are beyond the bounds. `name`, `size`: the header that came last."""
        bounds = self.bounds
        if size > bounds.header_line:
            header_name = name[:64].decode("latin-1")
            return _fields_too_large(
                beyond(f"the header {header_name!r} has {size:,} bytes", bounds.header_line, "header_line")
            )
        if self._header_bytes > bounds.headers:
            return _headers_too_large(bounds)
        return _fields_too_large(beyond("the request has too many headers", bounds.header_count, "header_count"))

    def on_headers_complete(self) -> None:
        """Passes the request to the application, which then reads its body."""
        if self._body_unparsed:
            return
        self._phase = "body"
        self._body_unparsed = self.parser.should_upgrade() and any(
            name in _LENGTHS and value != b"0" for name, value in self.headers
        )
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Takes a piece of the body. Stops the parser if there are too many pieces."""
        self._body_bytes += len(body)
        self._chunks += 1
        if self._chunks > self.bounds.chunks:
            self._stop(_bad_request(beyond("the body comes in too many chunks", self.bounds.chunks, "chunks")))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends a request. The connection then waits for another one."""
        if self._body_unparsed:
            return
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete and not self.transport.is_closing():
            # The wait for another request began with the answer; the rest of the body ended it, so it begins again.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        self._phase = "idle"
        self._start_message()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._phase == "body":  # answered before the end of its body, which is now read and dropped
            self._set_timer(_LINGER, self.transport.close)

    def _stop(self, refusal: Problem) -> None:
        """Ends the parsing. The refusal is stored, because the parser raises its own exception instead of the callback's."""
        self._refusal = refusal
        raise _Refused(refusal)

    # --- time --------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Sets the timer of the phase that has begun."""
        self._timer_phase = self._phase
        if self._phase == "head":
            self._set_timer(self.bounds.head_seconds, self._too_slow)
        elif self._phase == "body":
            if self._answered_early():
                self._set_timer(_LINGER, self.transport.close)
            else:
                self._set_timer(self.bounds.body_seconds, self._too_slow)
        elif self._phase == "idle":
            self._stop_timer()

    def _set_timer(self, seconds: float, callback: Any) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, callback)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        setting = "head_seconds" if self._phase == "head" else "body_seconds"
        part = "headers" if self._phase == "head" else "body"
        seconds = getattr(self.bounds, setting)
        message = f"the {part} of the request did not arrive within {seconds:g} seconds (setting bounds.{setting})"
        self._refuse(problem(408, message, kind="invalid_request_error", code="request_timeout"))

    # --- refusing ----------------------------------------------------------------------------------------------------

    def _wire(self) -> DoorWire:
        """Returns the wire in which the refusal of the current request is written."""
        path = self.url.partition(b"?")[0].decode("latin-1")
        return next((wire for door, wire in self.doors.items() if f"{path}/".startswith(f"{door}/")), chat.WIRE)

    def _refuse(self, refusal: Problem) -> None:
        """Sends the refusal, unless the application is sending an answer, and closes the connection once the client has had time
        to read it.

        An error after a complete request does not affect that request: it gets its answer before the connection is closed.
        """
        under_way = self._phase == "body" and self.cycle is not None
        self._phase = self._timer_phase = "refused"
        if self.transport.is_closing():
            return
        if not under_way and not self.pipeline and self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
            self.cycle.keep_alive = False
            return
        if self.pipeline:  # the client would read the refusal as the answer to the first of these requests
            self.pipeline.clear()
            self.transport.close()
            return
        answering = self.cycle is not None and not self.cycle.response_complete
        silent = not answering or (under_way and not self.cycle.response_started)
        if answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.pipeline.clear()
        if not silent:  # part of an answer was sent, so a refusal cannot follow
            self.transport.close()
            return
        self.transport.write(_response(refusal, self._wire()))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._set_timer(_LINGER, self.transport.abort)


def bounded_protocol(bounds: Bounds, doors: Mapping[str, DoorWire] = MappingProxyType({})) -> type[BoundedProtocol]:
    """Returns the protocol class with these bounds, for `uvicorn.Config(http=...)`. Errors have the format of the door whose path
    was asked for, otherwise OpenAI's."""
    return type("BoundedProtocol", (BoundedProtocol,), {"bounds": bounds, "doors": doors})


def _response(refusal: Problem, wire: DoorWire) -> bytes:
    """Returns the refusal as a whole HTTP response."""
    body = wire.write_error(refusal)
    fields = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **refusal.headers,
        "connection": "close",
    }
    lines = b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in fields.items())
    return STATUS_LINE[refusal.status] + lines + b"\r\n" + body


def _bad_request(message: str) -> Problem:
    return problem(400, message, kind="invalid_request_error", code="bad_request")


def _fields_too_large(message: str) -> Problem:
    return problem(431, message, kind="invalid_request_error", code="headers_too_large")


def _headers_too_large(bounds: Bounds) -> Problem:
    return _fields_too_large(beyond("the headers of the request are too large together", bounds.headers, "headers"))


def _busy(bounds: Bounds) -> Problem:
    message = beyond("too many connections are open", bounds.connections, "connections")
    return problem(503, message, kind="server_error", code="too_many_connections", headers={"retry-after": "1"})


def more_files(connections: int) -> None:
    """Raises the process's soft limit of open files to what this number of connections needs, as far as the hard limit allows."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
