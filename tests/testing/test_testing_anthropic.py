"""The scripted Messages API: what it refuses, as the real one does, and in what words."""

from __future__ import annotations

from typing import Any

import pytest

from toolcaddie.testing import Reply
from toolcaddie.testing.anthropic import AnthropicWire

TOOL = {"name": "freeze", "input_schema": {"type": "object", "properties": {}}}
USER = {"role": "user", "content": "hi"}
CALL = {"type": "tool_use", "id": "t1", "name": "freeze", "input": {}}
ASKS = {"role": "assistant", "content": [CALL]}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
DONE = {"role": "user", "content": [RESULT]}
FINE: dict[str, Any] = {"model": "m", "max_tokens": 5000, "messages": [USER, ASKS, DONE], "tools": [TOOL]}
MARK = {"type": "ephemeral"}
BUDGET = {"type": "enabled", "budget_tokens": 2000}
TEXT = {"type": "text", "text": "x"}


def refusal(body: Any, wire: AnthropicWire | None = None) -> str | None:
    refused = (wire or AnthropicWire()).refusal_of("/v1/messages", body)
    return None if refused is None else refused["error"]["message"]


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in FINE.items() if key != name}


def talk(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**FINE, "messages": list(messages), **more}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def test_a_request_as_it_should_be_is_not_refused() -> None:
    assert refusal(FINE) is None
    assert refusal(talk(USER, ASKS, DONE, assistant(TEXT), USER, system="s", tool_choice={"type": "any"})) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (None, "not valid JSON"),
        (without("max_tokens"), "max_tokens: Field required"),
        (without("messages"), "messages: Field required"),
        ({**FINE, "max_tokens": 0}, "max_tokens"),
        ({**FINE, "max_tokens": "5"}, "max_tokens: Input should be a valid integer"),
        ({**FINE, "seed": 7}, "seed: Extra inputs are not permitted"),
        ({**FINE, "temperature": 1.5}, "temperature"),
        ({**FINE, "temperature": "hot"}, "temperature"),
        ({**FINE, "stop_sequences": [" "]}, "stop sequence"),
        ({**FINE, "metadata": {"a": 1}}, "metadata.a: Extra"),
        ({**FINE, "system": ""}, "system: text content blocks must be non-empty"),
        ({**FINE, "output_config": {"effort": "none"}}, "output_config.effort"),
        (
            {**FINE, "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            "'additionalProperties' must be explicitly set to false",
        ),
        (talk(), "at least one message"),
        (talk({"role": "robot", "content": "x"}), "role: Input should be"),
        (talk(assistant(TEXT)), 'first message must use the "user" role'),
        (talk(USER, USER), "roles must alternate"),
        (talk({"role": "user", "content": ""}), "non-empty content"),
        (talk({"role": "user", "content": 7}), "content: Input should be"),
        (talk(user({"type": "text", "text": ""})), "text content blocks must be non-empty"),
        (talk(user({"type": "text", "text": " \n"})), "must contain non-whitespace text"),
        (talk(user({"type": "text", "text": "x", "odd": 1})), "odd: Extra inputs"),
        (talk(user({"type": "image_url"})), "Input tag 'image_url'"),
        (talk(USER, assistant({"type": "text", "text": "x "})), "cannot end with trailing whitespace"),
        (talk(user(CALL)), "Input tag 'tool_use'"),
        (talk(USER, assistant(RESULT)), "Input tag 'tool_result'"),
        (talk(user({"type": "image", "source": {"type": "url", "url": "http://x"}})), "Only HTTPS"),
        (talk(user({"type": "image", "source": {"type": "base64", "media_type": "image/x"}})), "media_type"),
        (talk(USER, assistant({**CALL, "id": "a.b"}), DONE), r"tool_use.id: String should match pattern"),
        (talk(USER, assistant({**CALL, "input": "{}"}), DONE), "tool_use.input: Input should be a valid dictionary"),
        (talk(USER, assistant(CALL, CALL), DONE), "`tool_use` ids must be unique"),
        (talk(USER, ASKS, DONE, ASKS, DONE), "`tool_use` ids must be unique"),
        (talk(USER, ASKS), "ids were found without `tool_result` blocks immediately after: t1"),
        (talk(USER, ASKS, USER), "ids were found without `tool_result` blocks immediately after: t1"),
        (talk(USER, ASKS, user(TEXT, RESULT)), "ids were found without `tool_result` blocks immediately after: t1"),
        (talk(user(RESULT)), "unexpected `tool_use_id` found in `tool_result` blocks: t1"),
        (talk(USER, ASKS, user(RESULT, RESULT)), "each tool_use must have a single result"),
        (talk(USER, ASKS, user({**RESULT, "content": "", "is_error": True})), "content cannot be empty if `is_error`"),
        (talk(USER, ASKS, user({**RESULT, "content": [CALL]})), "tool_result.content: Input tag 'tool_use'"),
        (
            talk(USER, ASKS, user({**RESULT, "content": [{"type": "tool_reference", "tool_name": "x"}]})),
            "Tool reference 'x' has no corresponding tool definition",
        ),
        (
            talk(USER, ASKS, user({**RESULT, "content": [{"type": "tool_reference", "tool_name": "freeze"}, TEXT]})),
            "cannot be mixed",
        ),
        ({**FINE, "tools": [{"type": "function", "function": {}}]}, "Input tag 'function'"),
        ({**FINE, "tools": [{**TOOL, "name": "a b"}]}, "name: String should match pattern"),
        ({**FINE, "tools": [{**TOOL, "parameters": {}}]}, "parameters: Extra inputs"),
        ({**FINE, "tools": [{"name": "a"}]}, "input_schema: Field required"),
        ({**FINE, "tools": [{"name": "a", "input_schema": {}}]}, "input_schema.type"),
        (
            {**FINE, "tools": [{"name": "a", "input_schema": {"type": "object", "anyOf": []}}]},
            "does not support oneOf, allOf, or anyOf at the top level",
        ),
        (
            {**FINE, "tools": [{"name": "a", "input_schema": {"type": "object", "properties": {"$a": {}}}}]},
            "Property keys should match pattern",
        ),
        ({**FINE, "tools": [TOOL, TOOL]}, "Tool names must be unique"),
        ({**FINE, "tools": [{**TOOL, "defer_loading": True}]}, "At least one tool must be non-deferred"),
        (
            {**FINE, "tools": [TOOL, {**TOOL, "defer_loading": True, "cache_control": MARK}]},
            "cannot have cache_control",
        ),
        ({**FINE, "tool_choice": "auto"}, "tool_choice: Input tag"),
        ({**FINE, "tool_choice": {"type": "required"}}, "tool_choice: Input tag 'required'"),
        ({**FINE, "tool_choice": {"type": "tool", "name": "x"}}, "Tool 'x' not found in provided tools"),
        ({**without("tools"), "tool_choice": {"type": "auto"}}, "only be specified while providing tools"),
        ({**FINE, "tool_choice": {"type": "any"}, "model": "claude-fable-5-1"}, "forcing tool use is not supported"),
        ({**FINE, "tool_choice": {"type": "any"}, "thinking": BUDGET}, "may not be enabled when tool_choice forces"),
        ({**FINE, "thinking": {"type": "enabled"}}, "budget_tokens: Field required"),
        ({**FINE, "thinking": {"type": "enabled", "budget_tokens": 5}}, "greater than or equal to 1024"),
        ({**FINE, "thinking": {"type": "enabled", "budget_tokens": 9000}}, "must be greater than `thinking.budget"),
        ({**FINE, "thinking": {"type": "maybe"}}, "thinking: Input tag 'maybe'"),
        ({**FINE, "thinking": BUDGET}, "Expected `thinking` or `redacted_thinking`, but found `tool_use`"),
        (talk(USER, assistant({"type": "thinking", "thinking": "x"})), "signature: Field required"),
        (talk(USER, assistant({"type": "thinking", "thinking": "x", "signature": "s"})), "Invalid `signature`"),
        (talk(USER, assistant({"type": "redacted_thinking", "data": "s"})), "Invalid `data`"),
        (
            talk(*([user({**TEXT, "cache_control": MARK}), assistant(TEXT)] * 5)),
            "maximum of 4 blocks with cache_control",
        ),
        (talk(USER, {"role": "system", "content": "x"}), "role 'system' is not supported on this model"),
    ],
)
def test_a_request_at_fault_is_refused_in_the_providers_words(body: Any, words: str) -> None:
    refused = refusal(body)
    assert refused is not None
    assert words in refused


def test_system_messages_in_between_stand_behind_the_user_and_before_the_assistant() -> None:
    wire, note = AnthropicWire(mid_system=True), {"role": "system", "content": "x"}
    assert refusal(talk(USER, note), wire) is None
    assert refusal(talk(USER, note, assistant(TEXT)), wire) is None
    assert "must follow a user message" in str(refusal(talk(USER, assistant(TEXT), note), wire))
    assert "be followed by an assistant message" in str(refusal(talk(USER, note, USER), wire))


def test_a_thought_is_taken_back_as_it_was_given_and_only_so() -> None:
    wire = AnthropicWire()
    thought, said = wire.whole(Reply(text="hi", reasoning="hm"), answer_id="1", model="m")["content"]
    assert refusal(talk(USER, assistant(thought, said)), wire) is None
    assert "Invalid `signature`" in str(refusal(talk(USER, assistant({**thought, "thinking": "ho"}, said)), wire))
    assert "Invalid `signature`" in str(refusal(talk(USER, assistant(thought, said)), AnthropicWire()))
