"""The MCP door of `toolcaddie serve`, and `toolcaddie mcp serve`, with the clients of the package `mcp`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.databases import database_url, home_environment
from tests.doors.processes import serving

pytestmark = pytest.mark.anyio

TOOLS = '''
import asyncio
from toolcaddie import tool
from toolcaddie.core.content import Audio, Image, Resource, Text
from toolcaddie.core.run import RunContext

@tool(read_only=True, category="members")
def find_member(name: str) -> dict[str, str]:
    """Find a member of the gym by name."""
    return {"name": name, "id": "7"}

@tool(category="members", title="Rename a member")
def rename_member(id: str, name: str) -> str:
    """Give a member another name."""
    return f"{id} is {name} now"

@tool(destructive=True, category="members")
def delete_member(id: str) -> str:
    """Delete a member."""
    return f"{id} is deleted"

@tool(roles=["boss"])
def payroll() -> str:
    """Show the salaries."""
    return "secret"

@tool(read_only=True)
def album() -> list:
    """Show pictures and sounds."""
    return [Text(text="Look"), Image(data="aGk=", mime_type="image/png"), Audio(data="aGk=", mime_type="audio/wav"),
            Resource(uri="gym://rules", text="rules"), Resource(uri="gym://film", name="film")]

@tool(read_only=True)
async def walk(context: RunContext) -> str:
    """Walk three steps."""
    for step in range(1, 4):
        await context.report_progress(step, 3, f"step {step}")
    return "arrived"

@tool(read_only=True, timeout=60)
async def wait() -> str:
    """Wait for a minute."""
    await asyncio.sleep(60)
    return "done"

@tool(read_only=True)
def novel() -> str:
    """Tell a long story."""
    return "word " * 40_000
'''
SIX = ["list_tools", "search_tools", "get_tool_schema", "execute_read", "execute_write", "execute_destructive"]
GENERATIONS = [pytest.param("legacy", id="2025"), pytest.param("2026-07-28", id="2026")]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "gymtools.py").write_text(TOOLS)
    return folder


def _url(base_url: str) -> str:
    return base_url.removesuffix("/v1") + "/mcp"


@pytest.fixture(scope="module")
def compact(home: Path) -> Iterator[str]:
    with serving(home, "--catalog", "python:gymtools", "--approve", "run") as server:
        yield _url(server.base_url)


@pytest.fixture(scope="module")
def whole(home: Path) -> Iterator[str]:
    with serving(home, "--catalog", "python:gymtools", "--mcp-mode", "all") as server:
        yield _url(server.base_url)


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_compact_shows_six_tools_with_titles_and_annotations(compact: str, mode: str) -> None:
    async with Client(compact, mode=mode) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == SIX
    assert all(tool.title and tool.annotations for tool in tools)
    hints = {tool.name: tool.annotations for tool in tools}
    assert hints["execute_read"].read_only_hint
    assert not hints["execute_write"].read_only_hint
    assert not hints["execute_write"].destructive_hint
    assert hints["execute_destructive"].destructive_hint


async def test_54_tools_of_the_gym_cost_at_most_a_thousand_tokens(tmp_path: Path) -> None:
    """Source: issue 11; a token is 3.6 bytes (docs of dependencies)."""
    (tmp_path / "small.py").write_text(
        "from toolcaddie.samples import gym\n"
        "from toolcaddie.sources.definitions import DefinitionSource\n"
        "source = DefinitionSource('small', gym.source().tools()[:54], origin='gym')\n"
    )
    with serving(tmp_path, "--catalog", "python:small") as server:
        async with Client(_url(server.base_url)) as client:
            page = await client.call_tool("list_tools", {})
            tools = (await client.list_tools()).tools
    assert page.structured_content["total"] == 54
    shown = msgspec.json.encode([tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools])
    assert len(shown) / 3.6 <= 1_000


async def test_a_client_finds_a_tool_reads_its_schema_and_runs_it(compact: str) -> None:
    async with Client(compact) as client:
        hits = (await client.call_tool("search_tools", {"query": "find a member by name"})).structured_content
        assert hits["tools"][0] == {
            "name": "find_member",
            "description": "Find a member of the gym by name.",
            "category": "members",
            "effect": "read",
        }
        schema = (await client.call_tool("get_tool_schema", {"tool_name": "find_member"})).structured_content
        assert schema["parameters"]["required"] == ["name"]
        result = await client.call_tool("execute_read", {"tool_name": "find_member", "arguments": {"name": "Ann"}})
    assert result.structured_content == {"name": "Ann", "id": "7"}
    assert not result.is_error


@pytest.mark.parametrize(
    ("executor", "name", "runs"),
    [
        pytest.param("execute_read", "delete_member", False, id="read-cannot-destroy"),
        pytest.param("execute_read", "rename_member", False, id="read-cannot-write"),
        pytest.param("execute_write", "delete_member", False, id="write-cannot-destroy"),
        pytest.param("execute_write", "rename_member", True, id="write-writes"),
        pytest.param("execute_destructive", "delete_member", True, id="destructive-destroys"),
        pytest.param("execute_destructive", "rename_member", True, id="a-stronger-one-runs-it-too"),
    ],
)
async def test_a_tool_runs_only_through_the_tool_of_its_effect(
    compact: str, executor: str, name: str, runs: bool
) -> None:
    arguments = {"id": "7"} if name == "delete_member" else {"id": "7", "name": "Bo"}
    async with Client(compact) as client:
        result = await client.call_tool(executor, {"tool_name": name, "arguments": arguments})
    assert result.is_error is not runs
    if not runs:
        assert "run it with execute_" in result.content[0].text


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        pytest.param("find_member", {"name": "Ann"}, "run it through execute_read", id="a-name-of-the-catalog"),
        pytest.param("execute_read", {"tool_name": "find_membre"}, "Did you mean find_member?", id="a-typing-error"),
        pytest.param("execute_read", {"tool_name": "payroll"}, "There is no tool 'payroll'", id="a-hidden-tool"),
        pytest.param(
            "execute_read", {"tool_name": "find_member", "arguments": {"nam": 1}}, "name", id="wrong-arguments"
        ),
        pytest.param("execute_read", {"tool_name": ["x"]}, "tool_name", id="a-name-that-is-no-text"),
        pytest.param("search_tools", {}, "query", id="no-query"),
    ],
)
async def test_a_wrong_call_gets_a_result_that_says_what_to_do(
    compact: str, tool: str, arguments: dict[str, Any], said: str
) -> None:
    async with Client(compact) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert said in result.content[0].text


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_all_shows_the_visible_tools_and_keeps_blocks(whole: str, mode: str) -> None:
    async with Client(whole, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("album", {})
    assert "payroll" not in tools
    assert tools["rename_member"].title == "Rename a member"
    assert tools["find_member"].annotations.read_only_hint
    assert [block.type for block in result.content] == ["text", "image", "audio", "resource", "resource_link"]
    assert result.content[1].data == "aGk="


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_progress_reaches_the_client(whole: str, mode: str) -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        steps.append((done, total, message))

    async with Client(whole, mode=mode) as client:
        result = await client.call_tool("walk", {}, progress_callback=on_progress)
    assert result.content[0].text == "arrived"
    assert steps == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def _until_recorded(folder: Path, status: str) -> None:
    """Waits until the only run of the trail has a status."""
    environ = {**os.environ, **home_environment(folder)}
    with anyio.fail_after(20):
        while True:
            command = [sys.executable, "-m", "toolcaddie", "trail", "--json"]
            done = await anyio.run_process(command, cwd=folder, env=environ, check=False)
            runs = json.loads(done.stdout)["runs"]
            if [run["status"] for run in runs] == [status]:
                return


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_cancelled_call_ends_and_is_recorded(home: Path, tmp_path: Path, mode: str) -> None:
    (tmp_path / "gymtools.py").write_text(TOOLS)
    with serving(tmp_path, "--catalog", "python:gymtools", "--mcp-mode", "all") as server:
        async with Client(_url(server.base_url), mode=mode) as client:
            await client.list_tools()  # the first request loads the server, which takes longer than this client waits
            with pytest.raises(Exception, match=r"(?i)time"):
                await client.call_tool("wait", {}, read_timeout_seconds=0.5)
            await client.list_tools()
        await _until_recorded(tmp_path, "failed")


async def test_a_result_that_was_cut_is_read_on(whole: str, compact: str) -> None:
    async with Client(whole) as client:
        cut = (await client.call_tool("novel", {})).content[0].text
        handle = cut.rpartition("handle '")[2].partition("'")[0]
        rest = await client.call_tool("read_result", {"handle": handle, "offset": 199_990})
    assert "this is the end" in rest.content[0].text
    async with Client(compact) as client:
        cut = (await client.call_tool("execute_read", {"tool_name": "novel"})).content[0].text
        handle = cut.rpartition("handle '")[2].partition("'")[0]
        arguments = {"tool_name": "read_result", "arguments": {"handle": handle, "offset": 0, "limit": 4}}
        assert (await client.call_tool("execute_read", arguments)).content[0].text.startswith("word")


async def test_five_shows_the_five_meta_tools_and_runs_tools(home: Path) -> None:
    words = ["-m", "toolcaddie", "mcp", "serve", "--catalog", "python:gymtools", "--five", "--approve", "run"]
    server = StdioServerParameters(
        command=sys.executable, args=words, cwd=home, env={"PYTHONPATH": str(home), **home_environment(home)}
    )
    async with Client(server) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        advice = client.instructions
        result = await client.call_tool("execute_tool", {"tool_name": "delete_member", "arguments": {"id": "7"}})
        said = await client.call_tool("respond", {"message": "All done."})
    assert names == ["execute_tool", "list_tools", "search_tools", "get_tool_schema", "respond"]
    assert advice is not None
    assert set(re.findall(r"\w+_\w+", advice)) == {*names} - {"respond"}
    assert result.content[0].text == "7 is deleted"
    assert said.content[0].text == "All done."


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_call_that_may_destroy_waits_and_runs_when_it_is_made_again(
    home: Path, tmp_path: Path, mode: str
) -> None:
    database = database_url(tmp_path / "approvals.sqlite")
    call = {"tool_name": "delete_member", "arguments": {"id": "7"}}
    with serving(home, "--catalog", "python:gymtools", "--database-url", database) as server:
        async with Client(_url(server.base_url), mode=mode) as client:
            waiting = await client.call_tool("execute_destructive", call)
            assert waiting.is_error
            assert "waits for a person's approval: approval_" in waiting.content[0].text
            approval_id = re.search(r"approval_\w+", waiting.content[0].text)[0]  # type: ignore[index]
            words = [
                sys.executable,
                "-m",
                "toolcaddie",
                "approvals",
                "approve",
                approval_id,
                "--database-url",
                database,
            ]
            answered = await asyncio.to_thread(subprocess.run, words, check=True, capture_output=True, text=True)
            assert "the MCP client goes on by making the same call of delete_member again" in answered.stderr
            assert "toolcaddie resume" not in answered.stderr
            assert (await client.call_tool("execute_destructive", call)).content[0].text == "7 is deleted"
            assert (await client.call_tool("execute_destructive", call)).is_error  # an approval is valid for one call


async def test_a_role_of_the_command_line_sees_its_tools(home: Path) -> None:
    words = ["-m", "toolcaddie", "mcp", "serve", "--catalog", "python:gymtools", "--mode", "all", "--role", "boss"]
    server = StdioServerParameters(
        command=sys.executable, args=words, cwd=home, env={"PYTHONPATH": str(home), **home_environment(home)}
    )
    async with Client(server, mode="legacy") as client:
        assert (await client.call_tool("payroll", {})).content[0].text == "secret"


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_selected_shows_what_fits_the_last_search(tmp_path: Path, mode: str) -> None:
    with serving(tmp_path, "--catalog", "gym", "--mcp-mode", "selected") as server:
        async with Client(_url(server.base_url), mode=mode) as client:
            before = [tool.name for tool in (await client.list_tools()).tools]
            await client.call_tool("search_tools", {"query": "freeze a membership"})
            after = [tool.name for tool in (await client.list_tools()).tools]
    assert before[0] == after[0] == "search_tools"
    assert "freeze_membership" in after
    assert "freeze_membership" not in before
    assert len(after) < 40


async def test_selected_reads_the_task_that_a_client_declares(tmp_path: Path) -> None:
    with serving(tmp_path, "--catalog", "gym", "--mcp-mode", "selected") as server:
        headers = {"x-toolcaddie-task": "freeze a membership"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(_url(server.base_url), http_client=http)) as client,
        ):
            assert "freeze_membership" in [tool.name for tool in (await client.list_tools()).tools]


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"host": "evil.example"}, 403, id="rebound-host"),
        pytest.param({"origin": "https://evil.example"}, 403, id="foreign-page"),
        pytest.param({"sec-fetch-site": "cross-site"}, 403, id="other-site"),
        pytest.param({"content-type": "text/plain"}, 403, id="simple-request"),
    ],
)
def test_without_keys_no_web_page_gets_in(compact: str, headers: dict[str, str], status: int) -> None:
    answer = httpx2.post(compact, json=PING, headers={**ACCEPT, **headers})
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_with_keys_a_key_is_needed_and_a_page_must_be_named(tmp_path: Path) -> None:
    (tmp_path / "toolcaddie.toml").write_text('catalogs = ["gym"]\n[mcp]\norigins = ["https://app.example"]\n')
    added = subprocess.run(
        [sys.executable, "-m", "toolcaddie", "keys", "add", "ann", "--json"],
        cwd=tmp_path,
        env={**os.environ, **home_environment(tmp_path)},
        capture_output=True,
        text=True,
    )
    key = {"authorization": f"Bearer {json.loads(added.stdout)['secret']}"}
    first = {
        **PING,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    with serving(tmp_path) as server:
        url = _url(server.base_url)
        assert httpx2.post(url, json=first, headers=ACCEPT).status_code == 401
        assert httpx2.post(url, json=first, headers={**ACCEPT, "authorization": "Bearer tc_no"}).status_code == 401
        assert httpx2.post(url, json=first, headers={**ACCEPT, **key}).status_code == 200
        page = {**ACCEPT, **key, "origin": "https://evil.example"}
        assert httpx2.post(url, json=first, headers=page).status_code == 403
        page["origin"] = "https://app.example"
        shown = httpx2.post(url, json=first, headers=page)
        assert shown.status_code == 200
        assert shown.headers["access-control-allow-origin"] == "https://app.example"
        asked = httpx2.options(url, headers={"origin": "https://app.example", "access-control-request-method": "POST"})
        assert asked.status_code == 204
        assert "mcp-session-id" in asked.headers["access-control-allow-headers"]
        foreign = httpx2.options(
            url, headers={"origin": "https://evil.example", "access-control-request-method": "POST"}
        )
        assert foreign.status_code == 405
        assert "access-control-allow-origin" not in foreign.headers


def test_a_session_serves_only_the_principal_who_opened_it(tmp_path: Path) -> None:
    secrets = []
    for name in ("ann", "bob"):
        added = subprocess.run(
            [sys.executable, "-m", "toolcaddie", "keys", "add", name, "--json"],
            cwd=tmp_path,
            env={**os.environ, **home_environment(tmp_path)},
            capture_output=True,
            text=True,
        )
        secrets.append(json.loads(added.stdout)["secret"])
    ann, bob = ({**ACCEPT, "authorization": f"Bearer {secret}"} for secret in secrets)
    first = {
        **PING,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    with serving(tmp_path, "--catalog", "gym") as server:
        url = _url(server.base_url)
        session = {"mcp-session-id": httpx2.post(url, json=first, headers=ann).headers["mcp-session-id"]}
        assert httpx2.post(url, json=PING, headers={**ann, **session}).status_code == 200
        assert httpx2.post(url, json=PING, headers={**bob, **session}).status_code == 404


def test_two_replicas_answer_one_client_of_2026(tmp_path: Path) -> None:
    """The second replica knows the search that the first one answered, because both have one database."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    }

    def ask(url: str, method: str, **params: Any) -> Any:
        headers = {
            **ACCEPT,
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
            **({"mcp-name": params["name"]} if "name" in params else {}),
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        return httpx2.post(url, json=body, headers=headers).json()["result"]

    words = ("--catalog", "gym", "--mcp-mode", "selected")
    with serving(tmp_path, *words) as one, serving(tmp_path, *words) as two:
        search = {"name": "search_tools", "arguments": {"query": "freeze a membership"}}
        ask(_url(one.base_url), "tools/call", **search)
        tools = ask(_url(two.base_url), "tools/list")["tools"]
    assert "freeze_membership" in [tool["name"] for tool in tools]


def test_an_open_stream_does_not_delay_the_end_of_the_server(tmp_path: Path) -> None:
    first = {
        **PING,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    with serving(tmp_path, "--catalog", "gym") as server:
        url = _url(server.base_url)
        session = httpx2.post(url, json=first, headers=ACCEPT).headers["mcp-session-id"]
        headers = {"accept": "text/event-stream", "mcp-session-id": session}
        with httpx2.Client() as client, client.stream("GET", url, headers=headers) as stream:
            assert stream.status_code == 200
            server.process.terminate()
            assert server.process.wait(8) == 0


async def test_a_listening_client_does_not_delay_the_end_of_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, "--catalog", "gym", "--mcp-mode", "all") as server:
        async with (
            Client(_url(server.base_url), mode="2026-07-28") as client,
            client.listen(tools_list_changed=True) as news,
        ):
            server.process.terminate()
            with anyio.fail_after(8):
                assert [event async for event in news] == []
        assert server.process.wait(8) == 0


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param('mode = "all"\nfive = true', "belongs to mode compact", id="five-of-all"),
        pytest.param('state_key_env = "MCP_STATE_KEY"', "MCP_STATE_KEY", id="short-secret"),
        pytest.param('offers = "python:nothing_here"', "nothing_here", id="no-module"),
        pytest.param('path = "/v1/models"', "path of the gateway", id="taken-path"),
        pytest.param('authorization_servers = ["https://login.example"]', "mcp.introspection_url", id="half-of-oauth"),
        pytest.param('state_key_env = "sk-secret"', "state_key_env", id="a-key-in-the-file"),
    ],
)
def test_wrong_settings_are_refused_at_the_start(tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "toolcaddie.toml").write_text(f'catalogs = ["gym"]\n[mcp]\n{lines}\n')
    done = subprocess.run(
        [sys.executable, "-m", "toolcaddie", "serve", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "MCP_STATE_KEY": "short"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_sessions_any_replica_answers_a_client_of_2025(tmp_path: Path) -> None:
    (tmp_path / "toolcaddie.toml").write_text('catalogs = ["gym"]\n[mcp]\nsessions = false\n')
    first = {
        **PING,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    called = {"tool_name": "get_clients_list", "arguments": {"search": "John"}}
    call = {**PING, "method": "tools/call", "params": {"name": "execute_read", "arguments": called}}
    with serving(tmp_path) as one, serving(tmp_path) as two:
        begun = httpx2.post(_url(one.base_url), json=first, headers=ACCEPT)
        assert begun.status_code == 200
        assert "mcp-session-id" not in begun.headers
        answer = httpx2.post(_url(two.base_url), json=call, headers={**ACCEPT, "mcp-protocol-version": "2025-11-25"})
    assert answer.status_code == 200
    assert "John" in answer.text


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{", id="no-json"),
        pytest.param(b"[" * 100_000, id="too-deep"),
        pytest.param(b"9" * 10_000, id="a-number-too-long"),
        pytest.param(b"[]", id="an-empty-batch"),
        pytest.param(b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', id="an-id-that-is-none"),
        pytest.param(b'"\xff"', id="no-utf-8"),
    ],
)
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_a_broken_body_is_refused_and_the_server_goes_on(compact: str, body: bytes, version: str) -> None:
    answer = httpx2.post(compact, content=body, headers={**ACCEPT, "mcp-protocol-version": version})
    assert 400 <= answer.status_code < 500, answer.text
    assert httpx2.get(compact.replace("/mcp", "/healthz")).status_code == 200
