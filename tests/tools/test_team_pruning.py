"""Chats of sessions between bots are removed with the runs of their time, and no other chats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.databases import KINDS, database_url, url_of_kind
from tests.doors.commandline import CommandLine
from toolcaddie.app.pruning import pruned
from toolcaddie.app.settings.model import StorageSettings
from toolcaddie.core.bots import ChatKey, ChatTurn
from toolcaddie.core.control import Principal
from toolcaddie.personas import StoredChats
from toolcaddie.storage.database import Database
from toolcaddie.tools.team.pruning import old_session_chats, prune_sessions
from toolcaddie.tools.team.sessions import Sessions, session_chat
from toolcaddie.tools.team.settings import TeamSettings

pytestmark = pytest.mark.anyio

DAY = 86_400.0
COACH = Principal(id="ann", bot="coach")
OF_PEOPLE = ("telegram:42", "session:42", "session:desk-42", "session:other-0123456789abcdef")
"""Chats of people, some in a channel with the name `session`."""


class Clock:
    """A clock that a test sets forward."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[Database]:
    async with Database(url_of_kind(request, tmp_path / "data.sqlite"), clock=clock, steady=clock) as opened:
        yield opened


def chat(name: str, bot: str = "desk") -> ChatKey:
    return ChatKey(tenant="default", bot=bot, chat=name)


SESSION = chat("session:desk-0123456789abcdef")


async def said(chats: StoredChats, key: ChatKey, at: float) -> None:
    await chats.add(key, [ChatTurn(role="user", text="When do you open?", at=at, who="default/ann")])


async def test_a_chat_goes_when_its_session_is_over_and_its_last_message_is_old(
    database: Database, clock: Clock
) -> None:
    chats = StoredChats(database.store)
    sessions = Sessions(database.store, TeamSettings(session_ttl=20 * DAY), clock=clock)
    keys = []
    for work in ("one", "two"):
        entered = await sessions.enter(COACH, "desk", work, session="", visible=False)
        keys.append(chat(session_chat(entered.session)))
        await said(chats, keys[-1], clock.now)
    for name in OF_PEOPLE:
        await said(chats, chat(name), clock.now)
    first, second = keys

    async def old(days: int) -> list[ChatKey]:
        return [*await old_session_chats(database.store, chats, older_than=days * DAY, clock=clock)]

    clock.now += 10 * DAY
    assert (await old(11), await old(9)) == ([], [first])  # the second session can still be continued
    clock.now += 20 * DAY
    assert sorted(await old(29), key=str) == sorted(keys, key=str)
    await said(chats, second, clock.now)
    assert await prune_sessions(database.store, chats, older_than=29 * DAY, clock=clock) == 1
    assert set(await chats.names("default", "desk")) == {*OF_PEOPLE, second.chat}
    clock.now += 30 * DAY
    assert await prune_sessions(database.store, chats, older_than=29 * DAY, clock=clock) == 1
    assert set(await chats.names("default", "desk")) == set(OF_PEOPLE)


async def test_a_server_removes_them_if_it_was_told_how_long_to_keep_runs(tmp_path: Path) -> None:
    async with Database(database_url(tmp_path / "data.sqlite")) as database:
        chats = StoredChats(database.store)
        await said(chats, SESSION, time.time() - 100 * DAY)
        await said(chats, chat("telegram:42"), time.time() - 100 * DAY)
        async with asyncio.timeout(10), pruned(database, StorageSettings(keep="90d")):
            while await chats.names("default", "desk") != ["telegram:42"]:  # noqa: ASYNC110  it has no event
                await asyncio.sleep(0.01)


def test_the_command_line_counts_and_removes_them(tmp_path: Path) -> None:
    toolcaddie, url = CommandLine(tmp_path), database_url(tmp_path / "data.sqlite")

    async def fill() -> None:
        async with Database(url) as database:
            chats = StoredChats(database.store)
            await said(chats, SESSION, time.time() - 100 * DAY)
            await said(chats, chat("telegram:42"), time.time() - 100 * DAY)

    asyncio.run(fill())
    prune = ("db", "prune", "--older-than", "90d", "--database-url", url)
    assert toolcaddie.json(*prune, "--dry-run")["session_chats"] == 1
    assert "removed 1 chat of sessions between bots" in toolcaddie.ok(*prune)
    assert toolcaddie.json(*prune)["session_chats"] == 0
