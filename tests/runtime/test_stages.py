"""The stages of a runtime: events in order, conversations, a budget by request, runs resumed as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.engine.test_expansion import source
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import AuditError, RequestError, RunNotFoundError
from toolcaddie.core.events import LimitReached, RunEvent, RunFinished, RunResumed, TextDelta
from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.run import RunRequest, Transcript
from toolcaddie.core.transcript import empty_digest, extended
from toolcaddie.runtime import Runtime
from toolcaddie.runtime.bus import EventBus
from toolcaddie.sources.functions import tool
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

EVENT = LimitReached(run_id="run_1", limit="rounds", detail="5 rounds")
OPEN_DOOR = {"type": "function", "function": {"name": "open_door", "parameters": {"type": "object", "properties": {}}}}


class Recording:
    """A sink that keeps the kinds of events, or fails."""

    takes: frozenset[type] | None = None

    def __init__(self, name: str, order: list[str], error: Exception | None = None) -> None:
        self._name = name
        self._order = order
        self._error = error

    async def emit(self, event: RunEvent) -> None:
        if self._error is not None:
            raise self._error
        self._order.append(self._name)


def runtime(*steps: Any, **options: Any) -> tuple[Runtime, ScriptedProvider]:
    provider = ScriptedProvider(list(steps))
    return Runtime(**{"provider": provider, "sources": [source(notes=20, web=20)], **options}), provider


def said(*texts: str) -> list[Message]:
    roles = ("user", "assistant")
    return [Message(role=roles[place % 2], content=text) for place, text in enumerate(texts)]


# --- the bus ------------------------------------------------------------------------------------------------------------


async def test_an_event_goes_to_the_trail_then_the_sinks_then_subscribers_then_the_listener_of_its_run() -> None:
    order: list[str] = []

    def listener(name: str) -> Any:
        return Recording(name, order).emit

    bus = EventBus(Recording("trail", order), [Recording("first", order), Recording("second", order)])
    with bus.subscribe(listener("subscriber")):
        await bus.emitter(listener("live"))(EVENT)
    assert order == ["trail", "first", "second", "subscriber", "live"]


async def test_a_sink_that_names_its_events_receives_no_others() -> None:
    order: list[str] = []
    reading, other = Recording("reading", order), Recording("other", order)
    reading.takes = frozenset({TextDelta})
    emit = EventBus(None, [reading, other]).emitter()
    await emit(EVENT)
    await emit(TextDelta(run_id="run_1", text="Hello"))
    assert order == ["other", "reading", "other"]


class Counting:
    """A sink that names a function for its events."""

    takes = frozenset({LimitReached})

    def __init__(self, order: list[str]) -> None:
        self._order = order

    @property
    def receivers(self) -> Mapping[type, Callable[[Any], None]]:
        return {LimitReached: lambda event: self._order.append("function")}

    async def emit(self, event: RunEvent) -> None:
        self._order.append("emit")


class CountingMore(Counting):
    """A subclass with an `emit` of its own."""

    async def emit(self, event: RunEvent) -> None:
        self._order.append("more")
        await super().emit(event)


async def test_a_sink_that_names_functions_is_called_by_them_unless_a_subclass_has_an_emit_of_its_own() -> None:
    order: list[str] = []
    await EventBus(None, [Counting(order), CountingMore(order)]).emitter()(EVENT)
    assert order == ["function", "more", "emit"]


async def test_an_emit_that_was_set_on_one_sink_receives_its_events() -> None:
    order: list[str] = []
    counting = Counting(order)
    vars(counting)["emit"] = Recording("wrapped", order).emit
    await EventBus(None, [counting]).emitter()(EVENT)
    assert order == ["wrapped"]


async def test_what_the_trail_cannot_write_reaches_no_one() -> None:
    order: list[str] = []
    bus = EventBus(Recording("trail", order, AuditError("full")), [Recording("sink", order)])
    with bus.subscribe(Recording("subscriber", order).emit), pytest.raises(AuditError):
        await bus.emitter(Recording("live", order).emit)(EVENT)
    assert order == []


async def test_a_sink_and_a_subscriber_that_fail_are_logged_and_take_nothing_away() -> None:
    order: list[str] = []
    bus = EventBus(None, [Recording("sink", order, ValueError("broken"))])
    with capture_logs() as logs, bus.subscribe(Recording("subscriber", order, ValueError("broken")).emit):
        await bus.emitter(Recording("live", order).emit)(EVENT)
    assert order == ["live"]
    assert {"sink_failed", "subscriber_failed"} == {line["event"] for line in logs}


async def test_a_subscriber_hears_every_run_as_long_as_it_is_subscribed() -> None:
    made, _ = runtime(say("one"), say("two"), say("three"))
    texts: list[str] = []

    async def listen(event: RunEvent) -> None:
        if isinstance(event, RunFinished):
            texts.append(event.result.text)

    await made.run("notes")
    with made.subscribe(listen):
        await made.run("notes")
    await made.run("notes")
    assert texts == ["two"]


# --- resumed runs stream ------------------------------------------------------------------------------------------------


async def test_a_resumed_run_streams_from_where_it_goes_on() -> None:
    made, _ = runtime(call("open_door", call_id="c1"), say("It is open."))
    waiting = await made.run("open the door", client_tools=[OPEN_DOOR])
    events = [event async for event in made.resume_stream(waiting.run_id, results={"c1": "open"})]
    assert isinstance(events[0], RunResumed)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "It is open."
    assert isinstance(events[-1], RunFinished)
    assert events[-1].result.run_id == waiting.run_id


async def test_a_resumed_stream_that_is_closed_early_leaves_a_run_that_can_be_resumed() -> None:
    async def hang(request: ModelRequest) -> None:
        await asyncio.Event().wait()

    made, _ = runtime(call("open_door", call_id="c1"), hang, say("It is open."))
    waiting = await made.run("open the door", client_tools=[OPEN_DOOR])
    async with aclosing(made.resume_stream(waiting.run_id, results={"c1": "open"})) as events:  # type: ignore[type-var]
        async for _ in events:
            break
    assert (await made.resume(waiting.run_id, results={"c1": "open"})).text == "It is open."


async def test_only_its_principal_resumes_a_run_as_a_stream() -> None:
    made, _ = runtime(call("open_door", call_id="c1"), say("x"))
    waiting = await made.run("open the door", client_tools=[OPEN_DOOR])
    with pytest.raises(RunNotFoundError):
        async for _ in made.resume_stream(waiting.run_id, principal=Principal(id="someone")):
            pass


# --- max_tools ----------------------------------------------------------------------------------------------------------


async def test_a_request_says_how_many_tools_it_may_carry() -> None:
    made, provider = runtime(say("one"), say("two"))
    assert len(made.select("notes").tools) > 3
    assert len(made.select("notes", max_tools=3).tools) == 3
    await made.run("notes", max_tools=3)
    meta = set(made.preset.meta)
    sent = [definition["function"]["name"] for definition in provider.requests[0].tools]
    assert len([name for name in sent if name not in meta]) == 3
    assert next(dropped.detail for dropped in made.select("notes", max_tools=3).dropped) == "max_tools is 3"


async def test_a_number_that_reaches_the_whole_catalog_sends_it_whole() -> None:
    made, _ = runtime(say("one"))
    assert len(made.select("notes", max_tools=40).tools) == 40


# --- conversations ------------------------------------------------------------------------------------------------------


async def test_a_transcript_is_known_by_its_digest_and_found_by_the_next_turn() -> None:
    """A chat client has no name for its conversation, and sends all of it again."""
    me = Principal(id="maria")
    made, provider = runtime(say("first"), say("second"), documents=MemoryStore())
    first = said("read notes 1")
    digest = extended(empty_digest(me), first[0])
    await made.run(RunRequest(messages=first, principal=me, conversation=Transcript(digest=digest)))
    answered = extended(digest, Message(role="assistant", content="first"))
    second = said("read notes 1", "first", "open web page 3")
    identity = Transcript(answered=answered, digest=extended(answered, second[2]))
    await made.run(RunRequest(messages=second, principal=me, conversation=identity))
    sent = [[definition["function"]["name"] for definition in request.tools] for request in provider.requests]
    assert sent[1][: len(sent[0])] == sent[0]


async def test_a_named_transcript_is_found_by_its_name_whatever_was_said() -> None:
    made, provider = runtime(say("first"), say("second"))
    for text in ("read notes 1", "open web page 3"):
        identity = Transcript(name="desk-7", digest=extended(empty_digest(Principal()), said(text)[0]))
        await made.run(RunRequest(messages=said(text), conversation=identity))
    sent = [[definition["function"]["name"] for definition in request.tools] for request in provider.requests]
    assert sent[1][: len(sent[0])] == sent[0]


async def test_a_conversation_belongs_to_its_owner_even_where_names_hold_line_breaks() -> None:
    mine, other = Principal(tenant="a\nb", id="c"), Principal(tenant="a", id="b\nc")
    made, provider = runtime(say("first"), say("second"))
    alone, alone_provider = runtime(say("first"))
    await made.run("read notes 1", principal=mine, conversation="desk")
    await made.run("open web page 3", principal=other, conversation="desk")
    await alone.run("open web page 3", principal=other, conversation="desk")
    assert provider.requests[1].tools == alone_provider.requests[0].tools != provider.requests[0].tools


async def test_a_run_of_a_transcript_is_not_stored_when_it_ends_with_the_clients_calls() -> None:
    made, _ = runtime(call("open_door", call_id="c1"))
    identity = Transcript(digest=empty_digest(Principal()))
    result = await made.run("open the door", client_tools=[OPEN_DOOR], conversation=identity)
    assert result.status == "client_calls"
    with pytest.raises(RunNotFoundError):
        await made.resume(result.run_id, results={"c1": "open"})


def test_the_owner_of_a_principal_is_tenant_and_id_whatever_bot_and_role() -> None:
    principal = Principal(tenant="shop", id="maria", bot="desk", role="admin")
    assert principal.owner == ("shop", "maria") == replace(principal, bot=None, role=None).owner


async def test_a_tool_called_directly_is_refused_arguments_that_are_no_mapping() -> None:
    @tool
    def add(a: int) -> int:
        """Add."""
        return a

    made, _ = runtime(sources=[add])
    with pytest.raises(RequestError, match="arguments must be a dict by name"):
        await made.call("add", [1])  # type: ignore[arg-type]
