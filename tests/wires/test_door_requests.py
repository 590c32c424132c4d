"""Requests at the doors of all wires: limits are met exactly, errors name the field, and a refusal of tools is noticed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.wire import DoorRequest
from toolcaddie.ports.wires import Wire
from toolcaddie.wires import chat, messages, responses

WIRES: dict[str, Wire] = {
    "chat": chat.ChatWire(),
    "responses": responses.ResponsesWire(),
    "messages": messages.MessagesWire(),
}
every_wire = pytest.mark.parametrize("name", WIRES)
USER = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {}}


def opened(name: str, fields: dict[str, Any]) -> Any:
    return WIRES[name].open(msgspec.json.encode(fields), DEFAULT)


def read(name: str, fields: dict[str, Any], bounds: Bounds = DEFAULT) -> DoorRequest:
    return WIRES[name].read_request(opened(name, fields), bounds)


def conversation(name: str, items: list[Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 5, ("input" if name == "responses" else "messages"): items, **fields}


def called(name: str, *names: str) -> dict[str, Any]:
    """A request whose conversation has a call of each name."""
    match name:
        case "chat":
            calls = [
                {"id": f"c{place}", "type": "function", "function": {"name": each, "arguments": "{}"}}
                for place, each in enumerate(names)
            ]
            items: list[Any] = [USER, {"role": "assistant", "tool_calls": calls}]
        case "responses":
            items = [
                USER,
                *(
                    {"type": "function_call", "call_id": f"c{place}", "name": each, "arguments": "{}"}
                    for place, each in enumerate(names)
                ),
            ]
        case _:
            uses = [
                {"type": "tool_use", "id": f"c{place}", "name": each, "input": {}} for place, each in enumerate(names)
            ]
            items = [USER, {"role": "assistant", "content": uses}]
    return conversation(name, items)


def parts(name: str, number: int) -> dict[str, Any]:
    part = {"type": "input_text" if name == "responses" else "text", "text": "x"}
    return conversation(name, [USER, {"role": "user", "content": [part] * number}])


def tool(name: str, tool_name: str, description: str = "") -> dict[str, Any]:
    match name:
        case "chat":
            function = {"name": tool_name, "description": description, "parameters": SCHEMA}
            return {"type": "function", "function": function}
        case "responses":
            return {"type": "function", "name": tool_name, "description": description, "parameters": SCHEMA}
    return {"name": tool_name, "description": description, "input_schema": SCHEMA}


# ---------------------------------------------------------------- limits

LIMITS = [
    ("messages", lambda name, number: conversation(name, [USER] * number), "too_many_messages"),
    ("parts", parts, "too_many_parts"),
    ("calls", lambda name, number: called(name, *["find"] * number), "too_many_tool_calls"),
    ("name", lambda name, number: called(name, "n" * number), "name_too_long"),
]


@every_wire
@pytest.mark.parametrize(("bound", "request_of", "code"), LIMITS, ids=[limit[0] for limit in LIMITS])
def test_a_conversation_may_reach_each_bound_but_not_exceed_it(
    name: str, bound: str, request_of: Any, code: str
) -> None:
    read(name, request_of(name, 3), Bounds(**{bound: 3}))
    with pytest.raises(RequestError, match=f"4.*bounds.{bound}") as refused:
        read(name, request_of(name, 4), Bounds(**{bound: 3}))
    assert refused.value.code == code


TOOL_LIMITS = [
    ("tools", lambda name, number: [tool(name, f"find_{place}") for place in range(number)], "too_many_tools"),
    ("name", lambda name, number: [tool(name, "n" * number)], "name_too_long"),
    ("description", lambda name, number: [tool(name, "find", "d" * number)], "description_too_long"),
]


@every_wire
@pytest.mark.parametrize(("bound", "tools_of", "code"), TOOL_LIMITS, ids=[limit[0] for limit in TOOL_LIMITS])
def test_tools_may_reach_each_bound_but_not_exceed_it(name: str, bound: str, tools_of: Any, code: str) -> None:
    bounds = Bounds(**{bound: 8})
    WIRES[name].read_tools(msgspec.json.encode(tools_of(name, 8)), bounds)
    with pytest.raises(RequestError, match=f"9.*bounds.{bound}") as refused:
        WIRES[name].read_tools(msgspec.json.encode(tools_of(name, 9)), bounds)
    assert refused.value.code == code


@every_wire
def test_a_body_may_have_as_many_fields_as_the_bound_but_not_more(name: str) -> None:
    body = msgspec.json.encode({"a": 1, "b": 2})
    WIRES[name].open(body, Bounds(keys=2))
    with pytest.raises(RequestError, match=r"the request has 2 fields.*bounds.keys") as refused:
        WIRES[name].open(body, Bounds(keys=1))
    assert refused.value.code == "too_many_fields"


@every_wire
def test_a_repeated_tool_name_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="find") as refused:
        WIRES[name].read_tools(msgspec.json.encode([tool(name, "find"), tool(name, "find")]), DEFAULT)
    assert (refused.value.code, refused.value.param) == ("duplicate_tool", "tools")


# ---------------------------------------------------------------- errors

WHAT = {"chat": "a chat request", "responses": "a request of the Responses API", "messages": "a messages request"}


@every_wire
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b'{"a": 1'])
def test_a_body_that_is_no_json_object_is_refused_with_the_kind_of_request(name: str, body: bytes) -> None:
    with pytest.raises(RequestError, match=f"^the body is not the JSON of {WHAT[name]}: ") as refused:
        WIRES[name].open(body, DEFAULT)
    assert refused.value.code == "invalid_json"


@every_wire
def test_tools_that_are_no_json_are_refused_with_the_kind_of_request(name: str) -> None:
    with pytest.raises(RequestError, match=f"^the body is not the JSON of {WHAT[name]}: ") as refused:
        WIRES[name].read_tools(b"[{]", DEFAULT)
    assert refused.value.code == "invalid_json"


@pytest.mark.parametrize(
    ("fields", "words", "param"),
    [
        ({"model": None}, "model parameter", "model"),
        ({"messages": []}, "non-empty array", "messages"),
        ({"messages": {}}, "non-empty array", "messages"),
        ({"messages": ["hi"]}, "must be an object", "messages[0]"),
        ({"messages": [{"role": "pope" * 20}]}, "not 'popepopepopepopepopepopepopepopepopepope'", "messages[0].role"),
        ({"messages": [{"role": 5}]}, "must be one of .*, not int", "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "must name the call", "messages[0].tool_call_id"),
        ({"messages": [{"role": "assistant", "tool_calls": {"a": 1}}]}, "array, not dict", "messages[0].tool_calls"),
        (
            {"messages": [{"role": "user", "content": 5}]},
            "string or an array of parts .*not int",
            "messages[0].content",
        ),
        ({"messages": [{"role": "user", "content": [5]}]}, "string or an array of parts", "messages[0].content"),
        ({"messages": [{"role": "assistant", "tool_calls": [5]}]}, "object with an id", "messages[0].tool_calls[0]"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]},
            "must have a name",
            "messages[0].tool_calls[0].function",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "a", "arguments": {}}}]}
                ]
            },
            "must be a string of JSON",
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"n": 2}, "'n' must be 1", "n"),
        ({"n": True}, "'n' must be 1", "n"),
        ({"stream": "yes"}, "'stream' must be true or false", "stream"),
        ({"stream_options": 5}, "'stream_options' must be an object", "stream_options"),
        ({"stream_options": {"include_usage": 1}}, "must be true or false", "stream_options.include_usage"),
        ({"tool_choice": 5}, "'tool_choice' must be a string or an object", "tool_choice"),
    ],
)
def test_a_faulty_chat_request_is_refused_with_its_field(fields: dict[str, Any], words: str, param: str) -> None:
    with pytest.raises(RequestError, match=words) as refused:
        read("chat", {"model": "m", "messages": [USER], **fields})
    assert refused.value.param == param


@pytest.mark.parametrize(
    "fields", [{"n": 1}, {"n": None}, {"stream": None}, {"stream_options": {"include_usage": None}}]
)
def test_a_chat_request_may_spell_out_what_is_usual(fields: dict[str, Any]) -> None:
    assert not read("chat", {"model": "m", "messages": [USER], **fields}).stream


# ---------------------------------------------------------------- tool choice


@pytest.mark.parametrize(
    ("name", "choice", "declined"),
    [
        *((name, choice, choice == "none") for name in ("chat", "responses") for choice in ("none", "auto", None)),
        ("chat", {"type": "function", "function": {"name": "none"}}, False),
        ("responses", {"type": "function", "name": "none"}, False),
        ("messages", {"type": "none"}, True),
        ("messages", {"type": "auto"}, False),
        ("messages", "none", False),
        ("messages", None, False),
    ],
)
def test_a_request_that_forbids_tool_calls_declines_tools(name: str, choice: Any, declined: bool) -> None:
    assert WIRES[name].declines_tools(opened(name, conversation(name, [USER], tool_choice=choice))) is declined
    assert not WIRES[name].declines_tools(opened(name, conversation(name, [USER])))


# ---------------------------------------------------------------- messages, read and written again


def test_consecutive_answers_become_one_turn_for_anthropic() -> None:
    answers = [{"role": "assistant", "content": text} for text in ("One.", "Two.")]
    request = read("chat", conversation("chat", [USER, *answers, USER]))
    body = msgspec.json.decode(
        WIRES["messages"]
        .write_request(ModelRequest(model="m", messages=request.messages), model="m", author="a:m", stream=False)
        .body
    )
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert [block["text"] for block in body["messages"][1]["content"]] == ["One.", "Two."]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_text", "text": "x", "new": 1},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low", "new": 1},
        {"type": "input_image", "image_url": "https://x.example/a.png", "detail": "high"},
        {"type": "input_image", "file_id": "file_1", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0=", "new": 1},
        {"type": "input_file", "file_id": "file_1"},
        {"type": "input_file", "file_url": "https://x.example/a.pdf"},
    ],
    ids=str,
)
def test_a_part_of_the_responses_api_goes_out_as_it_came_in(part: dict[str, Any]) -> None:
    items = [{"role": "user", "content": [part]}]
    request = read("responses", conversation("responses", items))
    sent = WIRES["responses"].write_request(
        ModelRequest(model="m", messages=request.messages), model="m", author="a:m", stream=False
    )
    assert msgspec.json.decode(sent.body)["input"] == items


@pytest.mark.parametrize(
    ("part", "kind", "fields"),
    [
        (
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
            "Image",
            {"data": "AAAA", "mime_type": "image/png", "url": ""},
        ),
        ({"type": "input_image", "image_url": "https://x/a.png"}, "Image", {"data": "", "url": "https://x/a.png"}),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
            "Resource",
            {"data": "JVBERi0=", "mime_type": "application/pdf", "name": "a.pdf"},
        ),
        ({"type": "input_file", "file_data": "JVBERi0="}, "Other", {"problem": "file_data: must be a data URL"}),
        ({"type": "input_image", "image_url": 5}, "Other", {"problem": "image_url: must be a string"}),
        ({"type": "input_image", "detail": "low"}, "Other", {"problem": "image_url: must be a string"}),
        (
            {"type": "input_file", "filename": "a.pdf"},
            "Other",
            {"problem": "file_data: one of file_data, file_id and file_url must be a string"},
        ),
        ({"type": "input_text", "text": 5}, "Other", {"problem": ""}),
        ({"type": "refusal", "refusal": "no"}, "Refusal", {"text": "no"}),
    ],
    ids=str,
)
def test_a_part_of_the_responses_api_is_read_by_its_fields(
    part: dict[str, Any], kind: str, fields: dict[str, Any]
) -> None:
    request = read("responses", conversation("responses", [{"role": "user", "content": [part]}]))
    (block,) = request.messages[0].content or ()
    assert type(block).__name__ == kind
    assert {name: getattr(block, name) for name in fields} == fields
