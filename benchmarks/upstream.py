"""A provider that costs next to nothing: canned chat completions, plain or as a stream of 20 events, from its own process.

python -m benchmarks.upstream --port 9000

It prints the port it listens on (`--port 0` picks one) and serves until it is killed. `Upstream` starts it from Python.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import cast

import uvloop

EVENTS = 20
"""Events of a stream, without [DONE]."""

_WORDS = ("The", "membership", "of", "John", "was", "frozen", "until", "the", "end", "of", "the", "month.")


def _body(kind: str, choices: list[dict[str, object]], **more: object) -> bytes:
    head = {"id": "chatcmpl-bench", "object": kind, "created": 1_700_000_000, "model": "bench", "choices": choices}
    return json.dumps({**head, **more}, separators=(",", ":")).encode()


_USAGE = {"prompt_tokens": 120, "completion_tokens": 18, "total_tokens": 138}


def _plain() -> bytes:
    message = {"role": "assistant", "content": " ".join(_WORDS)}
    body = _body("chat.completion", [{"index": 0, "message": message, "finish_reason": "stop"}], usage=_USAGE)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _events() -> Iterator[bytes]:
    """The 20 events as HTTP chunks: a role, words, a reason, usage; then [DONE]."""
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": f"{_WORDS[i % len(_WORDS)]} "} for i in range(EVENTS - 3)]
    made = [_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    made.append(_chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}]))
    made.append(_chunk([], usage=_USAGE))
    for data in (*made, b"[DONE]"):
        event = b"data: " + data + b"\n\n"
        yield b"%x\r\n%b\r\n" % (len(event), event)


def _chunk(choices: list[dict[str, object]], **more: object) -> bytes:
    return _body("chat.completion.chunk", choices, **more)


_PLAIN = _plain()
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_STREAM = (*_events(), b"0\r\n\r\n")
_MODELS_BODY = b'{"object":"list","data":[{"id":"bench","object":"model","created":0,"owned_by":"bench"}]}'
_MODELS = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_MODELS_BODY),
    _MODELS_BODY,
)


class _Connection(asyncio.Protocol):
    """Just enough HTTP/1.1 to know where a request ends and whether it wants a stream."""

    def __init__(self) -> None:
        self._buffer = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class is none by inheritance

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._request_end()) is not None:
            request, self._buffer = self._buffer[:end], self._buffer[end:]
            self._answer(request)

    def _request_end(self) -> int | None:
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return None
        head = self._buffer[:head_end].lower()
        if b"transfer-encoding: chunked" in head:
            end = self._buffer.find(b"\r\n0\r\n\r\n", head_end)
            return None if end < 0 else end + 7
        _, found, rest = head.partition(b"content-length:")
        end = head_end + 4 + (int(rest.split(b"\r\n", 1)[0]) if found else 0)
        return end if len(self._buffer) >= end else None

    def _answer(self, request: bytes) -> None:
        if request.startswith(b"GET"):
            self._transport.write(_MODELS)
        elif b'"stream":true' in request or b'"stream": true' in request:
            self._transport.write(_STREAM_HEAD)
            self._write_from(0)
        else:
            self._transport.write(_PLAIN)

    def _write_from(self, position: int) -> None:
        """One event a turn of the loop: written at once they would arrive as one piece, which no model's answer does."""
        self._transport.write(_STREAM[position])
        if position + 1 < len(_STREAM) and not self._transport.is_closing():
            self._loop.call_soon(self._write_from, position + 1)


class Upstream:
    """The server in a process of its own, for the length of a `with` block."""

    def __enter__(self) -> Upstream:
        command = [sys.executable, "-m", "benchmarks.upstream", "--port", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", port, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9000)
    uvloop.run(_serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
