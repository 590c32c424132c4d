"""The practice model, asked as a provider is asked. Its tools here are a library's; the gym is in test_practice_gym.py."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcaddie.core import meta_names
from toolcaddie.core.message import Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.schema import argument_errors, wire_definition
from toolcaddie.meta.registry import offered_definitions
from toolcaddie.ports.meta import MetaOffer
from toolcaddie.samples.practice import PracticeModel, from_settings

Run = Callable[[str, dict[str, Any]], Any]


def tool(name: str, description: str, properties: Mapping[str, Any] | None = None, *required: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties or {},
        "required": list(required),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def text(description: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def whole(description: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "integer", "description": description, **more}


LIBRARY = [
    tool(
        "list_borrowers",
        "List the library's borrowers (readers).",
        {"search": text("Part of the name to look for."), "limit": whole("How many.", default=20)},
    ),
    tool(
        "suspend_card",
        "Suspend a borrower's card for some days.",
        {"borrower_id": whole("Id of the borrower."), "days": whole("For how long.", default=7)},
        "borrower_id",
    ),
    tool(
        "list_loans",
        "List loans of books.",
        {"borrower_id": whole("Only of this borrower."), "status": text(enum=["open", "returned", "overdue"])},
    ),
    tool("search_books", "Find books by title or author.", {"query": text("Words of the title.")}, "query"),
    tool(
        "reserve_book",
        "Reserve a book for a borrower.",
        {"book_id": whole(), "borrower_id": whole(), "pickup_date": text(format="date")},
        "book_id",
        "borrower_id",
    ),
    tool("get_opening_hours", "When the library is open."),
    tool(
        "add_borrower",
        "Register a new borrower.",
        {"name": text("Full name."), "email": text(), "phone": text()},
        "name",
        "email",
    ),
    tool("get_fine_stats", "Totals of fines paid and unpaid.", {"from_date": text(), "to_date": text()}),
    tool(
        "convert_money",
        "Convert an amount of money into another currency.",
        {"amount": {"type": "number"}, "from_currency": text(), "to_currency": text()},
        "amount",
        "from_currency",
        "to_currency",
    ),
    tool(
        "create_reminder",
        "Create a reminder for the desk.",
        {"message": text("What to be reminded of."), "due_on": text(format="date"), "urgent": {"type": "boolean"}},
        "message",
    ),
]
BORROWERS = [
    {"borrower_id": 311, "name": "Nora Quill", "status": "active"},
    {"borrower_id": 187, "name": "Abel Finch", "status": "active"},
    {"borrower_id": 942, "name": "Abel Marsh", "status": "active"},
]
BOOKS = [{"id": 50, "title": "Moby Dick"}, {"id": 61, "title": "Dune"}]


def library(name: str, arguments: dict[str, Any]) -> Any:
    """Returns the results of the library's tools; an argument that a schema refuses is an error in the engine's words."""
    schema = next(one["function"]["parameters"] for one in LIBRARY if one["function"]["name"] == name)
    wrong = argument_errors(schema, arguments)
    if wrong:
        return f"The arguments of {name} are wrong: {'; '.join(wrong)}. They must fit this schema: {{}}"
    if name == "list_borrowers":
        borrowers = [one for one in BORROWERS if arguments.get("search", "").lower() in one["name"].lower()]
        return {"total": len(borrowers), "borrowers": borrowers}
    if name == "search_books":
        return {"books": [one for one in BOOKS if arguments["query"].lower() in one["title"].lower()]}
    return {"done": name, **arguments}


class Talk:
    """A conversation with the practice model in which somebody runs the tools it calls."""

    def __init__(self, tools: Sequence[Any] = LIBRARY, run: Run = library, system: str = "") -> None:
        self.model = PracticeModel(today=lambda: date(2025, 3, 12))
        self.tools = list(tools)
        self.run = run
        self.messages = [Message(role="system", content=system)] if system else []
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def say(self, words: str) -> str:
        """The answer in words, after all the calls it took; the calls are kept."""
        self.calls = []
        self.messages.append(Message(role="user", content=words))
        for _ in range(30):
            reply = await self.model.complete(ModelRequest(model="practice", messages=self.messages, tools=self.tools))
            self.messages.append(reply.message)
            for call in reply.message.tool_calls:
                arguments = json.loads(call.arguments)
                self.calls.append((call.name, arguments))
                result = self.run(call.name, arguments)
                content = result if isinstance(result, str) else json.dumps(result)
                self.messages.append(Message(role="tool", tool_call_id=call.id, content=content))
            if not reply.message.tool_calls:
                return reply.message.text
        raise AssertionError(f"it never stops: {self.calls}")


async def ask(request: ModelRequest) -> ModelReply:
    return await PracticeModel(today=lambda: date(2025, 3, 12)).complete(request)


def one_message(words: str, tools: Sequence[Any] = LIBRARY, **more: Any) -> ModelRequest:
    return ModelRequest(model="practice", messages=[Message(role="user", content=words)], tools=tools, **more)


# Doing what is asked


@pytest.mark.anyio
async def test_a_person_named_in_an_order_is_looked_up_and_then_the_order_is_carried_out() -> None:
    talk = Talk()
    answer = await talk.say("suspend Nora's card for 2 weeks")
    assert talk.calls == [
        ("list_borrowers", {"search": "Nora"}),
        ("suspend_card", {"borrower_id": 311, "days": 14}),
    ]
    assert "practice model" in answer
    assert "suspend_card" in answer


@pytest.mark.anyio
async def test_two_things_named_in_one_order_are_both_looked_up() -> None:
    talk = Talk()
    await talk.say("Reserve Dune for Nora Quill tomorrow")
    assert talk.calls[-1] == ("reserve_book", {"book_id": 61, "borrower_id": 311, "pickup_date": "2025-03-13"})


@pytest.mark.anyio
async def test_a_name_without_capitals_is_found_too() -> None:
    talk = Talk()
    await talk.say("please suspend nora's card")
    assert talk.calls[-1] == ("suspend_card", {"borrower_id": 311})


@pytest.mark.anyio
async def test_an_identifier_in_the_message_needs_no_look_up() -> None:
    talk = Talk()
    await talk.say("suspend the card of borrower 942 for 10 days")
    assert talk.calls == [("suspend_card", {"borrower_id": 942, "days": 10})]


@pytest.mark.parametrize(
    ("words", "name", "arguments"),
    [
        ("when is the library open?", "get_opening_hours", {}),
        ("show me all overdue loans", "list_loans", {"status": "overdue"}),
        (
            "How many fines were paid this month?",
            "get_fine_stats",
            {"from_date": "2025-03-01", "to_date": "2025-03-31"},
        ),
        (
            "Register a new borrower called Max Holm, email max@example.org",
            "add_borrower",
            {"name": "Max Holm", "email": "max@example.org"},
        ),
        (
            "convert 1,250.50 EUR to JPY",
            "convert_money",
            {"amount": 1250.5, "from_currency": "EUR", "to_currency": "JPY"},
        ),
        (
            "how much is 20 dollars in euros?",
            "convert_money",
            {"amount": 20, "from_currency": "USD", "to_currency": "EUR"},
        ),
        (
            'create a reminder "call the printer" due on 2025-04-01',
            "create_reminder",
            {"message": "call the printer", "due_on": "2025-04-01"},
        ),
        (
            "create an urgent reminder for friday: water the plants",
            "create_reminder",
            {"message": "water the plants", "due_on": "2025-03-14", "urgent": True},
        ),
        ("create a reminder about the broken lamp", "create_reminder", {"message": "the broken lamp"}),
        ("find books by Melville", "search_books", {"query": "Melville"}),
    ],
)
@pytest.mark.anyio
async def test_one_sentence_gives_tool_and_arguments(words: str, name: str, arguments: dict[str, Any]) -> None:
    talk = Talk()
    await talk.say(words)
    assert talk.calls == [(name, arguments)]


@pytest.mark.anyio
async def test_the_day_a_system_prompt_tells_is_the_day() -> None:
    talk = Talk(system="You work at the desk. Today is 2030-01-31.")
    await talk.say("create a reminder about lamps for tomorrow")
    assert talk.calls[0][1]["due_on"] == "2030-02-01"


@pytest.mark.anyio
async def test_a_read_result_is_summed_up_with_count_and_first_rows() -> None:
    answer = await Talk().say("list all borrowers")
    assert "3 rows" in answer
    assert "Nora Quill" in answer


# Talking


@pytest.mark.parametrize("words", ["hello, how are you?", "Hi!", "thanks a lot", ""])
@pytest.mark.anyio
async def test_small_talk_calls_nothing_and_is_answered_by_the_practice_model(words: str) -> None:
    talk = Talk()
    assert "practice model" in await talk.say(words)
    assert talk.calls == []


@pytest.mark.anyio
async def test_what_no_tool_fits_is_not_done_and_said() -> None:
    talk = Talk()
    assert "None of the tools" in await talk.say("tell me a joke")
    assert talk.calls == []


@pytest.mark.anyio
async def test_when_two_people_fit_it_asks_which_and_the_answer_settles_it() -> None:
    talk = Talk()
    answer = await talk.say("suspend Abel's card")
    assert "Abel Finch" in answer
    assert "Abel Marsh" in answer
    assert answer.endswith("?")
    await talk.say("Abel Marsh")
    assert talk.calls == [("suspend_card", {"borrower_id": 942})]


@pytest.mark.anyio
async def test_the_answer_to_which_may_be_a_place_in_the_list() -> None:
    talk = Talk()
    await talk.say("suspend Abel's card")
    await talk.say("the second one")
    assert talk.calls == [("suspend_card", {"borrower_id": 942})]


@pytest.mark.anyio
async def test_a_full_name_is_not_ambiguous_with_one_that_shares_half_of_it() -> None:
    talk = Talk()
    await talk.say("suspend the card of Abel Finch")
    assert talk.calls[-1] == ("suspend_card", {"borrower_id": 187})


@pytest.mark.anyio
async def test_the_first_one_is_the_first_row_of_the_last_list() -> None:
    talk = Talk()
    await talk.say("list all borrowers")
    await talk.say("suspend the first one")
    assert talk.calls == [("suspend_card", {"borrower_id": 311})]


@pytest.mark.anyio
async def test_it_asks_for_what_is_missing_and_goes_on_with_the_answer() -> None:
    talk = Talk()
    answer = await talk.say("add the borrower Eva Lund")
    assert "email" in answer
    assert talk.calls == []
    await talk.say("eva@example.org")
    assert talk.calls == [("add_borrower", {"name": "Eva Lund", "email": "eva@example.org"})]


@pytest.mark.anyio
@pytest.mark.parametrize("words", ["never mind", "no", "cancel that"])
async def test_a_question_may_be_answered_by_wanting_nothing(words: str) -> None:
    talk = Talk()
    await talk.say("suspend Abel's card")
    assert "practice model" in await talk.say(words)
    assert talk.calls == []


@pytest.mark.anyio
async def test_a_new_wish_in_place_of_an_answer_is_a_new_wish() -> None:
    talk = Talk()
    await talk.say("suspend Abel's card")
    await talk.say("when is the library open?")
    assert talk.calls == [("get_opening_hours", {})]


@pytest.mark.anyio
async def test_one_wish_is_one_deed_even_if_a_better_tool_comes_along() -> None:
    talk = Talk()
    await talk.say("suspend the card of borrower 942")
    done = talk.messages[:-1]
    better = tool("suspend_borrower_card", "Suspend the card of a borrower.", {"borrower_id": whole()}, "borrower_id")
    reply = await ask(ModelRequest(model="practice", messages=done, tools=[*LIBRARY, better]))
    assert reply.message.tool_calls == ()
    assert "suspend_card" in reply.message.text


@pytest.mark.anyio
async def test_an_order_that_only_a_reading_tool_comes_near_is_not_called_done() -> None:
    talk = Talk()
    answer = await talk.say("delete all overdue loans")
    assert {name for name, _ in talk.calls} <= {"list_loans"}
    assert "no tool that does this" in answer or "None of the tools" in answer


@pytest.mark.anyio
async def test_somebody_who_is_not_there_is_not_found_and_nothing_is_changed() -> None:
    talk = Talk()
    answer = await talk.say("suspend Peregrine's card")
    assert "did not find" in answer
    assert "suspend_card" not in dict(talk.calls)


# Getting more tools


def _with_meta(*names: str, **offer: Any) -> list[Any]:
    return [wire_definition(definition) for definition in offered_definitions(names, MetaOffer(**offer)).values()]


@pytest.mark.anyio
async def test_a_tool_that_was_left_out_is_asked_for_once_and_then_called() -> None:
    offered = _with_meta(meta_names.REQUEST_MORE_TOOLS, categories=("cards", "loans")) + LIBRARY[-3:]

    def run(name: str, arguments: dict[str, Any]) -> Any:
        if name != meta_names.REQUEST_MORE_TOOLS:
            return library(name, arguments)
        assert "suspend" in arguments["query"]
        talk.tools += LIBRARY[:2]
        return "Loaded 2 tools: list_borrowers, suspend_card. You can call them now."

    talk = Talk(offered, run)
    await talk.say("suspend Nora's card")
    assert [name for name, _ in talk.calls] == [meta_names.REQUEST_MORE_TOOLS, "list_borrowers", "suspend_card"]


@pytest.mark.anyio
async def test_more_tools_are_asked_for_by_category_where_that_is_what_the_definition_takes() -> None:
    offered = _with_meta(meta_names.REQUEST_MORE_TOOLS, categories=("cards", "loans", "rooms"), expand_by="categories")
    reply = await ask(one_message("suspend Nora's card", offered))
    call = reply.message.tool_calls[0]
    assert call.name == meta_names.REQUEST_MORE_TOOLS
    assert json.loads(call.arguments)["categories"] == ["cards"]


@pytest.mark.anyio
async def test_it_says_so_when_asking_for_more_tools_brings_none() -> None:
    talk = Talk(
        _with_meta(meta_names.REQUEST_MORE_TOOLS) + LIBRARY[-3:],
        lambda name, arguments: "No new tools added: nothing fits.",
    )
    answer = await talk.say("suspend Nora's card")
    assert "None of the tools" in answer
    assert [name for name, _ in talk.calls] == [meta_names.REQUEST_MORE_TOOLS]


def _compact(name: str, arguments: dict[str, Any]) -> Any:
    functions = [one["function"] for one in LIBRARY]
    if name == meta_names.SEARCH_TOOLS:
        words = arguments["query"].split()
        hits = [one for one in functions if any(word in json.dumps(one).lower() for word in words)]
        return {"tools": [{"name": one["name"], "description": one["description"]} for one in hits]}
    if name == meta_names.GET_TOOL_SCHEMA:
        return next(one for one in functions if one["name"] == arguments["tool_name"])
    if name == meta_names.EXECUTE_TOOL:
        return library(arguments["tool_name"], arguments["arguments"])
    return "Delivered."


@pytest.mark.anyio
async def test_with_only_the_compact_tools_it_searches_reads_the_schema_executes_and_responds() -> None:
    offered = _with_meta(
        meta_names.EXECUTE_TOOL,
        meta_names.LIST_TOOLS,
        meta_names.SEARCH_TOOLS,
        meta_names.GET_TOOL_SCHEMA,
        meta_names.RESPOND,
    )
    messages = [Message(role="user", content="suspend Nora's card for 3 days")]
    calls: list[tuple[str, Any]] = []
    while not calls or calls[-1][0] != meta_names.RESPOND:
        reply = await ask(ModelRequest(model="practice", messages=messages, tools=offered))
        messages.append(reply.message)
        for call in reply.message.tool_calls:
            calls.append((call.name, json.loads(call.arguments)))
            result = json.dumps(_compact(*calls[-1]))
            messages.append(Message(role="tool", tool_call_id=call.id, content=result))
        assert len(calls) < 10
    executed = [arguments for name, arguments in calls if name == meta_names.EXECUTE_TOOL]
    assert calls[0][0] == meta_names.SEARCH_TOOLS
    assert executed[-1] == {"tool_name": "suspend_card", "arguments": {"borrower_id": 311, "days": 3}}
    assert "practice model" in calls[-1][1]["message"]


# When things go wrong


@pytest.mark.anyio
async def test_an_argument_the_tool_refuses_is_mended_once() -> None:
    """The schema says nothing of a minimum or a pattern here; the tool's own error names the field."""

    def run(name: str, arguments: dict[str, Any]) -> Any:
        if name == "create_reminder" and "due_on" not in arguments:
            return (
                'The arguments of create_reminder are wrong: arguments: "due_on" is a required property. '
                "They must fit this schema: {}"
            )
        return library(name, arguments)

    talk = Talk(run=run)
    answer = await talk.say("create a reminder about lamps")
    assert "due on" in answer
    assert answer.endswith("?")
    await talk.say("tomorrow")
    assert talk.calls[-1] == ("create_reminder", {"message": "lamps", "due_on": "2025-03-13"})


