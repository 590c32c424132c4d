"""Tools of the Responses API that are not plain functions, as codex sends them: namespaces, custom tools, searches for tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.clients.server import many_names
from tests.doors.serving import gateway
from tests.doors.test_gateway_matrix import PROVIDERS, STREAMS
from toolcaddie.testing import ScriptedUpstream, call, calls, say

pytestmark = pytest.mark.anyio

UPSTREAMS = [pytest.param(name, id=name) for name in PROVIDERS]
SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch" LF'}
PATCH = '*** Begin Patch\n+say "hi"\n'
SHELL = {"type": "function", "name": "exec_command", "description": "Runs a command.", "parameters": SCHEMA}
PLAN = {"type": "function", "name": "update_plan", "description": "Updates the plan.", "parameters": SCHEMA}
IMAGE = {"type": "function", "name": "view_image", "description": "Shows an image.", "parameters": SCHEMA}
PATCHER = {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": GRAMMAR}
SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": SCHEMA}


def namespace(name: str, members: Sequence[str], **fields: Any) -> dict[str, Any]:
    tools = [
        {"type": "function", "name": each, "description": f"{each.replace('_', ' ')}.", "parameters": SCHEMA, **fields}
        for each in members
    ]
    return {"type": "namespace", "name": name, "description": f"Tools of {name}.", "tools": tools}


OFFICE = namespace("mcp__office", many_names(200))
TOOLS = [SHELL, PLAN, IMAGE, OFFICE]


class Codex:
    """A client that keeps the conversation as items and sends all of them, like codex."""

    def __init__(self, client: openai.AsyncOpenAI, upstream: ScriptedUpstream, *, stream: bool) -> None:
        self.items: list[Any] = []
        self._client = client
        self.upstream = upstream
        self._stream = stream

    async def say(self, text: str, tools: Sequence[Any] = TOOLS, **more: Any) -> Sequence[Mapping[str, Any]]:
        self.items.append({"type": "message", "role": "user", "content": text})
        return await self.ask(tools, **more)

    async def ask(self, tools: Sequence[Any] = TOOLS, **more: Any) -> Sequence[Mapping[str, Any]]:
        fields: dict[str, Any] = {"model": "gpt-test", "input": self.items, "store": False, **more}
        fields["extra_body"] = {"tools": list(tools)}
        answer: Any = None
        if self._stream:
            done = []
            async for event in await self._client.responses.create(stream=True, **fields):
                if event.type == "response.output_item.done":
                    done.append(event.item.to_dict())
                if event.type == "response.completed":
                    answer = event.response
            assert done == [item.to_dict() for item in answer.output]
        else:
            answer = await self._client.responses.create(**fields)
        output = [item.to_dict() for item in answer.output]
        self.items += output
        return output

    def answer(self, item: Mapping[str, Any], text: str = "done") -> None:
        self.items.append({"type": f"{item['type']}_output", "call_id": item["call_id"], "output": text})

    @property
    def sent(self) -> Mapping[str, Any]:
        """The last request to the upstream."""
        body: Mapping[str, Any] = self.upstream.bodies[-1]
        return body


@asynccontextmanager
async def codex(folder: Path, provider: str, script: Sequence[Any], *, stream: bool = False) -> AsyncIterator[Codex]:
    make_wire, make_provider = PROVIDERS[provider]
    wire = make_wire()
    options = {} if wire is None else {"wire": wire}
    async with (
        ScriptedUpstream(script, **options) as upstream,
        gateway(folder, make_provider(upstream.base_url)) as served,
    ):
        yield Codex(served.client, upstream, stream=stream)
        assert not upstream.refusals


def model_name(provider: str, namespace: str, name: str) -> str:
    """The name by which a model calls a tool of a namespace."""
    return f"{namespace}.{name}" if provider == "responses" else f"{namespace}__{name}"


def fields_of(item: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(item.get(name) for name in names)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("provider", UPSTREAMS)
async def test_a_tool_of_a_namespace_is_selected_and_called_in_its_own_form(
    tmp_path: Path, provider: str, stream: bool
) -> None:
    name = model_name(provider, "mcp__office", "approve_payroll")
    script = [calls((name, {"id": "7"}), ("exec_command", {"id": "ls"})), say("Approved.")]
    async with codex(tmp_path, provider, script, stream=stream) as client:
        first, second = [item for item in await client.say("approve the payroll 7") if item["type"] == "function_call"]
        assert fields_of(first, "namespace", "name", "arguments") == ("mcp__office", "approve_payroll", '{"id":"7"}')
        assert fields_of(second, "namespace", "name") == (None, "exec_command")
        assert len(str(client.sent["tools"])) < len(str(TOOLS)) / 4
        client.answer(first)
        client.answer(second)
        (words,) = await client.ask()
        assert words["content"][0]["text"] == "Approved."


async def test_a_responses_upstream_gets_the_clients_own_definitions(tmp_path: Path) -> None:
    hosted = [{"type": "web_search", "external_web_access": True}, {"type": "local_shell"}]
    async with codex(tmp_path, "responses", [say("Hello.")]) as client:
        await client.say("approve the payroll 7", [SHELL, PLAN, PATCHER, OFFICE, SEARCH, *hosted])
        tools = client.sent["tools"]
    assert [tool for tool in tools if tool["type"] not in ("function", "namespace")] == [PATCHER, SEARCH, *hosted]
    (group,) = [tool for tool in tools if tool["type"] == "namespace"]
    assert fields_of(group, "name", "description") == ("mcp__office", "Tools of mcp__office.")
    assert "approve_payroll" in {member["name"] for member in group["tools"]}
    assert 0 < len(group["tools"]) < 40
    assert all(member["parameters"] == SCHEMA for member in group["tools"])


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("provider", UPSTREAMS)
async def test_a_custom_tool_gets_its_input_as_text(tmp_path: Path, provider: str, stream: bool) -> None:
    script = [call("apply_patch", {"input": PATCH}), say("Patched.")]
    async with codex(tmp_path, provider, script, stream=stream) as client:
        item = (await client.say("patch the file", [SHELL, PLAN, PATCHER, OFFICE]))[-1]
        assert fields_of(item, "type", "name", "input") == ("custom_tool_call", "apply_patch", PATCH)
        assert GRAMMAR["definition"].split('"')[1] in str(client.sent["tools"])
        client.answer({**item, "type": "custom_tool_call"})
        assert (await client.ask([SHELL, PLAN, PATCHER, OFFICE]))[-1]["content"][0]["text"] == "Patched."


async def test_a_model_that_writes_the_input_of_a_custom_tool_without_json_is_understood(tmp_path: Path) -> None:
    async with codex(tmp_path, "chat", [call("apply_patch", PATCH)], stream=True) as client:
        item = (await client.say("patch the file", [SHELL, PATCHER]))[-1]
    assert item["input"] == PATCH


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("provider", UPSTREAMS)
async def test_tools_that_the_client_finds_by_a_search_can_be_called(
    tmp_path: Path, provider: str, stream: bool
) -> None:
    name, tools = model_name(provider, "mcp__office", "approve_payroll"), [SHELL, PATCHER, SEARCH]
    script = [call("tool_search", {"query": "payroll"}), call(name, {"id": "7"}), say("Approved.")]
    async with codex(tmp_path, provider, script, stream=stream) as client:
        search = (await client.say("approve the payroll 7", tools))[-1]
        assert fields_of(search, "type", "execution") == ("tool_search_call", "client")
        assert search["arguments"] == {"query": "payroll"}
        result = {"type": "tool_search_output", "call_id": search["call_id"], "execution": "client"}
        found = [namespace("mcp__office", ["approve_payroll"], defer_loading=True)]
        client.items.append({**result, "status": "completed", "tools": found})
        item = (await client.ask(tools))[-1]
        assert fields_of(item, "type", "namespace", "name") == ("function_call", "mcp__office", "approve_payroll")
        if provider == "responses":
            assert client.sent["input"][-1]["tools"] == found
        assert ("approve_payroll" in str(client.sent.get("tools"))) == (provider != "responses")
        client.answer(item)
        assert (await client.ask(tools))[-1]["content"][0]["text"] == "Approved."


@pytest.mark.parametrize("provider", UPSTREAMS)
async def test_additional_tools_in_the_input_can_be_called(tmp_path: Path, provider: str) -> None:
    name = model_name(provider, "functions", "wait")
    group = namespace("functions", ["wait"])
    async with codex(tmp_path, provider, [call(name, {"id": "7"})]) as client:
        client.items.append({"type": "additional_tools", "role": "developer", "tools": [group]})
        item = (await client.say("wait for it", [SHELL]))[-1]
        assert fields_of(item, "namespace", "name") == ("functions", "wait")
        if provider == "responses":
            assert client.sent["input"][0]["tools"] == [group]


@pytest.mark.parametrize("provider", ["chat", "responses"])
async def test_a_call_through_execute_tool_reaches_the_client_in_its_own_form(tmp_path: Path, provider: str) -> None:
    inside = {"tool_name": "mcp__office__share_vehicle_2", "arguments": {"id": "7"}}
    script = [call("search_tools", {"query": "share vehicle"}), call("execute_tool", inside), say("Shared.")]
    async with codex(tmp_path, provider, script, stream=True) as client:
        item = (await client.say("approve the payroll 7"))[-1]
        assert fields_of(item, "namespace", "name") == ("mcp__office", "share_vehicle_2")
        client.answer(item)
        assert (await client.ask())[-1]["content"][0]["text"] == "Shared."


@pytest.mark.parametrize("provider", ["chat", "responses"])
@pytest.mark.parametrize(
    "choice",
    [
        pytest.param({"type": "custom", "name": "apply_patch"}, id="custom"),
        pytest.param({"type": "function", "name": "exec_command"}, id="function"),
    ],
)
async def test_a_chosen_tool_must_be_called(tmp_path: Path, provider: str, choice: dict[str, Any]) -> None:
    async with codex(tmp_path, provider, [call(choice["name"], {"input": "x", "id": "1"})]) as client:
        await client.say("go", [SHELL, PATCHER, OFFICE], tool_choice=choice)
        expected = choice if provider == "responses" else {"type": "function", "function": {"name": choice["name"]}}
        assert client.sent["tool_choice"] == expected


async def test_long_and_unusual_names_stay_unique_before_chat_completions(tmp_path: Path) -> None:
    groups = [namespace("mcp__" + "very_" * 12 + "long", ["a", "b"]), namespace("mcp.dots", ["c"])]
    async with codex(tmp_path, "chat", [say("Hello.")] * 2) as client:
        await client.say("hello", [SHELL, *groups])
        names = [tool["function"]["name"] for tool in client.sent["tools"]]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 64 for name in names)
    (dotted,) = [name for name in names if name.startswith("mcp_dots__c")]
    async with codex(tmp_path, "chat", [call(dotted, {"id": "1"})]) as client:
        item = (await client.say("hello", [SHELL, *groups]))[-1]
    assert fields_of(item, "namespace", "name") == ("mcp.dots", "c")


@pytest.mark.parametrize("provider", ["chat", "messages", "gemini"])
async def test_a_tool_that_only_openai_can_run_is_refused_by_name(tmp_path: Path, provider: str) -> None:
    async with codex(tmp_path, provider, []) as client:
        with pytest.raises(openai.BadRequestError, match="type 'web_search' is run by servers") as caught:
            await client.say("hello", [SHELL, {"type": "web_search"}])
        assert caught.value.param == "tools"
        assert not client.upstream.bodies


async def test_parameters_that_only_describe_the_answer_are_omitted_for_another_api(tmp_path: Path) -> None:
    hints: dict[str, Any] = {
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
    }
    async with codex(tmp_path, "chat", [say("Hello.")]) as client:
        await client.say("hello", [SHELL], **hints)
        assert not {"include", "reasoning"} & client.sent.keys()
        assert client.sent["reasoning_effort"] == "low"


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        pytest.param({"type": "namespace", "name": "a", "tools": "b"}, "tools[0].tools", id="members"),
        pytest.param({"type": "namespace", "tools": []}, "tools[0].name", id="no name"),
        pytest.param({"type": "namespace", "name": "a", "tools": [5]}, "tools[0].tools[0]", id="member"),
        pytest.param(
            {"type": "namespace", "name": "a", "tools": [{"type": "mcp", "name": "x"}]}, "tools[0].tools[0]", id="kind"
        ),
        pytest.param(
            {"type": "namespace", "name": "a", "tools": [{"type": "function"}]}, "tools[0].tools[0].name", id="nameless"
        ),
        pytest.param({"type": "custom"}, "tools[0].name", id="custom"),
        pytest.param(namespace("a", ["x", "x"]), "tools", id="twice"),
    ],
)
async def test_a_faulty_namespace_is_refused_by_its_field(tmp_path: Path, tool: dict[str, Any], param: str) -> None:
    async with codex(tmp_path, "chat", []) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.say("hello", [tool])
        assert caught.value.param == param


@pytest.mark.parametrize(
    ("item", "param"),
    [
        pytest.param({"type": "custom_tool_call", "call_id": "c", "name": "x"}, "input[0].input", id="no input"),
        pytest.param({"type": "tool_search_call", "execution": "client"}, "input[0].call_id", id="no id"),
        pytest.param(
            {"type": "tool_search_output", "execution": "client", "tools": []}, "input[0].call_id", id="search"
        ),
        pytest.param({"type": "additional_tools", "tools": 5}, "input[0].tools", id="no list"),
        pytest.param(
            {"type": "additional_tools", "tools": [{"type": "namespace", "name": 5}]},
            "input[0].tools[0].name",
            id="no name",
        ),
    ],
)
async def test_a_faulty_item_is_refused_by_its_field(tmp_path: Path, item: dict[str, Any], param: str) -> None:
    async with codex(tmp_path, "chat", []) as client:
        client.items.append(item)
        with pytest.raises(openai.BadRequestError) as caught:
            await client.say("hello")
        assert caught.value.param == param
