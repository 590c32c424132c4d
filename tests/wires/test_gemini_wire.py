"""Gemini's answers and errors, both ways: what a server writes a provider reads, and nothing is lost."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcaddie.core.content import Image, Text
from toolcaddie.core.errors import ProviderAuthError, ProviderRateLimitError, RequestError
from toolcaddie.core.message import Message, ModelReply, ModelRequest
from toolcaddie.core.tool import ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.core.wire import AnswerHead
from toolcaddie.ports.wires import ClientWire
from toolcaddie.util.replacing import replace
from toolcaddie.wires.gemini import WIRE as GEMINI
from toolcaddie.wires.gemini.errors import refusal
from toolcaddie.wires.gemini.replies import write_reply

WIRE: ClientWire = GEMINI
HEAD = AnswerHead(id="run_1", created=1, model="gemini-3-flash")
WORDS = st.text(min_size=1, max_size=8)
ARGUMENTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2).map(
    lambda value: msgspec.json.encode(value).decode()
)


def reread(reply: ModelReply) -> ModelReply:
    return WIRE.read_reply(write_reply(reply, HEAD), who="gemini", author="gemini:m")


@given(
    WORDS,
    st.lists(ARGUMENTS, max_size=2),
    st.booleans(),
    st.builds(
        Usage, input_tokens=st.integers(5, 9), cached_tokens=st.integers(0, 5), output_tokens=st.just(9),
        reasoning_tokens=st.integers(0, 9),
    ),
    st.sampled_from(["stop", "length", "content_filter"]),
)  # fmt: skip
def test_a_reply_is_read_as_it_was_written(
    text: str, arguments: list[str], picture: bool, usage: Usage, finish: str
) -> None:
    calls = tuple(ToolCall(id=f"c{place}", name="freeze", arguments=each) for place, each in enumerate(arguments))
    content = (Text(text=text), Image(data="AAAA", mime_type="image/png")) if picture else text
    message = Message(role="assistant", content=content, tool_calls=calls)
    again = reread(ModelReply(message=message, finish_reason=finish, usage=usage, model="m"))
    assert (again.message.content, again.message.tool_calls, again.usage, again.model) == (content, calls, usage, "m")
    assert again.finish_reason == ("tool_calls" if calls and finish == "stop" else finish)
    assert reread(replace(again, model="m")) == again


def test_native_parts_go_out_with_their_signatures_and_those_of_another_api_do_not() -> None:
    native = ({"text": "hm", "thought": True}, {"functionCall": {"name": "a", "args": {}}, "thoughtSignature": "s"})
    message = Message(role="assistant", tool_calls=(ToolCall(id="c1", name="a"),), native=native)
    assert _parts(message) == list(native)
    assert _parts(replace(message, native=({"type": "reasoning"},))) == [
        {"functionCall": {"id": "c1", "name": "a", "args": {}}}
    ]


def _parts(message: Message) -> Any:
    return json.loads(write_reply(ModelReply(message=message), HEAD))["candidates"][0]["content"]["parts"]


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(400, "API_KEY_INVALID", ProviderAuthError), (429, None, ProviderRateLimitError)],
)
def test_an_error_is_read_by_its_status_and_reason(status: int, code: str | None, kind: type[Exception]) -> None:
    body = refusal(status, "no", code=code)
    report = WIRE.read_error(status, msgspec.json.encode(body))
    assert (report.kind, report.message) == (kind, "no")


def test_the_path_names_the_model_and_the_kind_of_answer() -> None:
    request = ModelRequest(model="m", messages=(Message(role="user", content="hi"),))
    paths = [
        WIRE.write_request(request, model=model, author="gemini:m", stream=stream).path
        for model, stream in (("gemini-3-flash", False), ("models/gemini-3-flash", True), ("tunedModels/mine", False))
    ]
    assert paths == [
        "/models/gemini-3-flash:generateContent",
        "/models/gemini-3-flash:streamGenerateContent?alt=sse",
        "/tunedModels/mine:generateContent",
    ]
    with pytest.raises(RequestError, match="is not the name of a Gemini model"):
        WIRE.write_request(request, model="../files", author="gemini:m", stream=False)
