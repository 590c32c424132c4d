"""A conversation with one bridge, over the socket `BRIDGE.mgmt` of ovs-vswitchd, in OpenFlow 1.3.

Each conversation has a connection of its own: it costs less than a millisecond, and nothing of one can reach another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.ovs import messages
from toolcaddie.tools.host.ovs.flows import ALL, Flow, Selection
from toolcaddie.tools.host.ovs.messages import HEADER, VERSION, CountedFlow, Message

MOST_BYTES = 4 * 1024 * 1024
"""Bytes of all flows of one bridge that are read."""


class Switch:
    """The flows of a bridge, as ovs-vswitchd has them."""

    def __init__(self, bridge: str, folder: str, timeout: float) -> None:
        self._bridge = bridge
        self._path = f"{folder}/{bridge}.mgmt"
        self._timeout = timeout

    async def flows(self, selection: Selection = ALL) -> list[CountedFlow]:
        """Returns flows. Raises `HostError`."""
        async with self._conversation() as conversation:
            return await conversation.flows(selection)

    async def change(self, *, removed: Sequence[Selection] = (), added: Sequence[Flow] = ()) -> None:
        """Removes flows and adds others, and returns when the switch has done it. Raises `HostError`; then some of it may be
        done."""
        bodies = [*map(messages.removing, removed), *map(messages.adding, added)]
        async with self._conversation() as conversation:
            await conversation.change(bodies)

    @asynccontextmanager
    async def _conversation(self) -> AsyncIterator[_Conversation]:
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(self._timeout):
                reader, writer = await asyncio.open_unix_connection(self._path)
                conversation = _Conversation(self._bridge, reader, writer)
                await conversation.greet()
                yield conversation
        except TimeoutError as error:
            raise HostError(f"bridge {self._bridge}: the switch has not answered within {self._timeout:g} s") from error
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise HostError(
                f"bridge {self._bridge}: ovs-vswitchd does not listen at {self._path}; is it running, and is this its folder?"
            ) from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise HostError(f"bridge {self._bridge}: the connection to the switch failed: {error}") from error
        finally:
            if writer is not None:
                writer.transport.abort()


class _Conversation:
    """Requests and answers on one connection."""

    def __init__(self, bridge: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._bridge = bridge
        self._reader = reader
        self._writer = writer
        self._xid = 0

    async def greet(self) -> None:
        self._send(messages.HELLO, messages.hello())
        answer = await self._receive()
        if answer.kind not in (messages.HELLO, messages.ERROR):
            raise HostError(f"bridge {self._bridge}: this is no OpenFlow switch")
        if answer.kind == messages.ERROR or not messages.is_spoken_by(answer):
            raise HostError(
                f"bridge {self._bridge}: the switch does not speak OpenFlow 1.3; "
                "add OpenFlow13 to the column protocols of the bridge"
            )

    async def flows(self, selection: Selection) -> list[CountedFlow]:
        xid = self._send(messages.MULTIPART_REQUEST, messages.reading(selection))
        flows: list[CountedFlow] = []
        size = 0
        while True:
            answer = await self._answer(xid, messages.MULTIPART_REPLY)
            size += len(answer.body)
            if size > MOST_BYTES:
                raise HostError(f"bridge {self._bridge}: it has more flows than can be read, {MOST_BYTES >> 20} MiB")
            part, more = messages.read_flows(answer.body)
            flows += (each for each in part if selection.includes(each.flow))
            if not more:
                return flows

    async def change(self, bodies: Sequence[bytes]) -> None:
        first = self._xid + 1
        for body in bodies:
            self._send(messages.FLOW_MOD, body)
            await self._writer.drain()
        last = self._send(messages.BARRIER_REQUEST)
        await self._answer(last, messages.BARRIER_REPLY, first=first)

    def _send(self, kind: int, body: bytes = b"") -> int:
        """Sends a request. Returns its number."""
        self._xid += 1
        self._writer.write(Message(kind=kind, xid=self._xid, body=body).encoded())
        return self._xid

    async def _answer(self, xid: int, kind: int, *, first: int | None = None) -> Message:
        """Returns the answer to a request. `first`: the first of the requests whose errors count."""
        while True:
            message = await self._receive()
            if message.kind == messages.ERROR and (xid if first is None else first) <= message.xid <= xid:
                raise HostError(f"bridge {self._bridge}: the switch has refused it: {messages.refusal(message.body)}")
            if message.kind == kind and message.xid == xid:
                return message
            if message.kind == messages.ECHO_REQUEST:
                self._writer.write(Message(kind=messages.ECHO_REPLY, xid=message.xid, body=message.body).encoded())
                await self._writer.drain()

    async def _receive(self) -> Message:
        version, kind, length, xid = HEADER.unpack(await self._reader.readexactly(HEADER.size))
        if length < HEADER.size or (version != VERSION and kind not in (messages.HELLO, messages.ERROR)):
            raise HostError(f"bridge {self._bridge}: the switch has sent a message that cannot be read")
        body = await self._reader.readexactly(length - HEADER.size)
        return Message(kind=kind, xid=xid, body=body, version=version)
