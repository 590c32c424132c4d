"""Programs talk to a bot through signed requests."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.doors.talking import Place, program_chat
from toolcaddie.core.bots import chat_origin, is_group_chat
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.channels.webhook import webhook
from toolcaddie.parts import Parts, Secrets

pytestmark = pytest.mark.anyio


def message(number: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": f"m{number}", "chat": "room", "person": "ann", "text": f"Hello {number}", **more}


async def test_a_signed_message_is_answered_once_by_a_signed_reply(place: Place) -> None:
    async with program_chat(place, allow=("ann",)) as (program, url, _):
        program.faults = [500, 503, 429]
        assert set(await asyncio.gather(*(program.post(url, message()) for _ in range(20)))) == {202}
        (reply,) = await program.replies(1)
        assert await program.post(url, message(2, person="bob")) == 202
        assert await program.post(url, message(3, name="Ann", group=True)) == 202
        assert await program.post(url, message(4)) == 202
        await program.replies(2)
    assert (reply["chat"], reply["text"]) == ("room", "You said: Hello 1")
    assert [each["text"] for each in program.received.values()] == ["You said: Hello 1", "You said: Hello 4"]
    assert not program.wrong


async def test_requests_that_are_unsigned_old_or_too_large_are_refused_without_a_word(tmp_path: Path) -> None:
    async with program_chat(tmp_path, allow=("*",)) as (program, url, talk):
        for status in (
            await program.post(url, message(), signature="v1,AAAA"),
            await program.post(url, b"", signature=""),
            await program.post(url, message(), at=time.time() - 600),
            await program.post(url, message(), at=time.time() + 600),
        ):
            assert (status, program.refusal) == (401, "")
        assert await program.post(url, b"x" * 1_100_000) == 413
    assert not talk.works


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "the body is empty; send JSON with the texts id, chat, person and text"),
        (b"{", "Input data was truncated; send JSON"),
        (b"{}", "Object missing required field `id`"),
        (message(unknown=1), "Object contains unknown field `unknown`"),
        (message() | {"person": ""}, "Expected `str` of length >= 1 - at `$.person`"),
        (message() | {"person": "an\nn"}, "id, chat or person has a control character"),
    ],
)
async def test_a_signed_request_with_a_wrong_body_reads_what_is_wrong(tmp_path: Path, body: Any, problem: str) -> None:
    async with program_chat(tmp_path, allow=("*",)) as (program, url, talk):
        assert await program.post(url, body) == 400
        assert problem in program.refusal
    assert not talk.works


async def test_a_hundred_chats_are_answered_at_once(place: Place) -> None:
    async with program_chat(place, allow=("*",)) as (program, url, _):
        statuses = await asyncio.gather(
            *(program.post(url, message(n, chat=str(n), person=str(n))) for n in range(100))
        )
        replies = await program.replies(100)
    assert set(statuses) == {202}
    assert {(each["chat"], each["text"]) for each in replies} == {(str(n), f"You said: Hello {n}") for n in range(100)}


def test_a_short_secret_is_refused() -> None:
    parts = Parts(secrets=Secrets({"HOOK_SECRET": "short"}))
    with pytest.raises(ConfigError, match="too short"):
        webhook(secret_env="HOOK_SECRET", reply_url="http://127.0.0.1/", parts=parts)


async def test_a_signed_request_counts_for_five_minutes_by_either_clock_and_its_message_once(place: Place) -> None:
    now = [1_700_000_000.0]
    async with program_chat(place, clock=lambda: now[0], allow=("*",)) as (program, url, talk):
        for number, skew in enumerate((-300, 300)):
            assert await program.post(url, message(number), at=now[0] + skew) == 202
        for skew in (-301, 301):
            assert await program.post(url, message(9), at=now[0] + skew) == 401
        await program.replies(2)
        now[0] += 299
        assert await program.post(url, message(0), at=1_700_000_000.0) == 202
        now[0] += 2
        assert await program.post(url, message(0), at=1_700_000_000.0) == 401
        assert await program.post(url, message(2), at=now[0]) == 202
        await program.replies(3)
    assert [work.message for work in talk.works] == ["Hello 0", "Hello 1", "Hello 2"]


async def test_ids_of_any_letters_have_chats_of_their_own_and_control_characters_are_refused(place: Place) -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    chats = ["房间", family, "é" * 128, "room", "room#1", "group:room", "a:b%00"]
    async with program_chat(place, allow=("*",), groups=("room",)) as (program, url, talk):
        for number, chat in enumerate(chats):
            assert await program.post(url, message(number, chat=chat, person=chat, id=f"m{chat}"[:128])) == 202
        assert await program.post(url, message(100, chat="room", group=True)) == 202
        replies = await program.replies(len(chats) + 1)
        for bad in ("a\0b", "a\nb", "\u202eevil", "\ud800", "", "x" * 129):
            for field in ("id", "chat", "person"):
                assert await program.post(url, message() | {field: bad}) == 400
        for body in (b"", b"null", b"[]", b"\xff\xfe", b'{"a":' * 5_000, b"chat=room&person=ann"):
            assert await program.post(url, body) == 400
    assert sorted(each["chat"] for each in replies) == sorted([*chats, "room"])
    names = [work.chat for work in talk.works]
    assert len(set(names)) == len(chats) + 1
    assert [name for name in names if is_group_chat(name)] == ["hook:group:room"]
    assert all(chat_origin(name) == name for name in names)
    assert all(len(name) <= 140 for name in names)
