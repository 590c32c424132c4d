"""Reads the bodies of answers up to a limit. A compressed body counts by its size on the wire and by its size after it was
decompressed, which is limited while it is decompressed."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Iterator

import aiohttp

from toolcaddie.core.bounds import LARGE
from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.net.rules import refused
from toolcaddie.guards.net.turns import turn
from toolcaddie.guards.net.urls import shown

ENCODINGS = "gzip, deflate"
"""The compressions that `read_decoded` reads, as the header Accept-Encoding names them."""

_PIECE = 128 * 1024
"""Bytes that are decompressed at once."""
_MOST_MEMBERS = 100
"""The largest number of gzip files in one body. Each one costs a copy of the rest."""


async def read_capped(response: aiohttp.ClientResponse, limit: int, *, setting: str = "") -> bytes:
    """Returns the whole body, decompressed by aiohttp. Raises `OutboundError` as soon as it exceeds `limit` bytes.

    `setting`: the name of the setting of this limit, for the error message.
    """
    _check_declared(response, limit, setting)
    pieces = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > limit:
            response.close()
            raise _too_large(response, limit, setting)
        pieces.append(piece)
        if size > LARGE:
            await turn()
    return b"".join(pieces)


async def read_decoded(
    response: aiohttp.ClientResponse,
    limit: int,
    *,
    setting: str = "",
    before_large: Callable[[], Awaitable[object]] | None = None,
) -> bytes:
    """Returns the whole body of an answer that aiohttp does not decompress (`auto_decompress=False`), decompressed. Raises
    `OutboundError` as soon as more than `limit` bytes have come or were decompressed.

    `setting`: as for `read_capped`. `before_large`: awaited once, before more than `LARGE` bytes are held, to wait until there is
    room for them.
    """
    _check_declared(response, limit, setting)
    decoder = _decoder(response)
    body = bytearray()
    received = 0
    async for data in response.content.iter_any():
        received += len(data)
        if received > limit:
            response.close()
            raise _too_large(response, limit, setting)
        for piece in _decoded(decoder, data, response):
            if len(body) + len(piece) > limit:
                response.close()
                raise _too_large(response, limit, setting)
            if before_large is not None and len(body) + len(piece) > LARGE:
                await before_large()
                before_large = None
            body += piece
            if len(body) > LARGE:
                await turn()
    if not decoder.is_whole:
        raise OutboundError(f"{shown(response.url)} broke off its answer: the compressed body has no end")
    return bytes(body)


def _check_declared(response: aiohttp.ClientResponse, limit: int, setting: str) -> None:
    declared = response.content_length
    if declared is not None and declared > limit:
        response.close()
        raise _too_large(response, limit, setting)


def _too_large(response: aiohttp.ClientResponse, limit: int, setting: str) -> OutboundError:
    note = f" (setting {setting})" if setting else ""
    return refused(
        "size", f"the answer of {shown(response.url)} is larger than the {limit:,} bytes allowed for it{note}"
    )


class _Plain:
    """A body that is not compressed."""

    is_whole = True

    def pieces(self, data: bytes) -> Iterator[bytes]:
        yield data


class _Inflater:
    """A body compressed by gzip or deflate. Deflate comes with a header or without."""

    def __init__(self, encoding: str) -> None:
        self._is_gzip = encoding == "gzip"
        self._inflater: zlib._Decompress | None = None
        self._members = 0
        self.is_whole = True

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yields the decompressed data, a limited number of bytes at a time. Raises `ValueError` for data that is damaged."""
        while data and not self._is_behind(data):
            inflater = self._inflater or self._next(data)
            piece = inflater.decompress(data, _PIECE)
            if piece:
                yield piece
            data = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            self.is_whole = inflater.eof
            if inflater.eof:
                self._inflater = None

    def _is_behind(self, data: bytes) -> bool:
        """Returns True for bytes behind the end of the compressed body, which browsers ignore too."""
        return bool(self._members) and self._inflater is None and not (self._is_gzip and data.startswith(b"\x1f"))

    def _next(self, data: bytes) -> zlib._Decompress:
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise ValueError(f"it has more than {_MOST_MEMBERS} parts")
        has_header = data[0] & 0x0F == 8 and (len(data) < 2 or (data[0] * 256 + data[1]) % 31 == 0)
        bits = 16 + zlib.MAX_WBITS if self._is_gzip else zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
        self._inflater = zlib.decompressobj(bits)
        return self._inflater


def _decoder(response: aiohttp.ClientResponse) -> _Plain | _Inflater:
    encoding = response.headers.get("Content-Encoding", "").strip().lower().removeprefix("x-")
    if encoding in ("", "identity"):
        return _Plain()
    if encoding in ("gzip", "deflate"):
        return _Inflater(encoding)
    response.close()
    raise refused(
        "encoding", f"{shown(response.url)} compresses its answer by {encoding[:40]!r}, which was not asked for"
    )


def _decoded(decoder: _Plain | _Inflater, data: bytes, response: aiohttp.ClientResponse) -> Iterator[bytes]:
    try:
        yield from decoder.pieces(data)
    except (zlib.error, ValueError) as error:
        response.close()
        raise refused("encoding", f"{shown(response.url)} sent a damaged compressed body: {error}") from error
