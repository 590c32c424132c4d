"""More faults for the scripts of `ScriptedUpstream`, the server for tests: damaged, noisy, slow and endless answers.

`testing.upstream` has the usual faults. Each function here returns a step of a script. It works with every wire, that is, with
the API of every provider that the server can imitate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from aiohttp import web

from toolcaddie.testing.script import Reply
from toolcaddie.testing.upstream import Exchange, Step
from toolcaddie.wires.bodies import ENCODER

_FLOOD = b"a" * (256 * 1024)
"""The bytes that `flood` sends again and again."""

Alter = Callable[[list[bytes]], Iterable[bytes]]
"""Takes the data of the events of a reply, and returns the data to send instead. An answer without streaming is one event."""


def altered(reply: Reply, alter: Alter) -> Step:
    """Returns a step that sends what `alter` makes of the reply's events: it may omit, double, damage or add events."""
    return _Altered(reply=reply, alter=alter)


def noisy(reply: Reply, noise: bytes) -> Step:
    """Returns a step that sends these bytes after each event of a stream, such as comments. Without streaming, the reply is
    sent as it is: a JSON body has no place for comments."""
    return _Noisy(reply=reply, noise=noise)


def dripped(reply: Reply) -> Step:
    """Returns a step that sends the reply byte by byte, so that every character, escape sequence and event is divided."""
    return _Dripped(reply=reply)


def flood() -> Step:
    """Returns a step that sends an answer, or one event of a stream, that does not end until the client disconnects."""
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
        if not exchange.streams:
            return await exchange.send_json(200, exchange.whole(self.reply))
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
