"""People talk to a bot through Telegram, by long polling, against a strict local server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doors.talking import running, talking, telegram_station
from toolcaddie.testing.telegram import ScriptedTelegram

pytestmark = pytest.mark.anyio


async def test_a_person_of_the_allow_list_gets_an_answer_and_nobody_else_does(tmp_path: Path) -> None:
    async with ScriptedTelegram() as server, talking() as talk:
        async with running([telegram_station(server, allow=("1",))], talk, tmp_path / "db"):
            server.write("Let me in", person=2)
            server.write("Hello", person=1)
            await server.answers(1)
            server.write("Are you there?", person=1)
            sent = await server.answers(2)
    assert [(each["chat_id"], each["text"]) for each in sent] == [
        (1, "You said: Hello"),
        (1, "You said: Are you there?"),
    ]
    assert [work.principal.id for work in talk.works] == ["tg:1", "tg:1"]
    assert not server.refusals


async def test_nobody_may_talk_to_a_bot_by_default(tmp_path: Path) -> None:
    async with ScriptedTelegram() as server, talking() as talk:
        async with running([telegram_station(server)], talk, tmp_path / "db"):
            last = server.write("Hello", person=1)
            await server.until(lambda: ("getUpdates", last["update_id"] + 1) in _polled(server))
    assert not server.sent
    assert not talk.works


def _polled(server: ScriptedTelegram) -> list[tuple[str, int]]:
    return [(method, parameters.get("offset", 0)) for method, parameters in server.calls if method == "getUpdates"]
