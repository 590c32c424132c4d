"""An MCP server as a source: real servers over stdio and HTTP, in both generations of the protocol."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.sources.mcp.upstream import PIXEL, make_server, serving
from tests.sources.mcp.using import GENERATIONS, WIRES, called, context, opened, stdio_server, tool_of
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.content import Image, Resource, Text, byte_size
from toolcaddie.core.errors import ConfigError, OutboundError
from toolcaddie.core.events import SourceStatus
from toolcaddie.parts import Parts, Secrets
from toolcaddie.runtime import Runtime
from toolcaddie.sources.mcp import McpServer, McpSource
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

both = pytest.mark.parametrize(("wire", "protocol"), [(wire, version) for wire in WIRES for version in GENERATIONS])


@both
async def test_tools_are_listed_and_called(wire: str, protocol: str) -> None:
    async with opened(wire, protocol) as source:
        assert source.health.version == protocol
        assert source.health.server_name == "upstream"
        assert tool_of(source, "add").name == "up__add"
        result = await called(source, "add", a=2, b=3)
        assert (result.text, result.structured, result.is_error) == ("5", {"result": 5}, False)
        assert (await called(source, "book", seat="4A")).structured == {"seat": "4A", "price": 12.5}


@both
async def test_pictures_and_resources_arrive_as_blocks(wire: str, protocol: str) -> None:
    async with opened(wire, protocol) as source:
        [picture] = (await called(source, "picture")).content
        assert isinstance(picture, Image)
        assert (picture.mime_type, byte_size(picture.data)) == ("image/png", len(PIXEL))
        mixed = await called(source, "mixed")
        assert mixed.structured == {"n": 1}
        text, resource = mixed.content
        assert isinstance(text, Text)
        assert isinstance(resource, Resource)
        assert (text.text, resource.uri, resource.text) == ("first", "memo://1", "remember")


@both
async def test_progress_reaches_the_run(wire: str, protocol: str) -> None:
    steps: list[tuple[float, float | None, str]] = []

    async def listen(done: float, total: float | None, message: str) -> None:
        steps.append((done, total, message))

    async with opened(wire, protocol) as source:
        await called(source, "count", run=context(on_progress=listen), steps=2)
    assert steps == [(1, 2, "step 1"), (2, 2, "step 2")]


@both
async def test_a_failing_tool_gives_a_failed_result(wire: str, protocol: str) -> None:
    async with opened(wire, protocol) as source:
        result = await called(source, "fail")
        assert result.is_error
        assert result.error == "failed"
        assert "Error executing tool fail" in result.text


async def test_a_cancelled_call_is_cancelled_on_the_server(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    async with opened("stdio", env={"WAIT_MARKER": str(marker)}) as source:
        task = asyncio.create_task(called(source, "wait", seconds=60))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _until(marker.exists)
        assert (await called(source, "add", a=1, b=1)).text == "2"


@both
async def test_a_call_that_takes_too_long_ends_with_a_timeout(wire: str, protocol: str) -> None:
    async with opened(wire, protocol, timeout=0.2) as source:
        result = await called(source, "wait", seconds=30)
        assert result.error == "timeout"
        assert "up__wait: the MCP server 'up' did not answer in time" in result.text
        assert (await called(source, "add", a=1, b=1)).text == "2"


async def test_a_server_that_dies_in_a_call_costs_a_result_and_comes_back() -> None:
    async with opened("stdio") as source:
        others = [asyncio.create_task(called(source, "wait", seconds=60)) for _ in range(3)]
        await asyncio.sleep(0.2)
        result = await called(source, "die")
        assert result.is_error
        assert "went away during the call, which may or may not have run" in result.text
        assert [(await other).is_error for other in others] == [True, True, True]
        assert (await called(source, "add", a=1, b=1)).text == "2"
        assert source.health.state == "connected"


async def test_a_server_that_is_restarted_on_its_port_is_used_again() -> None:
    async with serving(make_server()) as url:
        port = int(url.split(":")[2].split("/")[0])
        source = McpSource(McpServer(name="up", url=url))
        await source.open()
        assert (await called(source, "add", a=1, b=1)).text == "2"
    gone = await called(source, "add", a=1, b=1)
    assert gone.is_error
    assert "'up'" in gone.text
    async with serving(make_server(), port):
        deadline = time.monotonic() + 20
        while (await called(source, "add", a=1, b=1)).is_error:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        await source.close()


@pytest.mark.parametrize("protocol", GENERATIONS)
async def test_a_server_that_was_restarted_between_two_calls_costs_no_result(protocol: Any) -> None:
    async with serving(make_server()) as url:
        port = int(url.split(":")[2].split("/")[0])
        source = McpSource(McpServer(name="up", url=url, protocol=protocol))
        await source.open()
    async with serving(make_server(), port):
        answers = await asyncio.gather(*(called(source, "add", a=1, b=number) for number in range(20)))
        assert [answer.text for answer in answers] == [str(1 + number) for number in range(20)]
        await source.close()


async def test_closing_ends_every_process_that_the_server_started() -> None:
    async with opened("stdio") as source:
        pid = int((await called(source, "spawn")).text)
        os.kill(pid, 0)
    await _until(lambda: not _lives(pid))


async def test_a_stdio_server_gets_only_the_variables_it_is_meant_to_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANK_PASSWORD", "1234")
    monkeypatch.setenv("TICKETS", "t0ken")
    async with opened("stdio", env={"MODE": "test"}, env_from={"TICKETS_TOKEN": "TICKETS"}) as source:
        names = (await called(source, "environment")).text.split(",")
    assert {"MODE", "TICKETS_TOKEN", "PATH"} <= set(names)
    assert "BANK_PASSWORD" not in names
    assert "TICKETS" not in names


async def test_a_variable_that_is_not_set_is_named() -> None:
    source = McpSource(stdio_server(env_from={"A": "NO_SUCH_VARIABLE"}), Parts(secrets=Secrets({})))
    with pytest.raises(ConfigError, match="NO_SUCH_VARIABLE is not set"):
        await source.open()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "either its url or its command"),
        ({"url": "http://a/mcp", "command": "b"}, "either its url or its command"),
        ({"url": "ftp://a"}, "begin with http"),
        ({"url": "http://user:password@a/mcp"}, "no user or password"),
        ({"url": "http://a/mcp", "headers": {"Authorization": "Bearer x"}}, "looks like a secret"),
        ({"command": "a", "env": {"API_KEY": "x"}}, 'env_from = { API_KEY = "API_KEY" }'),
        ({"command": "a", "token_env": "T"}, "belong to a server with a url"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        McpSource(McpServer(name="up", **settings))


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (
            McpServer(name="up", command="no-such-program"),
            "'no-such-program' cannot be started: there is no such command",
        ),
        (McpServer(name="up", command="false"), "the MCP server 'up'"),
        (McpServer(name="up", url="http://127.0.0.1:9/mcp"), "the MCP server 'up'"),
        (McpServer(name="up", command="sleep", args=("100",), connect_seconds=0.3), "no answer in time"),
    ],
    ids=["missing", "ends", "refused", "silent"],
)
async def test_a_server_that_cannot_be_used_is_named(server: McpServer, words: str) -> None:
    source = McpSource(server)
    with pytest.raises(OutboundError, match=words):
        await source.open()
    assert source.health.state == "closed"


async def test_questions_are_declined_and_the_result_says_so() -> None:
    async with opened("stdio", "2025-11-25") as source:
        result = await called(source, "wish")
        assert result.text.startswith("decline: None")
        assert "[the server asked 'Which color?'; there is nobody to answer, so it was declined]" in result.text


async def test_forms_can_be_answered_with_their_defaults() -> None:
    async with opened("stdio", "2025-11-25", elicitation="defaults") as source:
        result = await called(source, "wish")
        assert result.text.startswith("accept: color='blue'")
        assert "answered with the defaults of its form" in result.text


@both
async def test_resources_and_prompts_become_tools_if_wanted(wire: str, protocol: str) -> None:
    async with opened(wire, protocol, resources=True, prompts=True) as source:
        names = {tool.name for tool in source.tools()}
        assert {"up__resource_fixed", "up__resource_memo", "up__prompt_greet"} <= names
        [fixed] = (await called(source, "resource_fixed")).content
        assert isinstance(fixed, Resource)
        assert fixed.text == "always the same"
        assert (await called(source, "resource_memo", topic="a cat")).text == "about a cat"
        assert "Say hello to Ada." in (await called(source, "prompt_greet", who="Ada")).text
    async with opened(wire, protocol) as source:
        assert not [tool for tool in source.tools() if "resource" in tool.name or "prompt" in tool.name]


async def test_annotations_of_a_stranger_do_not_make_a_tool_harmless() -> None:
    async with opened("stdio") as source:
        assert tool_of(source, "add").annotations.read_only is None
        assert tool_of(source, "add").may_destroy
    async with opened("stdio", trusted=True) as source:
        assert tool_of(source, "add").annotations.read_only is True


async def test_a_run_calls_a_tool_of_a_server() -> None:
    provider = ScriptedProvider([call("up__add", {"a": 20, "b": 22}), say("42")])
    async with opened("stdio") as source:
        runtime = Runtime(provider=provider, sources=[source], policy=AllowAll())
        result = await runtime.run("add 20 and 22")
        assert result.text == "42"
        await runtime.close()


async def test_a_lost_server_is_reported() -> None:
    states: list[SourceStatus] = []
    async with opened("stdio", parts=Parts(emit=states.append)) as source:
        await called(source, "die")
        await _until(lambda: bool(states))
    assert (states[0].source, states[0].status) == ("up", "failed")


async def test_nothing_is_left_after_closing() -> None:
    async with opened("http", GENERATIONS[0]):
        pass  # the test server's package keeps one task of its own after its first stream
    before = asyncio.all_tasks()
    descriptors = len(os.listdir("/proc/self/fd"))
    for wire in WIRES:
        for protocol in GENERATIONS:
            async with opened(wire, protocol) as source:
                await called(source, "add", a=1, b=1)
    await _until(lambda: not asyncio.all_tasks() - before)
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 2


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


async def _until(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