@pytest.mark.parametrize(
    "result",
    [
        "suspend_card failed: OSError: disk full",
        {"error": "no"},
        "The arguments of x are wrong: days: 7 is more than 5. They must fit this schema: {}",
        "",
        "null",
        [],
        {"borrowers": [{"name": "Nora"}]},
    ],
)
@pytest.mark.parametrize("words", ["suspend Nora's card", "list all borrowers", "reserve Dune for Nora"])
@pytest.mark.anyio
async def test_it_stops_and_tells_whatever_the_tools_answer(words: str, result: Any) -> None:
    talk = Talk(run=lambda name, arguments: result)
    assert "practice model" in await talk.say(words)
    calls = [json.dumps(call, sort_keys=True) for call in talk.calls]
    assert len(calls) == len(set(calls))
    assert len(calls) <= 12


@pytest.mark.anyio
async def test_a_failure_is_reported_as_one() -> None:
    talk = Talk(
        run=lambda name, arguments: library(name, arguments) if name == "list_borrowers" else "Error: card is lost"
    )
    assert "did not work: Error: card is lost" in await talk.say("suspend Nora's card")


@pytest.mark.anyio
async def test_definitions_of_unknown_kinds_and_schemas_without_properties_do_no_harm() -> None:
    odd = [{"type": "web_search"}, {"type": "function", "function": {"name": "ping", "description": "Ping the server"}}]
    reply = await ask(one_message("ping the server", odd))
    assert [call.name for call in reply.message.tool_calls] == ["ping"]


