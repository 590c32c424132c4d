"""Programs talk to a bot through signed requests."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.doors.talking import Talk, talking, webhook_served
from toolcaddie.app.settings import ChannelSettings
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.channels.station import Station
from toolcaddie.doors.channels.webhook import webhook
from toolcaddie.parts import Parts, Secrets
from toolcaddie.testing.webhooks import ScriptedProgram

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def program_and_bot(folder: Path, **settings: Any) -> AsyncIterator[tuple[ScriptedProgram, str, Talk]]:
    async with ScriptedProgram() as program:
        parts = Parts(secrets=Secrets({"HOOK_SECRET": program.secret}))
        service = webhook(secret_env="HOOK_SECRET", reply_url=program.url, parts=parts)
        station = Station(settings=ChannelSettings(name="hook", **settings), type="webhook", service=service)
        async with talking() as talk, webhook_served(lambda _: station, talk, folder / "db") as (url, _):
            yield program, url, talk


def message(number: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": f"m{number}", "chat": "room", "person": "ann", "text": f"Hello {number}", **more}


async def test_a_signed_message_is_answered_once_by_a_signed_reply(tmp_path: Path) -> None:
    async with program_and_bot(tmp_path, allow=("ann",)) as (program, url, _):
        program.faults = [500, 503, 429]
        assert [await program.post(url, message()) for _ in range(3)] == [202, 202, 202]
        (reply,) = await program.replies(1)
        assert await program.post(url, message(2, person="bob")) == 202
        assert await program.post(url, message(3, name="Ann", group=True)) == 202
        assert await program.post(url, message(4)) == 202
        await program.replies(2)
    assert (reply["chat"], reply["text"]) == ("room", "You said: Hello 1")
    assert [each["text"] for each in program.received.values()] == ["You said: Hello 1", "You said: Hello 4"]
    assert not program.wrong


async def test_requests_that_are_unsigned_old_or_malformed_are_refused_without_a_word(tmp_path: Path) -> None:
    async with program_and_bot(tmp_path, allow=("*",)) as (program, url, talk):
        assert await program.post(url, message(), signature="v1,AAAA") == 401
        assert await program.post(url, message(), signature="") == 401
        assert await program.post(url, message(), at=time.time() - 600) == 401
        assert await program.post(url, message(), at=time.time() + 600) == 401
        assert await program.post(url, b"{") == 400
        assert await program.post(url, message(unknown=1)) == 400
        assert await program.post(url, message() | {"person": ""}) == 400
        assert await program.post(url, b"x" * 1_100_000) == 413
    assert not talk.works


async def test_a_hundred_chats_are_answered_at_once(tmp_path: Path) -> None:
    async with program_and_bot(tmp_path, allow=("*",)) as (program, url, _):
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
