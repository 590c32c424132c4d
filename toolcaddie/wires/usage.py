"""Reads the tokens of an answer that is passed on unchanged, whole or streamed, of OpenAI's and Anthropic's APIs.

Only the parts of an answer that report tokens are decoded, because passing on must stay fast.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from toolcaddie.core.schema.encoding import BYTES_PER_TOKEN
from toolcaddie.core.usage import Usage
from toolcaddie.util.replacing import replace

_LARGEST = 32 * 1024 * 1024
"""Bytes of a whole answer, or of one event, above which its tokens are estimated."""


class _Details(Struct):
    cached_tokens: int | None = None


class _Tokens(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Inner(Struct):
    model: str | None = None
    usage: _Tokens | None = None


class _Answer(_Inner):
    response: _Inner | None = None
    message: _Inner | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class AnswerUsage:
    """Collects the tokens of one answer from the pieces of its body. `streams`: the body is an event stream."""

    def __init__(self, *, streams: bool) -> None:
        self._streams = streams
        self._pieces: list[bytes] = []
        self._size = 0
        self._events = 0
        self.model = ""
        """The model that the answer names; empty: it names none."""
        self.usage: Usage | None = None
        """None: the answer has reported no tokens so far."""

    def add(self, piece: bytes) -> None:
        """Takes the next piece of the body."""
        self._size += len(piece)
        if self._size <= _LARGEST:
            self._pieces.append(piece)
        if self._streams and b"\n" in piece:
            lines = b"".join(self._pieces).split(b"\n")
            rest = lines.pop()
            self._pieces, self._size = [rest], len(rest)
            for line in lines:
                if line.startswith(b"data:"):
                    self._events += 1
                    if b'"usage"' in line:
                        self._read(line[5:])

    def end(self) -> None:
        """Reads a whole answer, after its last piece."""
        if not self._streams and self._size <= _LARGEST:
            self._read(b"".join(self._pieces))

    @property
    def output_estimate(self) -> int:
        """Estimates the tokens of the answer so far: an event carries about one token."""
        return self._events if self._streams else int(self._size / BYTES_PER_TOKEN)

    def _read(self, body: bytes) -> None:
        try:
            answer = _decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return  # not an answer of these APIs: its tokens are estimated
        for part in (answer, answer.response, answer.message):
            if part is None:
                continue
            self.model = part.model or self.model
            if part.usage is not None:
                self._take(part.usage)

    def _take(self, tokens: _Tokens) -> None:
        """Takes reported tokens. A stream of the Messages API reports those of the input first, and those of the output later."""
        before = self.usage or Usage()
        written, read = tokens.cache_creation_input_tokens, tokens.cache_read_input_tokens
        details = tokens.prompt_tokens_details or tokens.input_tokens_details
        cached = read if read is not None else None if details is None else details.cached_tokens
        given = tokens.prompt_tokens if tokens.prompt_tokens is not None else tokens.input_tokens
        output = tokens.completion_tokens if tokens.completion_tokens is not None else tokens.output_tokens
        usage = before
        if given is not None:
            usage = replace(usage, input_tokens=given + (written or 0) + (read or 0))
        if output is not None:
            usage = replace(usage, output_tokens=output)
        if cached is not None:
            usage = replace(usage, cached_tokens=cached)
        if written is not None:
            usage = replace(usage, written_tokens=written)
        self.usage = usage