# Being a provider


@pytest.mark.anyio
async def test_definitions_may_be_raw_json() -> None:
    raw = [msgspec.Raw(json.dumps(one).encode()) for one in LIBRARY]
    reply = await ask(one_message("when is the library open?", raw))
    assert reply.message.tool_calls[0].name == "get_opening_hours"


@pytest.mark.anyio
async def test_tool_choice_none_gets_words_only() -> None:
    reply = await ask(one_message("when is the library open?", tool_choice="none"))
    assert reply.message.tool_calls == ()
    assert "practice model" in reply.message.text


@pytest.mark.parametrize("words", ["hello", "tell me a joke", "suspend the card"])
@pytest.mark.anyio
async def test_tool_choice_required_always_calls_a_tool_with_valid_arguments(words: str) -> None:
    reply = await ask(one_message(words, tool_choice="required"))
    call = reply.message.tool_calls[0]
    schema = next(one["function"]["parameters"] for one in LIBRARY if one["function"]["name"] == call.name)
    assert argument_errors(schema, json.loads(call.arguments)) == []


@pytest.mark.anyio
async def test_a_named_tool_is_called_whatever_the_words_say() -> None:
    choice = {"type": "function", "function": {"name": "list_loans"}}
    reply = await ask(one_message("hello", tool_choice=choice))
    assert [call.name for call in reply.message.tool_calls] == ["list_loans"]


