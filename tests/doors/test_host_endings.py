"""The three tools with which a host's model ends a request: the status of the run, and the finish reason over each wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doors.host_callers import executing, stored_host
from tests.doors.serving import gateway
from tests.doors.test_endings import STOP
from toolcaddie import Runtime
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.proves("R004-23")]
ENDINGS = {
    "respond_to_user": ("message", "answer"),
    "request_clarification": ("question", "question"),
    "cannot_perform": ("reason", "refusal"),
}
TEXT = "Which printer is meant?"


@pytest.mark.parametrize("preset", ["compact", "default"])
@pytest.mark.parametrize("name", ENDINGS)
async def test_the_result_of_a_run_has_the_text_and_the_kind_of_ending(name: str, preset: str) -> None:
    parameter, ending = ENDINGS[name]
    asked = executing(name, **{parameter: TEXT}) if preset == "compact" else call(name, {parameter: TEXT})
    provider = ScriptedProvider([asked])
    async with Runtime(provider=provider, sources=[stored_host(groups=["response"])], preset=preset) as runtime:
        result = await runtime.run("print it")
    assert (result.status, result.text, result.ending) == ("completed", TEXT, ending)
    assert len(provider.requests) == 1


@pytest.mark.parametrize("arguments", [{}, {"text": TEXT}], ids=["none", "another"])
@pytest.mark.parametrize("name", ENDINGS)
async def test_without_its_parameter_the_request_does_not_end(name: str, arguments: Any) -> None:
    parameter, _ = ENDINGS[name]
    provider = ScriptedProvider([executing(name, **arguments), executing(name, **{parameter: ""}), say("I go on.")])
    async with Runtime(provider=provider, sources=[stored_host(groups=["response"])], preset="compact") as runtime:
        result = await runtime.run("print it")
    assert (result.text, result.ending) == ("I go on.", "")
    texts = [message.text for message in provider.requests[-1].messages if message.role == "tool"]
    assert len(texts) == 2
    assert all(parameter in text for text in texts), texts


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("path", STOP)
async def test_each_wire_has_the_finish_reason_of_the_ending(
    tmp_path: Path, path: str, name: str, stream: bool
) -> None:
    parameter, ending = ENDINGS[name]
    provider = ScriptedProvider([executing(name, **{parameter: TEXT})])
    messages = [{"role": "user", "content": "print it"}]
    own = {"input": "print it"} if path == "/v1/responses" else {"max_tokens": 90, "messages": messages}
    async with (
        gateway(tmp_path, provider, sources=[stored_host()], preset="compact") as served,
        httpx.AsyncClient(base_url=served.base_url) as http,
    ):
        answer = await http.post(path, json={"model": "m", "stream": stream, **own})
    assert TEXT in answer.text
    is_refusal = ending == "refusal"
    assert STOP[path][is_refusal] in answer.text
    assert STOP[path][not is_refusal] not in answer.text
