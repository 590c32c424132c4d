"""Checks of a channel. They do not test whether its service is understood rightly, but whether it is safe to run beside others.

Part of the contract suite `CHANNEL` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TypeVar

from toolcaddie.core.channels import ChannelReply, ChannelRequest, Incoming, Outgoing
from toolcaddie.core.errors import OutboundError, ProviderError
from toolcaddie.ports.channels import Channel, FileChannel
from toolcaddie.testing.contract import Checks, ContractError, expect
from toolcaddie.testing.part_contracts.subject import Subject

CHECKS: Checks[Subject[Channel]] = Checks()

T = TypeVar("T")

_SECONDS = 30.0
_SHORTEST = 100
_REFERENCES = ("nothing", "../../etc/passwd", "http://127.0.0.1/", "")
_BODIES = (b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b'{"a":' * 500, b'{"id": 1e999}', b"x" * 100_000)
_HEADERS: tuple[Mapping[str, str], ...] = (
    {},
    {"authorization": "Bearer guess", "content-type": "application/json"},
    {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"},
    {"x-hub-signature-256": "sha256=" + "0" * 64},
    {"x-signature": "\u00e9\x7f"},
)


class _Inbox:
    """Implements `ports.ChannelInbox` in memory."""

    url_path = "/channels/contract"

    def __init__(self) -> None:
        self.messages: list[Incoming] = []
        self._notes: dict[str, str] = {}

    async def put(self, message: Incoming) -> None:
        self.messages.append(message)

    async def recall(self, key: str) -> str | None:
        return self._notes.get(key)

    async def note(self, key: str, value: str, *, seconds: float | None = None) -> None:
        self._notes[key] = value


async def _opened(subject: Subject[Channel]) -> tuple[Channel, _Inbox]:
    channel, inbox = subject.make(), _Inbox()
    await _soon(channel.open(inbox), "open")
    return channel, inbox


async def _soon(work: Awaitable[T], name: str, seconds: float = _SECONDS) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise ContractError(f"{name} did not end within {seconds:g} s") from error


async def _received(channel: Channel, method: str, headers: Mapping[str, str], body: bytes) -> ChannelReply:
    request = ChannelRequest(method=method, query={}, headers=headers, body=body)
    try:
        return await _soon(channel.receive(request), "receive")
    except ProviderError:
        return ChannelReply(status=503)


@CHECKS.add()
async def its_limits_are_numbers(subject: Subject[Channel]) -> None:
    channel = subject.make()
    expect(isinstance(channel.longest, int) and channel.longest >= _SHORTEST, f"longest is {channel.longest!r}")
    seconds = channel.busy_seconds
    expect(isinstance(seconds, int | float) and seconds >= 0, f"busy_seconds is {seconds!r}")
    await channel.close()


@CHECKS.add()
async def opening_does_not_wait_for_the_service(subject: Subject[Channel]) -> None:
    channel = subject.make()
    await _soon(channel.open(_Inbox()), "open", 2.0)
    await channel.close()


@CHECKS.add()
async def a_request_without_a_valid_signature_is_refused_and_puts_nothing(subject: Subject[Channel]) -> None:
    channel, inbox = await _opened(subject)
    for method in ("POST", "GET"):
        for headers in _HEADERS:
            for body in _BODIES:
                reply = await _received(channel, method, headers, body)
                expect(reply.status >= 400, f"a {method} with {body[:20]!r} and no signature got status {reply.status}")
                expect(len(reply.body) < 200, "the refusal explains itself to whoever asks")
    expect(not inbox.messages, "a request without a valid signature put a message into the inbox")
    await channel.close()


@CHECKS.add()
async def listening_ends_when_it_is_cancelled(subject: Subject[Channel]) -> None:
    channel, _ = await _opened(subject)
    task = asyncio.ensure_future(channel.listen())
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    expect(task.done(), "listen went on for 5 s after it was cancelled")
    if not task.cancelled() and (error := task.exception()) is not None:
        expect(isinstance(error, ProviderError), f"listen raised {type(error).__name__}, not a ProviderError")
    await channel.close()


@CHECKS.add()
async def sending_to_an_unknown_chat_ends_with_or_without_a_provider_error(subject: Subject[Channel]) -> None:
    channel, _ = await _opened(subject)
    for chat in ("1", "no such chat", "\u00e9" * 50):
        try:
            await _soon(channel.send(Outgoing(chat=chat, text="Hello", key=f"contract-{chat}")), "send")
        except ProviderError:
            continue
    await channel.close()


@CHECKS.add()
async def an_unknown_picture_is_an_error_of_the_service(subject: Subject[Channel]) -> None:
    channel, _ = await _opened(subject)
    for reference in _REFERENCES:
        try:
            await _soon(channel.picture(reference), "picture")
        except (ProviderError, OutboundError):
            continue
        raise ContractError(f"it returned a picture for the reference {reference!r}")
    await channel.close()


@CHECKS.add()
async def an_unknown_file_is_an_error_of_the_service(subject: Subject[Channel]) -> None:
    channel, _ = await _opened(subject)
    if isinstance(channel, FileChannel):
        for reference in _REFERENCES:
            try:
                await _soon(channel.file(reference, 100), "file")
            except (ProviderError, OutboundError):
                continue
            raise ContractError(f"it returned a file for the reference {reference!r}")
    await channel.close()


@CHECKS.add()
async def it_can_be_closed_twice_and_before_it_was_opened(subject: Subject[Channel]) -> None:
    await _soon(subject.make().close(), "close")
    channel, _ = await _opened(subject)
    await _soon(channel.close(), "close")
    await _soon(channel.close(), "close")
