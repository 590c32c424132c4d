"""Each door says how a tool ended a run: with an answer, a question or a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doors.commandline import CommandLine
from tests.doors.mcp.doors import mcp_door, says
from tests.doors.serving import gateway
from tests.doors.test_gateway_matrix import PROVIDERS
from toolcaddie import Finish, FunctionSource, tool
from toolcaddie.core.tool import Ending
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, call, say

ENDINGS = ("answer", "question", "refusal")
STOP = {
    "/v1/chat/completions": ('"finish_reason":"stop"', '"finish_reason":"content_filter"'),
    "/v1/messages": ('"stop_reason":"end_turn"', '"stop_reason":"refusal"'),
    "/v1/responses": ('"status":"completed","error":null', '"incomplete_details":{"reason":"content_filter"}'),
}
"""By path, the word for an answer and a question, and the word for a refusal."""
MODULE = """
from toolcaddie import Finish, tool


@tool(ends_run=True, read_only=True)
def finish(ending: str, text: str) -> Finish:
    \"\"\"End the task.\"\"\"
    return Finish(text=text, ending=ending)
"""


@tool(ends_run=True, read_only=True)
def finish(ending: Ending, text: str) -> Finish:
    """End the task."""
    return Finish(text=text, ending=ending)


def ended(ending: str, *, text: str | None = None) -> Any:
    return call("finish", {"ending": ending, "text": "Which one?"}, text=text)


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("path", STOP)
async def test_each_door_has_a_word_for_an_ending_and_a_header_names_it(
    tmp_path: Path, path: str, provider: str, stream: bool
) -> None:
    make_wire, make_provider = PROVIDERS[provider]
    wire = make_wire()
    message = [{"role": "user", "content": "do it"}]
    own = {"input": "do it"} if path == "/v1/responses" else {"max_tokens": 90, "messages": message}
    async with (
        ScriptedUpstream([ended(each) for each in ENDINGS], **({} if wire is None else {"wire": wire})) as upstream,
        gateway(tmp_path, make_provider(upstream.base_url), sources=[FunctionSource("host", [finish])]) as served,
        httpx.AsyncClient(base_url=served.base_url) as http,
    ):
        answers = [await http.post(path, json={"model": "m", "stream": stream, **own}) for _ in ENDINGS]
    for ending, answer in zip(ENDINGS, answers, strict=True):
        assert "Which one?" in answer.text
        assert STOP[path][ending == "refusal"] in answer.text
        assert STOP[path][ending != "refusal"] not in answer.text
        if not stream:
            assert answer.headers["x-toolcaddie-ending"] == ending


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_a_stream_whose_first_text_is_the_ending_has_the_header_too(tmp_path: Path, path: str) -> None:
    provider = ScriptedProvider([ended(each) for each in ENDINGS])
    async with (
        gateway(tmp_path, provider, sources=[FunctionSource("host", [finish])]) as served,
        httpx.AsyncClient(base_url=served.base_url) as http,
    ):
        message = [{"role": "user", "content": "do it"}]
        body = {"model": "m", "max_tokens": 90, "messages": message, "stream": True}
        answers = [await http.post(path, json=body) for _ in ENDINGS]
    assert [answer.headers.get("x-toolcaddie-ending") for answer in answers] == list(ENDINGS)


@pytest.mark.anyio
async def test_a_stream_that_has_begun_names_the_ending_only_by_its_finish_reason(tmp_path: Path) -> None:
    provider = ScriptedProvider([ended("refusal", text="One moment.")])
    async with (
        gateway(tmp_path, provider, sources=[FunctionSource("host", [finish])]) as served,
        httpx.AsyncClient(base_url=served.base_url) as http,
    ):
        body = {"model": "m", "messages": [{"role": "user", "content": "do it"}], "stream": True}
        answer = await http.post("/v1/chat/completions", json=body)
    assert "x-toolcaddie-ending" not in answer.headers
    assert '"finish_reason":"content_filter"' in answer.text


@pytest.mark.anyio
async def test_an_answer_in_the_models_own_words_has_no_such_header(tmp_path: Path) -> None:
    provider = ScriptedProvider([say("Hello.")])
    async with (
        gateway(tmp_path, provider, sources=[FunctionSource("host", [finish])]) as served,
        httpx.AsyncClient(base_url=served.base_url) as http,
    ):
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        answer = await http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200
    assert "x-toolcaddie-ending" not in answer.headers


@pytest.mark.anyio
async def test_a_refused_response_can_be_continued(tmp_path: Path) -> None:
    provider = ScriptedProvider([ended("refusal"), say("Then not.")])
    async with (
        gateway(tmp_path, provider, sources=[FunctionSource("host", [finish])]) as served,
        httpx.AsyncClient(base_url=served.base_url) as http,
    ):
        first = (await http.post("/v1/responses", json={"model": "m", "input": "do it"})).json()
        body = {"model": "m", "input": "why?", "previous_response_id": first["id"]}
        second = (await http.post("/v1/responses", json=body)).json()
    assert second["output"][0]["content"][0]["text"] == "Then not."
    seen = [(message.role, message.text) for message in provider.requests[-1].messages]
    assert seen[-2:] == [("assistant", "Which one?"), ("user", "why?")]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_mcp_client_reads_the_text_because_it_has_no_run_to_end(tmp_path: Path, mode: str) -> None:
    async with (
        mcp_door(tmp_path, [FunctionSource("host", [finish])]) as door,
        door.client(mode) as client,
    ):
        assert await says(client, "finish", ending="question", text="Which one?") == "Which one?"


@pytest.mark.parametrize(
    ("ending", "remark"),
    [("answer", ""), ("question", "the answer is a question to you"), ("refusal", "the answer is a refusal")],
)
def test_the_command_line_shows_records_and_prints_the_ending(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch, ending: str, remark: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.syspath_prepend(toolcaddie.home)
    (toolcaddie.home / "host_tools.py").write_text(MODULE)
    with ScriptedUpstream([ended(ending)] * 3) as upstream:
        words = ("--catalog", "python:host_tools", "--upstream", upstream.base_url, "--model", "gpt-test")
        shown = toolcaddie("run", "do it", *words)
        chat = toolcaddie("chat", *words, stdin="do it\n")
        printed = toolcaddie.json("run", "do it", *words)
    assert (shown.exit_code, shown.stdout) == (0, "Which one?\n")
    assert "Which one?" in chat.stdout
    assert (printed["text"], printed["ending"]) == ("Which one?", ending)
    for command in (("runs", "show", "last"), ("why", "--run", "last")):
        assert toolcaddie.json(*command)["ending"] == ending
        assert remark in toolcaddie(*command).stderr
    assert remark in shown.stderr
    assert remark in chat.stderr
    assert f"completed, {ending}: Which one?" in toolcaddie.ok("trail", "last")
