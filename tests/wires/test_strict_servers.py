"""Scripted servers refuse what the real ones refuse, each with the provider's own message, and accept everything else.

`refusals.json` lists for each wire a request per rule, and the error that it gets.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolcaddie.ports.wires import Wire
from toolcaddie.wires import chat, messages, responses
from toolcaddie.wires.gemini.strict import fault_of, signs

REFUSALS: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_name("refusals.json").read_text("utf-8"))
WIRES: dict[str, Wire] = {"chat": chat.ChatWire(), "responses": responses.ResponsesWire()}
MESSAGES: Wire = messages.MessagesWire()
GEMINI_3, GEMINI_2 = "gemini-3-flash", "gemini-2.5-flash"
TEXT = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}}
EMPTY = {"type": "object", "additionalProperties": False}


def cases(wire: str) -> Any:
    rows = REFUSALS[wire]
    return pytest.mark.parametrize(
        "case", rows, ids=[f"{place} {row['message'][:40]}" for place, row in enumerate(rows)]
    )


# ---------------------------------------------------------------- refusals


@cases("chat")
def test_chat_completions_refuses_a_faulty_request_with_its_field_and_code(case: dict[str, Any]) -> None:
    assert WIRES["chat"].complaint("", case["request"]) == openai_error(case)


@cases("responses")
def test_responses_refuses_a_faulty_request_with_its_field_and_code(case: dict[str, Any]) -> None:
    assert WIRES["responses"].complaint("", case["request"]) == openai_error(case)


@cases("messages")
def test_messages_refuses_a_faulty_request_with_its_field(case: dict[str, Any]) -> None:
    assert MESSAGES.complaint("", case["request"]) == anthropic_error(case["message"])


@cases("gemini")
def test_gemini_refuses_a_faulty_request_with_its_field(case: dict[str, Any]) -> None:
    assert fault_of(case["request"], model=case["model"], signed={}) == case["message"]


def openai_error(case: dict[str, Any]) -> dict[str, Any]:
    error = {"message": case["message"], "type": "invalid_request_error", "param": case["param"], "code": case["code"]}
    return {"error": error}


def anthropic_error(message: str) -> dict[str, Any]:
    error = {"type": "invalid_request_error", "message": message}
    return {"type": "error", "error": error, "request_id": "req_test"}


@pytest.mark.parametrize("wire", WIRES)
def test_openai_refuses_more_than_128_tools_and_accepts_128(wire: str) -> None:
    tools = [_tool(wire, f"tool_{number}") for number in range(129)]
    message = (
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 129 "
        "instead."
    )
    error = {"message": message, "param": "tools", "code": "array_above_max_length"}
    assert WIRES[wire].complaint("", _request(wire, tools=tools)) == openai_error(error)
    assert WIRES[wire].complaint("", _request(wire, tools=tools[:128])) is None


def test_gemini_refuses_more_than_512_functions_and_accepts_512() -> None:
    declared = [{"name": f"tool_{number}"} for number in range(513)]
    assert gemini_fault(tools=[{"functionDeclarations": declared}]) == (
        "The number of function declarations exceeds the maximum of 512."
    )
    assert gemini_fault(tools=[{"functionDeclarations": declared[:512]}]) is None


def _request(wire: str, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [TEXT], **fields} if wire == "chat" else {"model": "m", "input": "hi", **fields}


def _tool(wire: str, name: str, **fields: Any) -> dict[str, Any]:
    function = {"name": name, "parameters": SCHEMA, **fields}
    return {"type": "function", "function": function} if wire == "chat" else {"type": "function", **function}


# ---------------------------------------------------------------- OpenAI: accepted requests


CALL = {"id": "c" * 40, "type": "function", "function": {"name": "find", "arguments": "{}"}}


@pytest.mark.parametrize(
    "fields",
    [
        {"field_of_tomorrow": 1},
        {"stream": None, "stream_options": None},
        {"stream": True, "stream_options": {"include_usage": True}},
        {
            "messages": [
                {"role": role, "content": "x"} for role in ("system", "developer", "user", "assistant", "function")
            ]
        },
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        {
            "messages": [
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c" * 40, "content": ""},
            ]
        },
        {
            "messages": [
                {"role": "assistant", "tool_calls": [CALL, {"id": "c2", "type": "custom", "custom": {"name": "x"}}]},
                {"role": "tool", "tool_call_id": "c2", "content": "x"},
                {"role": "tool", "tool_call_id": "c" * 40, "content": "x"},
                TEXT,
            ]
        },
        {"tools": [{"type": "function", "function": {"name": "x" * 64, "description": None}}]},
        {"tools": [{"type": "custom", "custom": {"name": "x"}}], "parallel_tool_calls": False},
        {"tools": [_tool("chat", "find", parameters={})], "tool_choice": "none"},
        {"tools": [_tool("chat", "find")], "tool_choice": "required"},
        {"tools": [_tool("chat", "find")], "tool_choice": {"type": "function", "function": {"name": "find"}}},
        {
            "tools": [_tool("chat", "find")],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [_tool("chat", "find")]},
            },
        },
    ],
    ids=str,
)
def test_chat_completions_accepts_a_valid_request(fields: dict[str, Any]) -> None:
    assert WIRES["chat"].complaint("", _request("chat", **fields)) is None


RESPONSES_FIELDS = [
    "background",
    "context_management",
    "conversation",
    "include",
    "instructions",
    "max_tool_calls",
    "metadata",
    "moderation",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "temperature",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
]
INCLUDED = [
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]
OWN_TOOLS = [
    "file_search",
    "web_search",
    "web_search_preview",
    "code_interpreter",
    "image_generation",
    "mcp",
    "tool_search",
    "computer",
    "shell",
]
ITEM_CALL = {"type": "function_call", "id": "fc_1", "call_id": "c" * 64, "name": "n" * 128, "arguments": "{}"}
ITEM_OUTPUT = {"type": "function_call_output", "id": "fco_1", "call_id": "c" * 64, "output": "x", "status": "completed"}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [],
    "encrypted_content": "g",
    "status": "completed",
}
CLOSED = {**SCHEMA, "required": ["id"], "additionalProperties": False}


@pytest.mark.parametrize(
    "fields",
    [
        *({name: None} for name in RESPONSES_FIELDS),
        {"include": INCLUDED},
        *({"reasoning": {"effort": effort}} for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max")),
        {"max_output_tokens": 16},
        {"stream": True, "stream_options": {"include_obfuscation": False}, "store": False, "parallel_tool_calls": True},
        *({"text": {"format": {"type": kind}, "verbosity": "low"}} for kind in ("text", "json_object")),
        {
            "text": {
                "format": {"type": "json_schema", "name": "x", "schema": {}, "strict": True, "description": "x"},
            }
        },
        {"text": {"format": None}},
        {
            "input": [
                {"role": role, "content": "x", "id": "m", "status": "x", "phase": "x"} for role in ("user", "system")
            ]
        },
        {"input": [{"type": "message", "role": "developer", "content": [{"type": "input_file", "file_id": "f"}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f", "detail": "low"}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://x"}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "x", "prompt_cache_breakpoint": {}}]}]},
        {
            "input": [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "output_text", "text": "x", "annotations": [], "logprobs": []},
                        {"type": "refusal", "refusal": "x"},
                    ],
                }
            ]
        },
        {"input": [REASONING, ITEM_CALL, {**ITEM_OUTPUT, "output": [{"type": "input_text", "text": "x"}]}]},
        {"input": [{**ITEM_CALL, "namespace": "n", "status": "completed", "caller": {}, "async": False}, ITEM_OUTPUT]},
        {"input": [REASONING, {"type": "message", "role": "assistant", "content": "x"}]},
        {
            "input": [
                {"type": "additional_tools", "id": "a", "role": "developer", "tools": [_tool("responses", "late")]},
                TEXT,
            ],
            "tool_choice": {"type": "function", "name": "late"},
        },
        *({"tools": [{"type": kind}]} for kind in OWN_TOOLS),
        {"tools": [{"type": "tool_search"}, _tool("responses", "find", defer_loading=True)]},
        {"tools": [_tool("responses", "find", description="x", strict=True, parameters=CLOSED)]},
        {"tools": [{"type": "function", "name": "find", "allowed_callers": [], "output_schema": {}, "async": False}]},
        {"tools": [_tool("responses", "find")], "tool_choice": "required"},
        {"tool_choice": "auto"},
        {"tool_choice": "none"},
        {"tools": [_tool("responses", "find")], "tool_choice": {"type": "function", "name": "find"}},
        {
            "tools": [_tool("responses", "find")],
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "find"}],
            },
        },
    ],
    ids=str,
)
def test_responses_accepts_a_valid_request(fields: dict[str, Any]) -> None:
    assert WIRES["responses"].complaint("", _request("responses", **fields)) is None


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("max_tokens", "max_output_tokens"),
        ("max_completion_tokens", "max_output_tokens"),
        ("response_format", "text.format"),
        ("reasoning_effort", "reasoning.effort"),
        ("messages", "input"),
        ("functions", "tools"),
    ],
)
def test_responses_names_the_new_place_of_a_parameter_of_chat_completions(name: str, place: str) -> None:
    refused: Any = WIRES["responses"].complaint("", _request("responses", **{name: 1}))
    assert f"'{name}'" in refused["error"]["message"]
    assert f"moved to '{place}'" in refused["error"]["message"]


# ---------------------------------------------------------------- Anthropic: accepted requests


USE = {"type": "tool_use", "id": "t1", "name": "n" * 128, "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1"}
TOOL = {"name": "find", "input_schema": SCHEMA}
MARK = {"cache_control": {"type": "ephemeral"}}
THINKING = {"type": "thinking", "thinking": "x", "signature": "s"}
BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def asked(*turns: Any, **fields: Any) -> dict[str, Any]:
    spoken = [{"role": ("user", "assistant")[place % 2], "content": content} for place, content in enumerate(turns)]
    return {"model": "m", "max_tokens": 1025, "messages": spoken or [TEXT], **fields}


@pytest.mark.parametrize(
    "request_body",
    [
        asked(
            service_tier="auto", top_p=1, top_k=1, container="c", context_management={}, mcp_servers=[], diagnostics={},
            inference_geo="eu", speed="fast", user_profile_id="u", workspace_id="w", cache_control=MARK["cache_control"],
        ),
        asked(max_tokens=1, stream=True, temperature=1, stop_sequences=["END"], metadata={"user_id": "u"}),
        asked(temperature=0.0, stream=False, system="Be brief."),
        asked(system=[{"type": "text", "text": "x", "citations": None, **MARK}]),
        *(asked(output_config={"effort": effort}) for effort in ("low", "medium", "high", "xhigh", "max")),
        asked(output_config={"format": {"type": "json_schema", "schema": {**EMPTY, "properties": {"a": EMPTY}, "$defs": {}}}}),
        asked(output_config={"format": {"type": "json_schema", "schema": {"enum": [{"type": "object"}]}}}),
        asked(output_config={"format": {"type": "json_schema", "schema": {"default": {"minimum": 1}, "const": {"maximum": 1}}}}),
        *(asked(thinking={"type": kind}) for kind in ("disabled", "adaptive", "between_tools")),
        asked(temperature=1, tools=[TOOL], tool_choice={"type": "auto"}, **BUDGET),
        asked(
            tools=[
                {**TOOL, "type": "custom", "description": "x", "strict": True, "allowed_callers": [], "input_examples": []},
                {**TOOL, "name": "b" * 128, "eager_input_streaming": True, "defer_loading": True},
                {"type": "web_search_20260209", "name": "web_search", "max_uses": 5},
            ]
        ),
        asked(tools=[{**TOOL, "input_schema": {"type": "object", "properties": {"a.b-c_1": {}}}, **MARK}]),
        *(asked(tools=[TOOL], tool_choice={"type": kind}) for kind in ("auto", "any", "none")),
        asked(tools=[TOOL], tool_choice={"type": "tool", "name": "find", "disable_parallel_tool_use": True}),
        asked(model="claude-sonnet-5-5", tools=[TOOL], tool_choice={"type": "auto"}),
        asked(tools=[]),
        *(
            asked([{"type": "image", "source": source}])
            for source in (
                *({"type": "base64", "media_type": f"image/{kind}", "data": "A"} for kind in ("jpeg", "png", "gif", "webp")),
                {"type": "url", "url": "https://x"},
                {"type": "file", "file_id": "f"},
            )
        ),
        *(asked([{"type": "document", "source": {"type": kind}}]) for kind in ("base64", "text", "content", "url", "file")),
        asked([{"type": "search_result"}, {"type": "container_upload"}]),
        asked("hi", [THINKING, {"type": "redacted_thinking", "data": "d"}, {"type": "text", "text": "x"}], "more"),
        asked("hi", [{"type": "server_tool_use"}, {"type": "web_search_tool_result"}, {"type": "text", "text": "x"}]),
        asked("hi", [USE], [RESULT]),
        asked("hi", [USE], [{**RESULT, "content": "", "is_error": False}]),
        asked(
            "hi",
            [USE],
            [{**RESULT, "content": [{"type": kind} for kind in ("search_result", "browser_state")], "is_error": True}],
        ),
        asked("hi", [USE, {**USE, "id": "t2"}], [{**RESULT, "tool_use_id": "t2"}, RESULT, {"type": "text", "text": "x"}]),
        asked("hi", [USE], [{**RESULT, "content": [{"type": "tool_reference", "tool_name": "find"}]}], tools=[TOOL]),
        asked("hi", [THINKING, USE], [RESULT], **BUDGET),
        asked("hi", [USE], [RESULT], "It is done.", "Thanks.", **BUDGET),
        asked([{"type": "text", "text": "x", **MARK}] * 4),
    ],
    ids=lambda body: str(body)[:150],
)  # fmt: skip
def test_messages_accepts_a_valid_request(request_body: dict[str, Any]) -> None:
    assert MESSAGES.complaint("", request_body) is None


def test_messages_counts_cache_marks_of_tools_system_text_and_results() -> None:
    marked = {"type": "text", "text": "x", **MARK}
    result = {**RESULT, "content": [marked], **MARK}
    body = asked("hi", [USE], [result], tools=[{**TOOL, **MARK}], system=[marked])
    assert MESSAGES.complaint("", body) is None
    assert MESSAGES.complaint("", {**body, **MARK}) == anthropic_error(
        "A maximum of 4 blocks with cache_control may be provided. Found 5."
    )


@pytest.mark.parametrize("name", ["claude-fable-5-1", "claude-mythos-5-1", "claude-opus-5-5", "claude-sonnet-5-5"])
def test_messages_refuses_a_forced_choice_for_the_families_that_know_none(name: str) -> None:
    body = asked(model=f"{name}-20260101", tools=[TOOL], tool_choice={"type": "any"})
    assert MESSAGES.complaint("", body) == anthropic_error(
        f"tool_choice: forcing tool use is not supported on {name}-20260101. Use 'auto' or 'none'."
    )


def test_messages_refuses_a_system_message_within_the_conversation_unless_the_model_takes_one() -> None:
    body = {**asked(), "messages": [TEXT, {"role": "system", "content": "x"}]}
    assert messages.MessagesWire(mid_system=True).complaint("", body) is None
    assert messages.MessagesWire(mid_system=False).complaint("", body) == anthropic_error(
        "messages: role 'system' is not supported on this model"
    )


# ---------------------------------------------------------------- Gemini: accepted requests


USER = {"role": "user", "parts": [{"text": "hi"}]}
DECLARED = {"name": "find", "parametersJsonSchema": {"type": "object", "max_items": 1}}
FUNCTION_CALL = {"name": "find", "args": {"some_name": 1}, "id": "c1"}
RESPONSE = {"functionResponse": {"name": "find", "id": "c1", "response": {"output": "x"}}}
JSON = {"responseMimeType": "application/json"}
LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH")


def gemini_fault(model: str = GEMINI_3, signed: dict[str, Any] | None = None, **fields: Any) -> str | None:
    return fault_of({"contents": [USER], **fields}, model=model, signed=signed or {})


@pytest.mark.parametrize(
    "fields",
    [
        {
            "safetySettings": [],
            "cachedContent": "c",
            "labels": {},
            "serviceTier": "x",
            "store": False,
            "continuationToken": "t",
        },
        {"model": "m", "systemInstruction": {"parts": [{"text": "x"}]}},
        *({"generationConfig": {"temperature": value}} for value in (0, 1.5, 2)),
        {
            "generationConfig": {
                "topP": 1,
                "topK": 1,
                "presencePenalty": 0.1,
                "frequencyPenalty": 1,
                "seed": 1,
                "logprobs": 1,
            }
        },
        {"generationConfig": {"candidateCount": 8, "maxOutputTokens": 1, "stopSequences": ["a"] * 5}},
        {"generationConfig": {"candidateCount": 1, "mediaResolution": "x", "responseLogprobs": True}},
        {"generationConfig": {"enableEnhancedCivicAnswers": True, "responseModalities": [], "responseFormat": []}},
        {
            "generationConfig": {
                "speechConfig": {},
                "imageConfig": {},
                "audioTranscriptionConfig": {},
                "translationConfig": {},
            }
        },
        {"generationConfig": {**JSON, "responseJsonSchema": {}}, "tools": [{"functionDeclarations": [DECLARED]}]},
        {"generationConfig": {**JSON, "responseSchema": {}}},
        *(
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": level, "includeThoughts": True}}}
            for level in LEVELS
        ),
        {"generation_config": {"thinking_config": {"thinking_budget": 1}}},
        *(
            {"contents": [{"role": "user", "parts": [{**part, "thought": False, "partMetadata": {"some_name": 1}}]}]}
            for part in (
                {"inlineData": {"mimeType": "image/png", "data": "AAAA", "displayName": "x"}},
                {"fileData": {"fileUri": "https://x"}, "videoMetadata": {}, "mediaResolution": {}},
                {"executableCode": {}},
                {"codeExecutionResult": {}},
                {"toolCall": {}},
                {"toolResponse": {}},
            )
        ),
        *(
            {"tools": [{name: {}}]}
            for name in [
                "googleSearch",
                "codeExecution",
                "urlContext",
                "googleMaps",
                "fileSearch",
                "computerUse",
                "mcpServers",
                "googleSearchRetrieval",
                "google_search",
            ]
        ),
        {"tools": [{"functionDeclarations": [{**DECLARED, "description": "x", "response": {}, "behavior": "x"}]}]},
        {"tools": [{"functionDeclarations": [{"name": "_a.b:c-1" + "x" * 120, "parameters": {"some_name": 1}}]}]},
        {"tools": [{"functionDeclarations": [{"name": "find", "responseJsonSchema": {}}]}]},
        *(
            {"tools": [{"functionDeclarations": [DECLARED]}], "toolConfig": {"functionCallingConfig": {"mode": mode}}}
            for mode in ("AUTO", "ANY", "NONE", "VALIDATED")
        ),
        *(
            {
                "tools": [{"functionDeclarations": [DECLARED]}],
                "toolConfig": {"functionCallingConfig": {"mode": mode, "allowedFunctionNames": ["find"]}},
            }
            for mode in ("ANY", "VALIDATED")
        ),
    ],
    ids=lambda fields: str(fields)[:150],
)
def test_gemini_accepts_a_valid_request(fields: dict[str, Any]) -> None:
    assert gemini_fault(**fields) is None


def conversation(*parts: Any) -> list[dict[str, Any]]:
    """Turns of the model and of the user after a first text of the user."""
    return [USER, *({"role": ("model", "user")[place % 2], "parts": each} for place, each in enumerate(parts))]


def test_gemini_wants_signatures_only_of_calls_since_the_user_last_spoke() -> None:
    bare = {"functionCall": FUNCTION_CALL}
    spoken = conversation([bare], [RESPONSE], [{"text": "Done."}], [{"text": "again"}])
    assert gemini_fault(contents=spoken) is None
    for stand_in in ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go"):
        signed = {**bare, "thoughtSignature": stand_in}
        assert gemini_fault(contents=conversation([signed], [RESPONSE])) is None
        assert gemini_fault(contents=conversation([signed, bare], [RESPONSE, RESPONSE])) is None
        assert gemini_fault(contents=conversation([signed], [RESPONSE], [bare], [RESPONSE])) == (
            "Function call `find` in the `4.` content block is missing a `thought_signature`."
        )


def test_gemini_accepts_a_signature_only_beside_the_part_it_was_given_for() -> None:
    signed = {"s1": ("find", {"some_name": 1}), "s2": "Hm."}
    call = {"functionCall": FUNCTION_CALL, "thoughtSignature": "s1"}
    text = {"text": "Hm.", "thoughtSignature": "s2"}
    assert gemini_fault(signed=signed, contents=conversation([text, call], [RESPONSE])) is None
    for changed in (
        {**call, "functionCall": {**FUNCTION_CALL, "args": {}}},
        {**call, "thoughtSignature": "s2"},
        {**call, "thoughtSignature": "s3"},
    ):
        assert (
            gemini_fault(signed=signed, contents=conversation([changed], [RESPONSE])) == "Corrupted thought signature."
        )
    assert gemini_fault(signed=signed, contents=conversation([{**text, "text": "Ha."}, call], [RESPONSE])) == (
        "Corrupted thought signature."
    )


def test_gemini_accepts_results_with_media_and_text_after_them() -> None:
    signed = {"functionCall": FUNCTION_CALL, "thoughtSignature": "skip_thought_signature_validator"}
    parts = [{"inlineData": {}}, {"fileData": {}, "mediaResolution": {}}]
    media = {
        "functionResponse": {**RESPONSE["functionResponse"], "parts": parts, "scheduling": "x", "willContinue": False}
    }
    turns = conversation([signed], [media])
    assert gemini_fault(contents=[*turns, {"role": "user", "parts": [{"text": "and?"}]}]) is None


def test_an_older_gemini_may_end_with_the_model_and_needs_no_signature() -> None:
    assert [signs(model) for model in (GEMINI_2, "gemini-1.5-pro", GEMINI_3, "gemini-20", "learnlm")] == [
        False, False, True, True, True,
    ]  # fmt: skip
    turns = conversation([{"functionCall": FUNCTION_CALL}], [RESPONSE], [{"text": "Done"}])
    assert gemini_fault(GEMINI_2, contents=turns) is None
    assert gemini_fault(GEMINI_2, generationConfig=JSON) is None
