"""Tools and prompts that ask their client, through both generations of the protocol; prompts and resources of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import CreateMessageResult, ElicitResult, TextContent

from tests.doors.processes import serving

pytestmark = pytest.mark.anyio

TOOLS = '''
from toolcaddie import tool
from toolcaddie.core.client import Elicit, Sample
from toolcaddie.core.run import RunContext
from toolcaddie.doors.mcp.offers import prompt, resource

FORM = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}

@tool
async def greet(context: RunContext) -> str:
    """Greet a person and ask a model for a wish."""
    if context.client is None:
        return "Nobody to ask."
    context.client.notes["count"] = context.client.notes.get("count", 0) + 1
    first = await context.client.ask({"who": Elicit(message="Who are you?", schema=FORM)})
    if first["who"]["action"] != "accept":
        return first["who"]["action"]
    second = await context.client.ask({"wish": Sample(text="A wish, please")})
    return f"{first['who']['content']['name']}: {second['wish']['content']['text']}"

@tool
async def attempts(context: RunContext) -> str:
    """Count the attempts of a call."""
    context.client.notes["count"] = context.client.notes.get("count", 0) + 1
    await context.client.ask({"who": Elicit(message="Who are you?", schema=FORM)})
    return str(context.client.notes["count"])

@prompt(complete={"plan": ["monthly", "yearly"]})
async def offer(plan: str, client) -> list:
    """Offer a plan."""
    answers = await client.ask({"who": Elicit(message="Who is it for?", schema=FORM)})
    return [("assistant", "I write offers."), f"Offer {plan} to {answers['who']['content']['name']}."]

@resource("gym://members/{id}", mime_type="text/plain", roles=["staff"])
def member(id: str) -> str:
    return f"member {id}"

@resource("gym://rules")
def rules() -> str:
    """The house rules."""
    return "Put the weights back."
'''
GENERATIONS = [pytest.param("legacy", id="2025"), pytest.param("2026-07-28", id="2026")]
MODULE = ("--catalog", "python:asking", "--mcp-mode", "all")


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home: Path = tmp_path_factory.mktemp("asking")
    (home / "asking.py").write_text(TOOLS)
    (home / "toolcaddie.toml").write_text('[mcp]\noffers = "python:asking"\n')
    with serving(home, *MODULE) as server:
        yield server.base_url.removesuffix("/v1") + "/mcp"


class Person:
    """Answers forms with the given contents, one after the other."""

    def __init__(self, *contents: dict[str, Any] | None) -> None:
        self.contents = list(contents)

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        content = self.contents.pop(0)
        return ElicitResult(action="decline") if content is None else ElicitResult(action="accept", content=content)


async def _wish(context: Any, params: Any) -> CreateMessageResult:
    assert params.messages[0].content.text == "A wish, please"
    return CreateMessageResult(role="assistant", content=TextContent(text="Peace."), model="m")


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_tool_asks_the_person_and_then_the_model(door: str, mode: str) -> None:
    person = Person({"name": "Ann"})
    async with Client(door, mode=mode, elicitation_callback=person, sampling_callback=_wish) as client:
        result = await client.call_tool("greet", {})
    assert result.content[0].text == "Ann: Peace."
    assert not person.contents


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_person_may_decline(door: str, mode: str) -> None:
    async with Client(door, mode=mode, elicitation_callback=Person(None), sampling_callback=_wish) as client:
        assert (await client.call_tool("greet", {})).content[0].text == "decline"


async def test_an_answer_that_does_not_fit_the_form_is_asked_for_again(door: str) -> None:
    person = Person({"name": "A"}, {}, {"name": "Ann"})
    async with Client(door, mode="2026-07-28", elicitation_callback=person) as client:
        assert (await client.call_tool("attempts", {})).content[0].text == "4"


async def test_in_a_session_an_answer_that_does_not_fit_is_an_error(door: str) -> None:
    async with Client(door, mode="legacy", elicitation_callback=Person({"name": "A"})) as client:
        result = await client.call_tool("attempts", {})
    assert result.is_error
    assert "does not fit" in result.content[0].text


async def test_a_client_that_cannot_answer_is_told_so(door: str) -> None:
    async with Client(door, mode="legacy") as client:
        result = await client.call_tool("greet", {})
        assert result.is_error
        assert "does not offer elicitation" in result.content[0].text
    async with Client(door, mode="2026-07-28") as client:
        with pytest.raises(MCPError, match="elicitation") as raised:
            await client.call_tool("greet", {})
    assert raised.value.code == -32021


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_prompt_has_arguments_completions_and_questions(door: str, mode: str) -> None:
    async with Client(door, mode=mode, elicitation_callback=Person({"name": "Ann"})) as client:
        (listed,) = (await client.list_prompts()).prompts
        prompt = await client.get_prompt("offer", {"plan": "yearly"})
        with pytest.raises(MCPError, match="plan"):
            await client.get_prompt("offer", {})
    assert (listed.name, listed.description) == ("offer", "Offer a plan.")
    assert [argument.name for argument in listed.arguments] == ["plan"]
    assert [(message.role, message.content.text) for message in prompt.messages] == [
        ("assistant", "I write offers."),
        ("user", "Offer yearly to Ann."),
    ]


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_resources_are_listed_and_read_by_those_who_may(door: str, mode: str) -> None:
    async with Client(door, mode=mode) as client:
        assert [each.uri for each in (await client.list_resources()).resources] == ["gym://rules"]
        assert (await client.list_resource_templates()).resource_templates == []
        assert (await client.read_resource("gym://rules")).contents[0].text == "Put the weights back."
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource("gym://members/7")
