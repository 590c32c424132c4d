"""An answer that says something was done, though no call did it, is marked at every door: command line, gateway and trail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.doors.commandline import CommandLine
from tests.doors.serving import Gateway, gateway
from tests.doors.wire_clients import CLIENTS, client_of
from toolcaddie.core.storage import RunQuery
from toolcaddie.sources.functions import tool
from toolcaddie.testing import ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio

SENTENCE = "I have deleted the client John."
MARK = [{"text": SENTENCE, "action": "destroy"}]
HEADER = "x-toolcaddie-unsupported-claims"
NOTE = f"not verified: no successful call could have done this: {SENTENCE}"
doors = pytest.mark.parametrize("door", ["chat", "responses", "messages"])


@tool(read_only=False, destructive=False)
def delete_client(name: str) -> str:
    """Delete a client."""
    return f"deleted {name}"


# --- the command line -----------------------------------------------------------------------------------------------------


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MY_TEST_KEY", "test-key")
    with ScriptedUpstream([say(SENTENCE), say("Good bye.")]) as served:
        yield served


def at(upstream: ScriptedUpstream) -> tuple[str, ...]:
    return ("--upstream", upstream.base_url, "--upstream-key-env", "MY_TEST_KEY", "--model", "gpt-test")


def test_run_prints_the_answer_unchanged_and_a_note_for_the_person(
    toolcaddie: CommandLine, upstream: ScriptedUpstream
) -> None:
    done = toolcaddie("run", "delete John", *at(upstream))
    assert done.stdout == f"{SENTENCE}\n"
    assert NOTE in done.stderr


def test_the_json_of_run_the_trail_and_why_have_the_claims(toolcaddie: CommandLine, upstream: ScriptedUpstream) -> None:
    assert toolcaddie.json("run", "delete John", *at(upstream))["unsupported_claims"] == MARK
    *_, marked, finished = toolcaddie.json("trail", "last")["events"]
    assert (marked["kind"], marked["data"]) == ("claims_unsupported", {"claims": MARK})
    assert finished["kind"] == "run_finished"
    assert f"no successful call supports: destroy: {SENTENCE}" in toolcaddie.ok("trail", "last")
    assert toolcaddie.json("why", "--run", "last")["unsupported_claims"] == MARK
    assert NOTE in toolcaddie("why", "--run", "last").stderr


def test_chat_tells_the_person_after_the_answer_and_only_of_that_answer(
    toolcaddie: CommandLine, upstream: ScriptedUpstream
) -> None:
    done = toolcaddie("chat", *at(upstream), stdin="delete John\nbye\n")
    assert done.stderr.count("not verified") == 1
    assert SENTENCE in done.stdout


def test_each_line_of_chat_with_json_has_its_claims(toolcaddie: CommandLine, upstream: ScriptedUpstream) -> None:
    done = toolcaddie("chat", "--json", *at(upstream), stdin="delete John\nbye\n")
    assert [json.loads(line)["unsupported_claims"] for line in done.stdout.splitlines()] == [MARK, []]


def test_the_settings_switch_the_check_off(toolcaddie: CommandLine, upstream: ScriptedUpstream) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text("[claims]\ncheck = false\n")
    assert toolcaddie.json("run", "delete John", *at(upstream))["unsupported_claims"] == []
    assert "claims_unsupported" not in {event["kind"] for event in toolcaddie.json("trail", "last")["events"]}


def test_a_wrong_setting_is_named(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text('[claims]\ncheck = "sometimes"\n')
    assert "claims.check" in toolcaddie.refused("run", "delete John")


# --- the gateway ----------------------------------------------------------------------------------------------------------


class Answer:
    def __init__(self, response: aiohttp.ClientResponse, body: str) -> None:
        self.status, self.headers, self.body = response.status, response.headers, body


async def sent(served: Gateway, door: str, *, key: str | None = None, **more: Any) -> Answer:
    """The answer of a door to a request to delete John."""
    messages = [{"role": "user", "content": "delete John"}]
    wanted = {"model": "m", "max_tokens": 100, "messages": messages, **more}
    if door == "responses":
        wanted = {"model": "m", "store": False, "input": messages, **more}
    url = f"{served.base_url}{CLIENTS[door].path}"
    headers = {} if key is None else {"idempotency-key": key}
    async with aiohttp.ClientSession() as http, http.post(url, json=wanted, headers=headers) as response:
        return Answer(response, await response.text())


async def recorded(served: Gateway, run_id: str) -> list[str]:
    """The classes of the claims that the trail has of a run."""
    events = await served.database.events.events(run_id)
    return [claim["action"] for event in events if event.kind == "claims_unsupported" for claim in event.data["claims"]]


@doors
async def test_a_whole_answer_has_the_classes_in_a_header(tmp_path: Path, door: str) -> None:
    async with (
        ScriptedUpstream([say(f"{SENTENCE} I also sent him an email."), say("Hello.")]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[delete_client]) as served,
    ):
        marked, plain = await sent(served, door), await sent(served, door)
        assert (marked.status, plain.status) == (200, 200)
        assert SENTENCE in marked.body
        assert marked.headers[HEADER] == "destroy,send"
        assert HEADER not in plain.headers
        assert await recorded(served, marked.headers["x-toolcaddie-run"]) == ["destroy", "send"]


@doors
async def test_a_stream_is_marked_in_the_trail(tmp_path: Path, door: str) -> None:
    """Its headers are sent with the first piece of text, before the claim can be judged."""
    async with (
        ScriptedUpstream([say(SENTENCE)]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[delete_client]) as served,
    ):
        answer = await sent(served, door, stream=True)
        assert answer.status == 200
        assert HEADER not in answer.headers
        assert await recorded(served, answer.headers["x-toolcaddie-run"]) == ["destroy"]


async def test_a_stored_answer_has_its_header_again(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([say(SENTENCE)]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[delete_client]) as served,
    ):
        answers = [await sent(served, "chat", key="key-1") for _ in range(2)]
    assert [answer.headers[HEADER] for answer in answers] == ["destroy", "destroy"]


@doors
async def test_calls_that_the_client_never_saw_support_its_later_answers(tmp_path: Path, door: str) -> None:
    script = [call("delete_client", {"name": "John"}), say("It is done."), say(SENTENCE)]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[delete_client]) as served,
        client_of(door, served.base_url) as client,
    ):
        history = client.user("delete John")
        first = await client.ask(history, ())
        history += [{"role": "assistant", "content": first.text}, *client.user("what have you done? delete him")]
        assert (await client.ask(history, ())).text == SENTENCE
        runs = await served.database.events.runs(RunQuery(limit=10))
        assert [await recorded(served, run.run_id) for run in runs] == [[], []]


@doors
@pytest.mark.parametrize(("result", "is_marked"), [("deleted", False), ("Error: refused", True)])
async def test_results_of_the_clients_own_tools_count(tmp_path: Path, door: str, result: str, is_marked: bool) -> None:
    async with (
        ScriptedUpstream([call("delete_client"), say(SENTENCE)]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
        client_of(door, served.base_url) as client,
    ):
        history = client.user("delete John")
        asked = await client.ask(history, ["delete_client"])
        history += [*asked.items, *client.result(asked.calls[0], result)]
        assert (await client.ask(history, ["delete_client"])).text == SENTENCE
        newest, _ = await served.database.events.runs(RunQuery(limit=10))
        assert bool(await recorded(served, newest.run_id)) == is_marked