@pytest.mark.anyio
async def test_only_allowed_tools_are_called() -> None:
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "get_opening_hours"}}]}
    reply = await ask(
        one_message("suspend the card of borrower 311", tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
    )
    assert [call.name for call in reply.message.tool_calls] == ["get_opening_hours"]


async def _streamed(request: ModelRequest) -> tuple[list[ModelDelta], ModelReply]:
    items = [item async for item in PracticeModel(today=lambda: date(2025, 3, 12)).stream(request)]
    deltas = [item for item in items if isinstance(item, ModelDelta)]
    assert isinstance(items[-1], ModelReply)
    assert len(deltas) == len(items) - 1
    return deltas, items[-1]


@pytest.mark.anyio
async def test_a_streamed_answer_comes_in_several_pieces_that_add_up_to_the_whole() -> None:
    request = one_message("hello")
    deltas, reply = await _streamed(request)
    assert len(deltas) > 2
    assert "".join(delta.text for delta in deltas) == reply.message.text
    assert reply == await ask(request)


@pytest.mark.anyio
async def test_a_streamed_call_comes_in_fragments_with_id_and_name_on_the_first() -> None:
    deltas, reply = await _streamed(one_message("suspend the card of borrower 311 for 14 days"))
    pieces = [piece for delta in deltas for piece in delta.calls]
    assert (pieces[0].id, pieces[0].name, pieces[0].arguments) == (
        reply.message.tool_calls[0].id,
        "suspend_card",
        "",
    )
    assert len(pieces) > 2
    assert all(piece.id is None and piece.name is None for piece in pieces[1:])
    assert "".join(piece.arguments for piece in pieces) == reply.message.tool_calls[0].arguments


@pytest.mark.anyio
async def test_the_same_request_gets_the_same_reply() -> None:
    request = one_message("reserve Dune for Nora")
    assert await ask(request) == await ask(request)


@pytest.mark.anyio
async def test_calls_of_one_conversation_have_ids_of_their_own() -> None:
    talk = Talk()
    await talk.say("list all borrowers")
    await talk.say("list all borrowers")
    ids = [call.id for message in talk.messages for call in message.tool_calls]
    assert len(ids) == len(set(ids)) == 2


@pytest.mark.anyio
async def test_usage_and_finish_reason_are_those_of_a_model() -> None:
    called = await ask(one_message("when is the library open?"))
    greeting = await ask(one_message("hello"))
    assert (called.finish_reason, greeting.finish_reason) == ("tool_calls", "stop")
    assert called.usage.input_tokens > 100
    assert 0 < called.usage.output_tokens < greeting.usage.output_tokens


@pytest.mark.anyio
async def test_the_factory_gives_a_provider_with_one_model_and_nothing_to_close() -> None:
    provider = from_settings(base_url="http://127.0.0.1:1", api_key="x", timeout=3)
    assert provider.name == "practice"
    assert [model["id"] for model in await provider.models()] == ["practice"]
    await provider.close()


# Whatever is sent

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["string", "object", "array"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_PROPERTY = _JSON | st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null", "odd"]) | _JSON,
        "enum": st.lists(st.text(max_size=5) | st.integers(), max_size=3) | _JSON,
        "description": st.text(max_size=30) | _JSON,
        "pattern": st.sampled_from(["^a+$", "(", "(a+)+$"]) | _JSON,
        "maxLength": st.integers() | _JSON,
        "items": _JSON,
        "$ref": st.sampled_from(["#/$defs/a", "#", "#/properties/x", "nowhere"]) | _JSON,
        "anyOf": _JSON,
        "default": _JSON,
    },
)
_NAMES = st.sampled_from(["id", "order_id", "name", "days", "due_on", "_", "", "from", "currency", "search", "名前"])
_SCHEMA = _JSON | st.fixed_dictionaries(
    {"properties": st.dictionaries(_NAMES, _PROPERTY, max_size=4)},
    optional={"required": st.lists(_NAMES, max_size=3) | _JSON, "$defs": _JSON},
)
_FUNCTION = st.fixed_dictionaries(
    {"name": st.sampled_from(["list_orders", "pay_order", "_", "x", "getOrderStats", *sorted(meta_names.META_TOOLS)])},
    optional={"description": st.text(max_size=40) | _JSON, "parameters": _SCHEMA},
)
_HARD_WORDS = (
    "pay order 17 Eva's for 99999 weeks in 9999 months list all orders of 31.02.2025 0000-00-00 €1,2 called "
    '"x y" : , . ? 1e999 next month last 3 please USD EUR the first one'
)
_WORDS = st.lists(
    st.sampled_from(_HARD_WORDS.split()) | st.text(max_size=10),
    max_size=12,
).map(" ".join)


