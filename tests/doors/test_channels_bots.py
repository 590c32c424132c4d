"""Channels with the parts that let bots answer people: history, and runs that wait, which somebody continues."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.doors.talking import Place, eventually, telegram_station, url_at
from toolcaddie import Bot, Principal, Runtime, tool
from toolcaddie.app.bots import BotParts, MessengerOnDemand, bot_parts
from toolcaddie.control.bots import DayBudget
from toolcaddie.core.message import ModelRequest
from toolcaddie.doors.channels.channels import Channels
from toolcaddie.parts import Parts
from toolcaddie.runtime.budgets import NO_BUDGET
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, say
from toolcaddie.testing.telegram import ScriptedTelegram

pytestmark = pytest.mark.anyio


@tool(destructive=True)
def delete_client(name: str) -> str:
    """Delete a client."""
    return "deleted"


@contextlib.asynccontextmanager
async def house(
    place: Place,
    script: Any,
    *,
    telegram: ScriptedTelegram | None = None,
    tools: Sequence[Any] = (),
    budget: DayBudget = NO_BUDGET,
    **settings: Any,
) -> AsyncIterator[tuple[ScriptedTelegram, Runtime, BotParts, ScriptedProvider]]:
    """A bot with a Telegram channel, and the loop that continues runs wherever they were answered."""
    async with contextlib.AsyncExitStack() as stack:
        server = telegram or await stack.enter_async_context(ScriptedTelegram())
        database = await stack.enter_async_context(Database(url_at(place), lease=0.5))
        messenger, provider = MessengerOnDemand(), ScriptedProvider(script)
        async with Runtime(
            provider=provider,
            sources=[delete_client, *tools],
            documents=database.store,
            bots={"anna": Bot(budget=budget)},
            meter=database.meter,
        ) as runtime:
            bots = bot_parts(runtime, Parts(messenger=messenger), store=database.store)
            station = telegram_station(server, bot="anna", **settings)
            async with Channels([station], bots.talk, database.store, look_seconds=0.05) as channels:
                messenger.bind(channels)
                continuing = asyncio.create_task(bots.continuing.look_forever())
                yield server, runtime, bots, provider
                continuing.cancel()
                await asyncio.wait({continuing})


def texts(server: ScriptedTelegram, chat: int) -> list[str]:
    return [each["text"] for each in server.sent if each["chat_id"] == chat]


async def test_the_bot_reads_what_was_said_before_until_a_new_conversation_begins(place: Place) -> None:
    script = [say("Hello Ann"), say("You are Ann"), say("Who are you?")]
    async with house(place, script, allow=("1",)) as (server, _, __, provider):
        for number, text in enumerate(("I am Ann", "Who am I?", "/new", "And now?"), start=1):
            server.write(text, person=1)
            await server.answers(number)
    seen = [" ".join(message.text for message in request.messages) for request in provider.requests]
    assert "I am Ann" in seen[1]
    assert "I am Ann" not in seen[2]


async def test_an_answer_that_was_approved_with_a_button_comes_once(place: Place) -> None:
    script = [call("delete_client", {"name": "John"}), say("John is deleted."), say("Hello")]
    async with house(place, script, allow=("1",), approvers=("9",)) as (server, _, bots, provider):
        server.write("Delete John", person=1)
        await server.answers(2)
        server.press("Approve", person=9)
        await server.answers(4)
        server.write("Hi", person=1)
        await server.answers(5)
        await bots.continuing.look()  # what else continues answered runs
    assert texts(server, 1)[1:] == ["John is deleted.", "Hello"]
    assert texts(server, 9)[1:] == ["Approved."]
    assert len(provider.requests) == 3


async def test_a_run_that_was_answered_in_the_inbox_goes_on_in_its_chat(place: Place) -> None:
    script = [
        call("delete_client", {"name": "John"}),
        call("delete_client", {"name": "Jane"}),
        say("Both are deleted."),
    ]
    async with house(place, script, allow=("1",), approvers=("9",)) as (server, runtime, bots, _):
        server.write("Delete John and Jane", person=1)
        await server.answers(2)
        boss = Principal(id="boss")
        for count in (1, 2):
            await eventually(lambda number=count: len(texts(server, 9)) == number)
            (question,) = await runtime.approvals.list("default", status="open", limit=10)
            await bots.talk.decide(question.id, approve=True, by=boss)
        await eventually(lambda: "Both are deleted." in texts(server, 1), seconds=15)
        await bots.continuing.look()
    assert texts(server, 1).count("Both are deleted.") == 1


async def test_a_message_that_a_stopped_server_had_begun_goes_on_and_no_call_is_made_twice(place: Place) -> None:
    posted: list[str] = []
    stopped = asyncio.Event()

    @tool(destructive=False, open_world=True)
    def post_note(text: str) -> str:
        """Post a note."""
        posted.append(text)
        return "posted"

    async def script(request: ModelRequest) -> Any:
        if request.messages[-1].role == "user":
            return call("post_note", {"text": "Hello all"})
        if not stopped.is_set():
            stopped.set()
            await asyncio.Event().wait()
        return say("Posted.")

    async with ScriptedTelegram() as server:
        async with house(place, script, telegram=server, tools=[post_note], allow=("1",)):
            server.write("Post hello", person=1)
            async with asyncio.timeout(10):
                await stopped.wait()
        async with house(place, script, telegram=server, tools=[post_note], allow=("1",)):
            await server.answers(1)
    assert texts(server, 1) == ["Posted."]
    assert posted == ["Hello all"]


async def test_a_person_whose_bot_has_used_its_budget_reads_when_it_answers_again(place: Place) -> None:
    """The first message uses up the budget in the middle of its run, the second begins none."""
    script = [call("delete_client", {}), say("never said")]  # without a name, the call fails, and asks nobody
    async with house(place, script, budget=DayBudget(tokens=150), allow=("1",)) as (server, _, __, provider):
        for number in (1, 2):
            server.write("Delete John", person=1)
            await server.answers(number)
    for text in texts(server, 1):
        assert re.fullmatch(r"I have used up .* in a day.* write to me again in \d+ h\.", text)
    assert len(provider.requests) == 1


async def test_an_approved_call_is_made_once_and_answered_when_a_spent_budget_is_renewed(place: Place) -> None:
    deleted: list[str] = []

    @tool(destructive=True)
    def drop_client(name: str) -> str:
        """Drop a client."""
        deleted.append(name)
        return "dropped"

    settings = {"tools": [drop_client], "allow": ("1",), "approvers": ("9",)}
    async with ScriptedTelegram() as server:
        script = [call("drop_client", {"name": "John"}), say("never said")]
        async with house(place, script, telegram=server, budget=DayBudget(tokens=150), **settings) as (_, _, _, spent):
            server.write("Drop John", person=1)
            await server.answers(2)
            server.press("Approve", person=9)
            await server.answers(4)
            assert len(spent.requests) == 1
        assert re.fullmatch(r"The call was decided, but .* I go on by myself in \d+ h\.", texts(server, 1)[1])
        async with house(place, [say("John is gone.")], telegram=server, **settings):
            await server.answers(5)
    assert texts(server, 1)[2] == "John is gone."
    assert deleted == ["John"]
