"""Answers of providers: errors by their names, statuses and places, and answers in unusual forms."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from toolcaddie.core.content import Image, Other, Text
from toolcaddie.core.errors import (
    ProviderAuthError,
    ProviderError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
    RequestError,
)
from toolcaddie.core.message import Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.core.wire import AnswerHead, DoorRequest
from toolcaddie.ports.wires import ClientWire
from toolcaddie.wires import chat, gemini, messages, responses
from toolcaddie.wires.gemini.errors import refusal

WIRES: dict[str, ClientWire] = {
    "chat": chat.ChatWire(),
    "responses": responses.ResponsesWire(),
    "messages": messages.MessagesWire(),
    "gemini": gemini.GeminiWire(),
}
every_wire = pytest.mark.parametrize("name", WIRES)
ASKING = ModelRequest(model="m", messages=(Message(role="user", content="hi"),))
HEAD = AnswerHead(id="run_1", created=1, model="m")
REJECTED, AUTH, RATE, UNAVAILABLE = (
    ProviderRejectedError,
    ProviderAuthError,
    ProviderRateLimitError,
    ProviderUnavailableError,
)


def read(name: str, body: Any) -> ModelReply:
    return WIRES[name].read_reply(msgspec.json.encode(body), who="upstream", author="upstream:m")


def written(name: str, request: ModelRequest, model: str = "m") -> Any:
    return msgspec.json.decode(
        WIRES[name].write_request(request, model=model, author=f"upstream:{model}", stream=False).body
    )


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *((code, AUTH) for code in ("authentication_error", "invalid_api_key", "permission_error")),
        *(
            (code, RATE)
            for code in ["insufficient_quota", "rate_limit_error", "rate_limit_exceeded", "too_many_requests"]
        ),
        *((code, UNAVAILABLE) for code in ["server_error", "internal_error", "internal_server_error", "overloaded"]),
        *(
            (code, UNAVAILABLE)
            for code in ["overloaded_error", "server_is_overloaded", "server_overloaded", "slow_down"]
        ),
        *((code, UNAVAILABLE) for code in ["service_unavailable", "service_unavailable_error", "timeout"]),
        ("vector_store_timeout", UNAVAILABLE),
        ("invalid_prompt", REJECTED),
        (None, UNAVAILABLE),
    ],
)
def test_an_error_of_the_responses_api_within_an_answer_is_raised_by_its_code(
    code: str | None, kind: type[ProviderError]
) -> None:
    body = {"object": "response", "status": "failed", "error": {"code": code, "message": "no luck"}}
    with pytest.raises(kind, match=r"^upstream stopped with an error: no luck") as raised:
        read("responses", body)
    assert type(raised.value) is kind
    assert (f"({code})" in str(raised.value)) is (code is not None)
    event = msgspec.json.encode({"type": "error", "code": code, "message": "no luck"})
    with pytest.raises(kind, match="no luck"):
        WIRES["responses"].read_stream(ASKING, who="upstream", author="upstream:m").add(event)


@pytest.mark.parametrize(
    ("word", "status", "kind"),
    [
        ("INVALID_ARGUMENT", 400, REJECTED),
        ("FAILED_PRECONDITION", 400, REJECTED),
        ("UNAUTHENTICATED", 401, AUTH),
        ("PERMISSION_DENIED", 403, AUTH),
        ("NOT_FOUND", 404, REJECTED),
        ("RESOURCE_EXHAUSTED", 429, RATE),
        ("CANCELLED", 499, REJECTED),
        ("INTERNAL", 500, UNAVAILABLE),
        ("UNAVAILABLE", 503, UNAVAILABLE),
        ("DEADLINE_EXCEEDED", 504, UNAVAILABLE),
        ("ODD", None, ProviderProtocolError),
    ],
)
def test_an_error_of_gemini_within_an_answer_is_raised_by_its_status(
    word: str, status: int | None, kind: type[ProviderError]
) -> None:
    with pytest.raises(kind, match=r"^upstream stopped with an error: no luck$") as raised:
        read("gemini", {"error": {"status": word, "message": "no luck"}})
    assert (type(raised.value), raised.value.status) == (kind, status)


@pytest.mark.parametrize(("code", "status"), [(399, None), (400, 400), (599, 599), (600, None)])
def test_an_error_code_of_gemini_counts_if_it_is_an_http_error(code: int, status: int | None) -> None:
    with pytest.raises(ProviderError) as raised:
        read("gemini", {"error": {"code": code, "message": "no luck"}})
    assert raised.value.status == status


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("invalid_request_error", 400, REJECTED),
        ("authentication_error", 401, AUTH),
        ("billing_error", 402, REJECTED),
        ("permission_error", 403, AUTH),
        ("not_found_error", 404, REJECTED),
        ("conflict_error", 409, UNAVAILABLE),
        ("request_too_large", 413, REJECTED),
        ("rate_limit_error", 429, RATE),
        ("api_error", 500, UNAVAILABLE),
        ("timeout_error", 504, UNAVAILABLE),
        ("overloaded_error", 529, UNAVAILABLE),
        ("odd_error", None, ProviderProtocolError),
    ],
)
def test_an_error_of_anthropic_within_an_answer_is_raised_by_its_type(
    kind: str, status: int | None, error: type[ProviderError]
) -> None:
    body = {"type": "error", "error": {"type": kind, "message": "no luck"}}
    with pytest.raises(error, match=r"^upstream stopped with an error: no luck") as raised:
        read("messages", body)
    assert (type(raised.value), raised.value.status) == (error, status)
    with pytest.raises(error, match="no luck"):
        WIRES["messages"].read_stream(ASKING, who="upstream", author="upstream:m").add(msgspec.json.encode(body))


@every_wire
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, AUTH) for status in (401, 403)),
        (429, RATE),
        *((status, UNAVAILABLE) for status in (408, 409, 500, 529)),
        *((status, REJECTED) for status in (400, 404, 499)),
        *((status, ProviderProtocolError) for status in (302, 399)),
    ],
)
def test_the_status_of_an_error_answer_decides_its_kind(name: str, status: int, kind: type[ProviderError]) -> None:
    report = WIRES[name].read_error(status, b'{"error": {"message": "no luck"}}')
    assert (report.kind, report.message) == (kind, "no luck")


@every_wire
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"detail": "no luck"}}', "no luck"),
        (b'{"error": "no luck"}', "no luck"),
        (b'{"message": "no luck"}', "no luck"),
        (b'{"detail": "no luck"}', "no luck"),
        (b'[{"error": {"message": "no luck"}}]', "no luck"),
        (b"<h1>no\n  luck</h1>", "<h1>no luck</h1>"),
        (b'{"error": {"odd": 1}}', '{"error": {"odd": 1}}'),
        (b"", "an empty body"),
        (b"\xff" + b"x" * 400, "\ufffd" + "x" * 299),
    ],
)
def test_an_error_answer_of_any_form_has_a_message(name: str, body: bytes, message: str) -> None:
    assert WIRES[name].read_error(500, body).message == message


def test_an_error_of_a_scripted_gemini_names_its_status_and_reason() -> None:
    words = {
        400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED",
        429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED", 418: "UNKNOWN",
    }  # fmt: skip
    for status, word in words.items():
        assert refusal(status, "no") == {"error": {"code": status, "message": "no", "status": word}}
    assert refusal(400, "no", kind="ODD", code="API_KEY_INVALID")["error"] == {
        "code": 400,
        "message": "no",
        "status": "ODD",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID",
                "domain": "googleapis.com",
            }
        ],
    }


@every_wire
@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff"])
def test_a_faulty_event_of_a_stream_is_blamed_on_the_upstream_by_name(name: str, data: bytes) -> None:
    reader = WIRES[name].read_stream(ASKING, who="upstream", author="upstream:m")
    with pytest.raises(ProviderProtocolError, match=r"^upstream answered with"):
        reader.add(data)


# ---------------------------------------------------------------- OpenAI


def test_the_texts_of_one_message_are_joined_and_those_of_two_are_separated() -> None:
    def message(*texts: str) -> JsonObject:
        return {"type": "message", "content": [{"type": "output_text", "text": text} for text in texts]}

    reply = read("responses", {"status": "completed", "output": [message("One", " two"), message("Three")]})
    assert reply.message.text == "One two\n\nThree"


def test_unknown_fields_of_a_chunk_go_out_with_its_text() -> None:
    writer = chat.WIRE.write_stream(DoorRequest(model="m", messages=()), HEAD)
    chunk = {"id": "theirs", "object": "x", "created": 5, "model": "x", "usage": {}, "new": {"deep": 1}}
    chunk["choices"] = [{"delta": {"content": "hi", "role": "x", "reasoning": "Hm."}, "logprobs": {"content": []}}]
    out = msgspec.json.decode(writer.add(ModelDelta(text="hi", raw=chunk)).removeprefix(b"data: "))
    assert out == {
        "id": "chatcmpl-run_1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "new": {"deep": 1},
        "choices": [
            {
                "index": 0,
                "delta": {"role": "assistant", "reasoning": "Hm.", "content": "hi"},
                "logprobs": {"content": []},
                "finish_reason": None,
            }
        ],
    }


def test_fields_of_another_provider_are_omitted_but_a_custom_call_stays_whole() -> None:
    custom = ToolCall(
        id="c1", name="sql", arguments="x", extra={"type": "custom", "custom": {"name": "sql", "input": "x"}}
    )
    function = ToolCall(id="c2", name="find", arguments="{}", extra={"signature": "s"})
    answer = Message(
        role="assistant", content="x", tool_calls=(custom, function), extra={"reasoning": "Hm."}, author="other:m"
    )
    results = tuple(Message(role="tool", tool_call_id=call_id, content="x") for call_id in ("c1", "c2"))
    sent = written("chat", ModelRequest(model="m", messages=(answer, *results)))["messages"][0]
    plain = {"id": "c2", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    assert sent == {
        "role": "assistant",
        "content": "x",
        "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "x"}}, plain],
    }
    own = ModelRequest(model="m", messages=(Message(role="assistant", tool_calls=(function,), author="upstream:m"),))
    assert written("chat", own)["messages"][0]["tool_calls"] == [{**plain, "signature": "s"}]


@pytest.mark.parametrize("length", [40, 41])
def test_an_id_of_another_provider_is_shortened_only_if_it_has_more_than_40_characters(length: int) -> None:
    call_id = "c" * length
    answer = Message(role="assistant", tool_calls=(ToolCall(id=call_id, name="find"),), author="other:m")
    result = Message(role="tool", tool_call_id=call_id, content="x")
    first, second = written("chat", ModelRequest(model="m", messages=(answer, result)))["messages"]
    assert first["tool_calls"][0]["id"] == second["tool_call_id"]
    assert (second["tool_call_id"] == call_id) is (length == 40)
    assert len(second["tool_call_id"]) <= 40


# ---------------------------------------------------------------- Gemini


@pytest.mark.parametrize(
    ("effort", "level", "budget"),
    [
        ("none", "MINIMAL", 0),
        ("minimal", "MINIMAL", 1024),
        ("low", "LOW", 1024),
        ("medium", "MEDIUM", 8192),
        ("high", "HIGH", 24576),
        ("xhigh", "XHIGH", 24576),
        ("max", "XHIGH", 24576),
    ],
)
def test_each_effort_is_a_level_and_for_older_models_a_budget(effort: str, level: str, budget: int) -> None:
    request = ModelRequest(model="m", messages=ASKING.messages, params={"reasoning_effort": effort})
    shown = {} if effort == "none" else {"includeThoughts": True}
    for model, amount in (
        ("gemini-3-flash", {"thinkingLevel": level}),
        ("gemini-2.5-flash", {"thinkingBudget": budget}),
    ):
        assert written("gemini", request, model)["generationConfig"] == {"thinkingConfig": {**amount, **shown}}


def test_all_names_of_geminis_own_settings_are_part_of_its_configuration() -> None:
    names = """topP topK candidateCount maxOutputTokens stopSequences presencePenalty frequencyPenalty responseMimeType
        responseSchema responseJsonSchema responseFormat responseLogprobs responseModalities thinkingConfig mediaResolution
        speechConfig imageConfig enableEnhancedCivicAnswers audioTranscriptionConfig translationConfig"""
    params = {name: f"value of {name}" for name in names.split()}
    assert (
        written("gemini", ModelRequest(model="m", messages=ASKING.messages, params=params))["generationConfig"]
        == params
    )


def test_parameters_after_an_omitted_one_are_still_sent() -> None:
    omitted = """stream stream_options prompt_cache_key prompt_cache_retention prompt_cache_options user safety_identifier
        metadata verbosity prediction parallel_tool_calls"""
    params = {"seed": None, **dict.fromkeys(omitted.split(), "x"), "temperature": 0.5, "service_tier": "auto", "new": 1}
    body = written("gemini", ModelRequest(model="m", messages=ASKING.messages, params=params))
    assert body.keys() == {"contents", "generationConfig", "new"}
    assert body["generationConfig"] == {"temperature": 0.5}


@pytest.mark.parametrize(("tier", "fields"), [("auto", {}), ("default", {}), ("flex", {"serviceTier": "flex"})])
def test_only_an_unusual_service_tier_is_sent_to_gemini(tier: str, fields: dict[str, str]) -> None:
    body = written("gemini", ModelRequest(model="m", messages=ASKING.messages, params={"service_tier": tier}))
    assert {name: body[name] for name in body if name != "contents"} == fields


@pytest.mark.parametrize(("choice", "mode"), [("required", "ANY"), ("auto", None), ("none", None), (None, None)])
def test_a_required_call_is_sent_to_gemini_even_with_its_own_tools_alone(choice: str | None, mode: str | None) -> None:
    request = ModelRequest(model="m", messages=ASKING.messages, tools=({"googleSearch": {}},), tool_choice=choice)
    body = written("gemini", request)
    assert body.get("toolConfig") == (mode and {"functionCallingConfig": {"mode": mode}})


def test_a_part_of_gemini_itself_goes_out_unchanged_and_another_wires_is_refused() -> None:
    own: JsonObject = {"executableCode": {"code": "1"}}
    message = Message(role="user", content=(Other(wire="gemini", part=own), Text(text="x")))
    assert written("gemini", ModelRequest(model="m", messages=(message,)))["contents"][0]["parts"] == [
        own,
        {"text": "x"},
    ]
    foreign = Message(role="user", content=(Other(wire="chat", part={"type": "odd"}),))
    with pytest.raises(RequestError, match="type 'odd'"):
        written("gemini", ModelRequest(model="m", messages=(foreign,)))


@pytest.mark.parametrize(
    ("address", "mime_type"),
    [
        *((f"https://x/a.{name}", f"image/{name}") for name in ("png", "jpeg", "webp", "gif", "heic", "heif")),
        ("https://x/a.JPG?size=2", "image/jpeg"),
        ("https://x/a", None),
    ],
)
def test_the_extension_of_an_address_tells_gemini_the_type_of_a_picture(address: str, mime_type: str | None) -> None:
    message = Message(role="user", content=(Image(url=address),))
    (part,) = written("gemini", ModelRequest(model="m", messages=(message,)))["contents"][0]["parts"]
    assert part == {"fileData": {**({"mimeType": mime_type} if mime_type else {}), "fileUri": address}}


# ---------------------------------------------------------------- usage


@pytest.mark.parametrize(("number", "counted"), [(-1, 0), (0, 0), (2**53, 2**53), (2**53 + 1, 0), (None, 0)])
def test_a_number_of_tokens_counts_if_a_database_can_hold_it(number: int | None, counted: int) -> None:
    body: dict[str, Any] = {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": number}}
    assert read("chat", body).usage == Usage(input_tokens=counted)
    body = {"status": "completed", "output": [{"type": "message", "content": []}], "usage": {"output_tokens": number}}
    assert read("responses", body).usage == Usage(output_tokens=counted)
    body = {"content": [{"type": "text", "text": "x"}], "usage": {"cache_read_input_tokens": number}}
    assert read("messages", body).usage == Usage(input_tokens=counted, cached_tokens=counted)
