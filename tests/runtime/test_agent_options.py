"""Instructions, an output type and dependencies of an agent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from toolcaddie.core.capabilities import CAPABILITIES, capabilities_from
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import CatalogError, ConfigError, OutputError, RequestError
from toolcaddie.core.events import RunFinished, TextDelta
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunContext
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio


class Line(BaseModel):
    article: str
    pieces: int


class Order(BaseModel):
    customer: str
    lines: list[Line]


@dataclass
class Point:
    x: int
    y: int


class Address(TypedDict):
    city: str


class Store:
    """What tools ask for; the application has one below it."""


class Orders(Store):
    def __init__(self, name: str) -> None:
        self.name = name


class Mails(Store):
    pass


ORDER = '{"customer": "Vera", "lines": [{"article": "bell", "pieces": 2}]}'


@tool(read_only=True)
def list_orders(orders: Orders, customer: str = "") -> str:
    """List the orders of a customer."""
    return f"{orders.name}: {customer}"


@tool(read_only=True)
def count_orders() -> int:
    """Count the orders."""
    return 2


def runtime(*steps: Any, **options: Any) -> tuple[Runtime, ScriptedProvider]:
    provider = ScriptedProvider(list(steps))
    return Runtime(**{"provider": provider, "sources": [count_orders], **options}), provider


# --- instructions -----------------------------------------------------------------------------------------------------


async def test_instructions_stand_before_the_conversation_in_every_round_and_are_no_part_of_what_the_run_added() -> (
    None
):
    made, provider = runtime(call("count_orders"), say("Two."), instructions="Be brief.")
    result = await made.run("how many orders?")
    assert [request.messages[0] for request in provider.requests] == [Message(role="system", content="Be brief.")] * 2
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]


async def test_a_conversations_own_system_prompt_follows_the_instructions() -> None:
    made, provider = runtime(say("Two."), instructions="Be brief.")
    own = Message(role="system", content="The user is Vera.")
    await made.run([own, Message(role="user", content="how many?")])
    assert [message.text for message in provider.requests[0].messages[:2]] == ["Be brief.", "The user is Vera."]


async def test_a_function_gives_instructions_of_the_run_and_is_asked_once() -> None:
    asked: list[str] = []

    async def of(context: RunContext) -> str:
        asked.append(context.principal.id)
        return f"You serve {context.principal.id}."

    made, provider = runtime(call("count_orders"), say("Two."), instructions=of)
    await made.run("how many?", principal=Principal(id="vera"))
    assert asked == ["vera"]
    assert {request.messages[0].text for request in provider.requests} == {"You serve vera."}


async def test_instructions_that_are_no_text_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="instructions must be a text or a function of RunContext, not a list"):
        runtime(instructions=["be brief"])
    made, _ = runtime(say("x"), instructions=lambda context: 7)
    with pytest.raises(RequestError, match="instructions returned 7"):
        await made.run("hello")


# --- output -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "answer", "value"),
    [
        (Order, ORDER, Order(customer="Vera", lines=[Line(article="bell", pieces=2)])),
        (Order, f"```json\n{ORDER}\n```", Order(customer="Vera", lines=[Line(article="bell", pieces=2)])),
        (Point, '{"x": 1, "y": 2}', Point(x=1, y=2)),
        (Address, '{"city": "Turin"}', {"city": "Turin"}),
        (list[int], '{"result": [1, 2]}', [1, 2]),
        (int | None, '{"result": null}', None),
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, '{"n": 1}', {"n": 1}),
        ({"type": "array", "items": {"type": "string"}}, '{"result": ["a"]}', ["a"]),
    ],
)
async def test_the_answer_is_the_value_of_its_type(output: Any, answer: str, value: Any) -> None:
    made, provider = runtime(say(answer))
    result = await made.run("what was ordered?", output=output)
    assert result.output == value
    assert "answer with one JSON object" in provider.requests[0].messages[0].text


async def test_a_wrong_answer_goes_back_to_the_model_with_what_is_wrong() -> None:
    made, provider = runtime(call("count_orders"), say('{"customer": "Vera"}'), say(ORDER))
    result = await made.run("what was ordered?", output=Order)
    assert result.output.customer == "Vera"
    assert result.text == ORDER
    wrong, correction = provider.requests[-1].messages[-2:]
    assert (wrong.role, wrong.text) == ("assistant", '{"customer": "Vera"}')
    assert "lines: Field required" in correction.text
    assert result.usage.output_tokens == 3 * provider_usage(provider)
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]


def provider_usage(provider: ScriptedProvider) -> int:
    return say("x").usage.output_tokens


async def test_an_answer_that_stays_wrong_ends_the_run_with_all_attempts_named() -> None:
    made, provider = runtime(say("two"), say("{}"), say('{"customer": 7, "lines": []}'))
    with pytest.raises(
        OutputError, match=r"none of 3 answers fitted .*; mistake in the last answer: customer: "
    ) as error:
        await made.run("what was ordered?", output=Order)
    assert [attempt.outcome for attempt in error.value.attempts] == ["failed"] * 3
    assert len(provider.requests) == 3


@pytest.mark.parametrize(
    ("support", "expected"), [("no", [False, False]), ("alone", [False, True]), ("with_tools", [True, True])]
)
async def test_the_provider_is_held_to_the_schema_where_its_capabilities_say_it_can_be(
    support: Any, expected: list[bool]
) -> None:
    rows = (capabilities_from({"pattern": "scripted:*", "json_schema": support}), *CAPABILITIES)
    for sources, held in zip(([count_orders], []), expected, strict=True):
        made, provider = runtime(say(ORDER), sources=sources, capabilities=rows)
        await made.run("what was ordered?", output=Order)
        assert (provider.requests[0].output_schema is not None) is held
        if held:  # references are written out: not every provider reads them
            assert "$ref" not in json.dumps(provider.requests[0].output_schema)


async def test_a_stream_shows_the_answer_once_it_has_passed() -> None:
    made, _ = runtime(say("two"), say(ORDER), output=Order)
    events = [event async for event in made.stream("what was ordered?")]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == ORDER
    assert isinstance(events[-1], RunFinished)
    assert events[-1].result.output.customer == "Vera"


async def test_a_run_that_was_paused_answers_with_its_type() -> None:
    mine = {"type": "function", "function": {"name": "open_door", "parameters": {"type": "object", "properties": {}}}}
    for options, kind in (({"output": Order}, Order), ({}, dict)):
        made, _ = runtime(call("open_door", call_id="c1"), say("no"), say(ORDER), **options)
        waiting = await made.run("open", client_tools=[mine], **({} if options else {"output": Order}))
        result = await made.resume(waiting.run_id, results={"c1": "open"})
        assert type(result.output) is kind


async def test_what_is_no_type_is_refused_by_name() -> None:
    made, _ = runtime(say("x"))
    with pytest.raises(RequestError, match=r"output must be a type .* not 'Order'"):
        await made.run("hello", output="Order")
    with pytest.raises(RequestError, match=r"no JSON schema can be made of <class '.*Orders'>"):
        await made.run("hello", output=Orders)
    with pytest.raises(ConfigError, match="output: invalid JSON Schema"):
        runtime(output={"type": "object", "required": 7})


# --- dependencies -------------------------------------------------------------------------------------------------------


async def test_a_dependency_fills_the_parameter_of_its_type_and_the_model_does_not_see_it() -> None:
    made, provider = runtime(
        call("list_orders", {"customer": "Vera"}), say("None."), sources=[list_orders], dependencies=[Orders("desk")]
    )
    result = await made.run("list Vera's orders")
    assert result.messages[1].text == "desk: Vera"
    assert "orders" not in provider.requests[0].tools[0]["function"]["parameters"]["properties"]
    assert (await made.call("list_orders", {})).content == "desk: "


async def test_a_parameter_may_be_annotated_with_a_class_above_or_with_none_beside() -> None:
    def read(store: Store, other: Orders | None = None) -> str:
        """Read a store."""
        return f"{type(store).__name__} {other is store}"

    made, _ = runtime(sources=[read], dependencies=[Orders("desk")])
    assert (await made.call("read", {})).content == "Orders True"
    with pytest.raises(CatalogError, match="parameter 'store': Orders and Mails are both a Store"):
        runtime(sources=[read], dependencies=[Orders("desk"), Mails()])


async def test_a_request_gives_the_dependency_of_a_class_that_the_runtime_only_declares() -> None:
    made, _ = runtime(say("x"), sources=[list_orders], dependencies=[Orders])
    assert (await made.call("list_orders", {}, dependencies=[Orders("mine")])).content == "mine: "
    with pytest.raises(RequestError, match="tools take Orders, and neither the runtime nor the request gives one"):
        await made.run("list orders")
    with pytest.raises(RequestError, match=r"no tool takes Mails \(there are Orders\)"):
        await made.run("list orders", dependencies=[Mails()])
    assert [chosen.tool.name for chosen in made.select("list orders").tools] == ["list_orders"]


async def test_the_dependencies_of_a_request_are_given_again_when_its_run_is_resumed() -> None:
    mine = {"type": "function", "function": {"name": "open_door", "parameters": {"type": "object", "properties": {}}}}
    made, _ = runtime(
        call("open_door", call_id="c1"), call("list_orders"), say("done"), sources=[list_orders], dependencies=[Orders]
    )
    waiting = await made.run("list orders", client_tools=[mine], dependencies=[Orders("first")])
    with pytest.raises(RequestError, match="tools take Orders"):
        await made.resume(waiting.run_id, results={"c1": "open"})
    result = await made.resume(waiting.run_id, results={"c1": "open"}, dependencies=[Orders("second")])
    assert "second: " in [message.text for message in result.messages]


def test_a_missing_dependency_is_an_error_at_load_that_names_tool_parameter_and_type() -> None:
    with pytest.raises(
        CatalogError, match=r"parameter 'orders': .* tool 'list_orders' .*dependencies=\[Orders\(\.\.\.\)\]"
    ):
        runtime(sources=[list_orders])
    source = FunctionSource("desk", [list_orders], dependencies=[Orders])
    with pytest.raises(
        ConfigError, match="source 'desk': the parameter 'orders' of tool 'list_orders' takes Orders, but there is none"
    ):
        runtime(sources=[source])


def test_dependencies_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(ConfigError, match="there are two of type Orders"):
        runtime(dependencies=[Orders("a"), Orders("b")])
    with pytest.raises(ConfigError, match="a dict cannot be told from an argument of a tool"):
        runtime(dependencies=[{}])