@given(
    words=_WORDS,
    functions=st.lists(_FUNCTION, max_size=4),
    result=st.text(max_size=30) | _JSON.map(json.dumps),
    choice=st.none() | st.sampled_from(["auto", "none", "required"]) | _JSON,
)
@settings(max_examples=200, deadline=None)
def test_any_request_is_answered(words: str, functions: list[Any], result: str, choice: Any) -> None:
    messages = [Message(role="user", content=words)]
    tools = [{"type": "function", "function": function} for function in functions]
    for _ in range(3):
        request = ModelRequest(model="practice", messages=messages, tools=tools, tool_choice=choice)
        message = asyncio.run(ask(request)).message
        assert bool(message.tool_calls) != bool(message.text)
        messages.append(message)
        for call in message.tool_calls:
            assert isinstance(json.loads(call.arguments), dict)
            messages.append(Message(role="tool", tool_call_id=call.id, content=result))


@pytest.mark.parametrize("piece", ["a", "suspend card ", "1-", "1,", "called ", "'s ", "\"' ", "list all of ", "e@e."])
@pytest.mark.anyio
async def test_a_message_of_any_length_is_answered_at_once(piece: str) -> None:
    started = time.perf_counter()
    await ask(one_message(piece * (200_000 // len(piece))))
    assert time.perf_counter() - started < 2
