"""A model server for benchmarks, which takes nearly no time: fixed answers in the formats of four APIs, whole or streamed.

python -m benchmarks.upstream --port 9000

It prints the port it listens on (`--port 0` picks one) and serves until it is killed. `Upstream` starts it from Python.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import cast

import uvloop

from benchmarks.canned import CANNED

_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _plain(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _chunks(events: Sequence[bytes]) -> tuple[bytes, ...]:
    """Returns the events as HTTP chunks, with the last, empty chunk."""
    return (*(b"%x\r\n%b\r\n" % (len(event), event) for event in events), b"0\r\n\r\n")


_PLAIN = {ending: _plain(canned.plain) for ending, canned in CANNED.items()}
_STREAM = {ending: _chunks(canned.events) for ending, canned in CANNED.items()}
_CHAT = b"/chat/completions"
_MODELS_BODY = b'{"object":"list","data":[{"id":"bench","object":"model","created":0,"owned_by":"bench"}]}'
_MODELS = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_MODELS_BODY),
    _MODELS_BODY,
)


class _Connection(asyncio.Protocol):
    """A connection with a minimal HTTP/1.1 parser, which finds the end of a request and whether it wants a stream."""

    def __init__(self, delay: float = 0.0) -> None:
        """`delay`: seconds from a request to its answer."""
        self._buffer, self._delay = b"", delay
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class does not inherit from it

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._request_end()) is not None:
            request, self._buffer = self._buffer[:end], self._buffer[end:]
            if self._delay:
                self._loop.call_later(self._delay, self._answer, request)
            else:
                self._answer(request)

    def _request_end(self) -> int | None:
        """Returns the length of the first request in the buffer, or None if the request is not complete yet."""
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return None
        head = self._buffer[:head_end].lower()
        if b"transfer-encoding: chunked" in head:
            end = self._buffer.find(b"\r\n0\r\n\r\n", head_end)
            return None if end < 0 else end + 7
        _, has_length, rest = head.partition(b"content-length:")
        end = head_end + 4 + (int(rest.split(b"\r\n", 1)[0]) if has_length else 0)
        return end if len(self._buffer) >= end else None

    def _answer(self, request: bytes) -> None:
        if request.startswith(b"GET"):
            self._transport.write(_MODELS)
            return
        ending = _ending(request)
        if b'"stream":true' in request or b'"stream": true' in request or ending.startswith(b":stream"):
            self._transport.write(_STREAM_HEAD)
            self._write_from(_STREAM[ending], 0)
        else:
            self._transport.write(_PLAIN[ending])

    def _write_from(self, stream: Sequence[bytes], position: int) -> None:
        """Writes one event per turn of the event loop. Otherwise all events would arrive as one piece, unlike the answer of a
        model."""
        self._transport.write(stream[position])
        if position + 1 < len(stream) and not self._transport.is_closing():
            self._loop.call_soon(self._write_from, stream, position + 1)


def _ending(request: bytes) -> bytes:
    """Returns the key of the answer in `CANNED`; for an unknown path that of chat completions."""
    path = request.split(b" ", 2)[1].partition(b"?")[0]
    return next((ending for ending in CANNED if path.endswith(ending)), _CHAT)


class Upstream:
    """The server in a process of its own, for the length of a `with` block."""

    def __enter__(self) -> Upstream:
        command = [sys.executable, "-m", "benchmarks.upstream", "--port", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.root = f"http://127.0.0.1:{self.port}"
        self.base_url = f"{self.root}/v1"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


async def _serve(port: int, delay: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(delay), "127.0.0.1", port, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--delay", type=float, default=0.0, metavar="SECONDS")
    options = parser.parse_args()
    uvloop.run(_serve(options.port, options.delay))


if __name__ == "__main__":
    main()
