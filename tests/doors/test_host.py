"""One assistant that runs a Linux machine, through the gateway and MCP: 54 tools of which five are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
import openai
import pytest

from tests.doors.hosts import CALLS
from tests.doors.mcp.doors import mcp_door, says
from tests.doors.serving import gateway
from tests.doors.test_endings import STOP
from tests.tools.host.hosting import host_source
from toolcaddie.app.settings import MCPSettings
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.control import Principal
from toolcaddie.core.schema import canonical_json
from toolcaddie.parts import Parts
from toolcaddie.sandbox.named import plain
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, calls, say
from toolcaddie.tools.commands import commands
from toolcaddie.tools.files import files
from toolcaddie.tools.host import HostSource

pytestmark = pytest.mark.anyio

FIVE = ["execute_tool", "list_tools", "search_tools", "get_tool_schema", "respond"]
UPTIME = ("procfs_read", {"info_type": "uptime"})
BOSS = Principal(id="boss")


def whole_host(**settings: Any) -> HostSource:
    return host_source(settings, Parts(store=MemoryStore()))


def running(*each: tuple[str, dict[str, Any]]) -> Any:
    """An answer of the model that runs tools by `execute_tool`."""
    return calls(*(("execute_tool", {"tool_name": name, "arguments": arguments}) for name, arguments in each))


def results(provider: ScriptedProvider) -> Sequence[str]:
    return [message.content for message in provider.requests[-1].messages if message.role == "tool"]


async def asked(client: openai.AsyncOpenAI, *texts: str) -> str:
    messages: list[Any] = [{"role": "user", "content": text} for text in texts]
    answer = await client.chat.completions.create(model="scripted", messages=messages)
    return answer.choices[0].message.content or ""


@pytest.mark.proves("R004-23", "R004-24", "R004-25", "R004-26", "R004-27", "R004-28", "R004-29", "R004-30", "X-13")
async def test_the_gateway_lists_54_tools_in_pages_of_50_and_4_behind_five(tmp_path: Path) -> None:
    provider = ScriptedProvider([call("list_tools", {}), call("list_tools", {"offset": 50}), say("54 tools.")])
    async with gateway(tmp_path, provider, sources=[whole_host()], preset="compact") as served:
        assert await asked(served.client, "what can you do?") == "54 tools."
    shown = provider.requests[0].tools
    assert [definition["function"]["name"] for definition in shown] == FIVE
    assert len(canonical_json(list(shown))) <= 4 * 1_000, "a token has about four characters"
    pages = [msgspec.json.decode(text) for text in results(provider)]
    assert [(page["total"], len(page["tools"]), page["has_more"]) for page in pages] == [(54, 50, True), (54, 4, False)]
    tools = [each for page in pages for each in page["tools"]]
    assert [each["name"] for each in tools] == list(CALLS)
    assert Counter(each["category"] for each in tools) == {
        "response": 3,
        "filesystem": 3,
        "shell": 1,
        "system": 2,
        "systemd": 8,
        "ovs": 10,
        "plugin": 27,
    }


@pytest.mark.proves("R004-30", "X-13")
async def test_mcp_shows_the_same_five_and_each_of_its_calls_is_a_request_of_its_own(tmp_path: Path) -> None:
    """Source: X-13. 75 calls are the limit of a request, so it never ends a session of an MCP client."""
    settings = MCPSettings(mode="compact", five=True)
    async with (
        mcp_door(tmp_path, [whole_host()], settings=settings) as door,
        door.client("2026-07-28") as client,
    ):
        assert [each.name for each in (await client.list_tools()).tools] == FIVE
        pages = [msgspec.json.decode(await says(client, "list_tools", offset=offset)) for offset in (0, 50)]
        assert [len(page["tools"]) for page in pages] == [50, 4]
        assert [each["name"] for page in pages for each in page["tools"]] == list(CALLS)
        for _ in range(76):
            text = await says(client, "execute_tool", tool_name=UPTIME[0], arguments=UPTIME[1])
            assert "seconds" in text


@pytest.mark.proves("R004-3", "R004-4", "R004-5", "R004-6")
async def test_75_calls_of_a_request_run_the_76th_fails_it_and_the_next_request_begins_at_0(tmp_path: Path) -> None:
    ends_after = [76, 75]

    def script(request: Any) -> Any:
        done = sum(message.role == "tool" for message in request.messages)
        most = ends_after[0]
        return say("all ran") if done == most else running(*[UPTIME] * min(25, most - done))

    provider = ScriptedProvider(script)
    async with gateway(tmp_path, provider, sources=[whole_host()], preset="compact") as served:
        with pytest.raises(openai.APIStatusError, match="75"):
            await asked(served.client, "look 76 times")
        ends_after.pop(0)
        assert await asked(served.client, "look 75 times") == "all ran"
    texts = results(provider)
    assert len(texts) == 75
    assert all("seconds" in text for text in texts)


def test_every_tool_reads_only_or_may_destroy_something_so_that_the_shipped_policy_asks() -> None:
    annotations = {tool.name: tool.annotations for tool in whole_host().tools()}
    assert all(each.read_only or each.destructive for each in annotations.values()), annotations


async def test_what_reads_runs_unasked_and_what_writes_after_a_person_has_approved(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    file = folder / "index.html"
    host = whole_host(filesystem={"roots": [{"path": str(folder), "write": True}]})
    writing = ("write_file", {"path": str(file), "content": "<p>Open</p>"})
    listing = ("list_directory", {"path": str(folder)})
    provider = ScriptedProvider([running(UPTIME, listing), running(writing), say("It is there.")])
    async with gateway(tmp_path, provider, sources=[host], preset="compact") as served:
        pause = await asked(served.client, "write the page")
        assert "This needs a person's approval before it goes on: write_file (" in pause
        assert not file.exists()
        (approval,) = await served.runtime.approvals.list("default", status="open")
        assert f"file.write {file}" in approval.preview
        await served.runtime.approvals.answer("default", approval.id, approved=True, by=BOSS)
        messages: list[Any] = [
            {"role": "user", "content": "write the page"},
            {"role": "assistant", "content": pause},
            {"role": "user", "content": "go on"},
        ]
        answer = await served.client.chat.completions.create(model="scripted", messages=messages)
    assert answer.choices[0].message.content == "It is there."
    assert file.read_text() == "<p>Open</p>"


async def test_a_denied_effect_is_denied_to_a_tool_and_to_a_command_and_the_trail_names_it_for_both(
    tmp_path: Path,
) -> None:
    host = host_source(
        {"systemd": {"units": ["site"], "bus": f"unix:path={tmp_path}/none"}, "shell": {"workdir": str(tmp_path)}},
        Parts(store=MemoryStore(), sandbox=plain),
    )
    both = (
        ("systemd_stop_unit", {"unit": "site"}),
        ("shell_execute", {"command": "systemctl", "args": ["stop", "site"]}),
    )
    policy = CedarPolicy(deny_effects=["systemd.stop site.service"])
    provider = ScriptedProvider([running(*both), say("I may not.")])
    async with gateway(tmp_path, provider, sources=[host], preset="compact", policy=policy) as served:
        assert await asked(served.client, "stop the site") == "I may not."
        [run] = await served.database.events.runs()
        events = await served.database.events.events(run.run_id)
    decided = [event.data for event in events if event.kind == "call_decided"]
    assert [(each["name"], each["verdict"]) for each in decided] == [(name, "deny") for name, _ in both]
    assert all("systemd.stop site.service" in each["effects"] for each in decided)
    assert all(text.startswith("Not allowed") for text in results(provider))


@pytest.mark.proves("R004-23")
@pytest.mark.parametrize("path", STOP)
async def test_the_response_tools_end_the_request_at_each_door_of_the_gateway(tmp_path: Path, path: str) -> None:
    ends = {
        "answer": ("respond_to_user", {"message": "It is up."}, "It is up."),
        "question": ("request_clarification", {"question": "Which one?"}, "Which one?"),
        "refusal": ("cannot_perform", {"reason": "There is no printer."}, "There is no printer."),
    }
    provider = ScriptedProvider([running((name, arguments)) for name, arguments, _ in ends.values()])
    message = [{"role": "user", "content": "do it"}]
    own = {"input": "do it"} if path == "/v1/responses" else {"max_tokens": 90, "messages": message}
    async with (
        gateway(tmp_path, provider, sources=[whole_host()], preset="compact") as served,
        httpx.AsyncClient(base_url=served.base_url) as http,
    ):
        for ending, (_, _, text) in ends.items():
            answer = await http.post(path, json={"model": "m", **own})
            assert answer.headers["x-toolcaddie-ending"] == ending
            assert text in answer.text
            assert STOP[path][ending == "refusal"] in answer.text
    assert len(provider.requests) == len(ends)


@pytest.mark.proves("R004-23")
async def test_an_mcp_client_reads_the_words_of_the_response_tools(tmp_path: Path) -> None:
    async with mcp_door(tmp_path, [whole_host()]) as door, door.client("2026-07-28") as client:
        assert await says(client, "cannot_perform", reason="There is no printer.") == "There is no printer."
        assert await says(client, "respond_to_user", message="It is up.") == "It is up."
        assert await says(client, "request_clarification", question="Which one?") == "Which one?"


@pytest.mark.proves("X-14")
async def test_respond_and_respond_to_user_end_a_request_alike(tmp_path: Path) -> None:
    steps = [call("respond", {"message": "It is up."}), running(("respond_to_user", {"message": "It is up."}))]
    provider = ScriptedProvider(steps)
    async with gateway(tmp_path, provider, sources=[whole_host()], preset="compact") as served:
        messages: list[Any] = [{"role": "user", "content": "is it up?"}]
        answers = [await served.client.chat.completions.create(model="m", messages=messages) for _ in steps]
    assert [(each.choices[0].message.content, each.choices[0].finish_reason) for each in answers] == [
        ("It is up.", "stop")
    ] * 2
    assert len(provider.requests) == 2


@pytest.mark.proves("X-31")
async def test_files_and_commands_of_both_systems_stand_side_by_side(tmp_path: Path) -> None:
    for name in ("bots", "site"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "note.txt").write_text(f"of {name}")
    parts = Parts(store=MemoryStore(), sandbox=plain)
    work = str(tmp_path / "work")
    settings = {"filesystem": {"roots": [{"path": str(tmp_path / "site")}]}, "shell": {"workdir": work}}
    sources = [
        files(base_path=str(tmp_path / "bots")),
        commands(workdir=work, parts=parts),
        host_source(settings, parts),
    ]
    calls_of_both = (
        ("file_read", {"path": "note.txt"}),
        ("read_file", {"path": str(tmp_path / "site/note.txt")}),
        ("exec", {"command": "echo of bots"}),
        ("shell_execute", {"command": "echo", "args": ["of", "site"]}),
    )
    provider = ScriptedProvider(
        [call("list_tools", {}), call("list_tools", {"offset": 50}), running(*calls_of_both), say("Read.")]
    )
    async with gateway(tmp_path, provider, sources=sources, preset="compact", policy=AllowAll()) as served:
        assert await asked(served.client, "read the notes") == "Read."
    first, second, *texts = results(provider)
    names = {each["name"] for page in (first, second) for each in msgspec.json.decode(page)["tools"]}
    assert names >= {"file_read", "file_write", "file_edit", "exec", "read_file", "write_file", "shell_execute"}
    assert ["of bots" in text for text in texts] == [True, False, True, False]
    assert ["of site" in text for text in texts] == [False, True, False, True]
