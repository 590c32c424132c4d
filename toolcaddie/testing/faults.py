"""Further faults of a scripted upstream, beside those of `testing.upstream`: steps of a script, for any wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from aiohttp import web

from toolcaddie.testing.script import Reply
from toolcaddie.testing.upstream import Exchange, Step
from toolcaddie.wires.bodies import ENCODER

_FLOOD = b"a" * (256 * 1024)

Alter = Callable[[list[bytes]], Iterable[bytes]]
"""Takes the data of a reply's events, and returns that of others. A plain answer counts as one event."""


def altered(reply: Reply, alter: Alter) -> Step:
    """Returns the reply with the events that `alter` returns: some missing, doubled, damaged, or written by the test."""
    return _Altered(reply=reply, alter=alter)


def noisy(reply: Reply, noise: bytes) -> Step:
    """Returns the reply with these bytes after each event of a stream: comments, fields without meaning."""
    return _Noisy(reply=reply, noise=noise)


def dripped(reply: Reply) -> Step:
    """Returns the reply byte by byte, so that every character, escape and event is divided."""
    return _Dripped(reply=reply)


def flood() -> Step:
    """Returns an answer, or an event, that does not end until the client disconnects."""
    return _Flood()


def hang_up() -> Step:
    """Returns a step that closes the connection before any answer."""
    return _HangUp()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Altered:
    reply: Reply
    alter: Alter

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        if not exchange.streams:
            whole = ENCODER.encode(exchange.whole(self.reply))
            return await exchange.send_body(200, b"".join(self.alter([whole])), "application/json")
        for event in self.alter(exchange.events(self.reply)):
            await exchange.send_event(event)
        return await exchange.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noisy:
    reply: Reply
    noise: bytes

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        for event in exchange.events(self.reply):
            await exchange.send_bytes(exchange.wire.block(event) + self.noise)
        return await exchange.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dripped:
    reply: Reply

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        if exchange.streams:
            body, kind = b"".join(map(exchange.wire.block, exchange.events(self.reply))), "text/event-stream"
        else:
            body, kind = ENCODER.encode(exchange.whole(self.reply)), "application/json"
        for place in range(len(body)):
            await exchange.send_bytes(body[place : place + 1], content_type=kind)
            await asyncio.sleep(0)  # the client's turn: bytes written at once would arrive together
        return await exchange.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flood:
    async def play(self, exchange: Exchange) -> web.StreamResponse:
        kind = "text/event-stream" if exchange.streams else "application/json"
        await exchange.send_bytes(b'data: {"a":"' if exchange.streams else b'{"a":"', content_type=kind)
        while True:
            await exchange.send_bytes(_FLOOD)
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _HangUp:
    async def play(self, exchange: Exchange) -> web.StreamResponse:
        return await exchange.hang_up()
