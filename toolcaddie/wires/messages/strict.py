"""Checks of a Messages request as strict as Anthropic's, with Anthropic's error texts. The scripted servers of
tests use them to refuse what the real server would refuse.

Each check yields complaints, and only the first complaint of all checks is used: code after a `yield` may rely on what was
checked before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.wires.messages.errors import error_type

Body = Mapping[str, Any]

_FIELDS = frozenset(
    {
        *("model", "max_tokens", "messages", "system", "stream", "stop_sequences", "metadata", "service_tier"),
        *("temperature", "top_p", "top_k", "thinking", "tools", "tool_choice", "output_config", "cache_control"),
        *("container", "context_management", "mcp_servers", "diagnostics", "inference_geo", "speed"),
        *("user_profile_id", "workspace_id"),
    }
)
_TOOL_FIELDS = frozenset(
    {
        *("type", "name", "description", "input_schema", "cache_control", "defer_loading", "strict"),
        *("allowed_callers", "eager_input_streaming", "input_examples"),
    }
)
_USER_BLOCKS = frozenset({"text", "image", "document", "search_result", "tool_result", "container_upload"})
_ASSISTANT_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use"})
_SYSTEM_BLOCKS = frozenset({"text", "tool_addition", "tool_removal"})
_RESULT_BLOCKS = frozenset({"text", "image", "document", "search_result", "tool_reference", "browser_state"})
_SERVER_RESULT = "_tool_result"
_THINKING = frozenset({"thinking", "redacted_thinking"})
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})
_CHOICES = frozenset({"auto", "any", "tool", "none"})
_NEVER_FORCED = ("claude-fable-5-1", "claude-mythos-5-1", "claude-opus-5-5", "claude-sonnet-5-5")
"""Families of models that refuse a forced tool choice."""
_UNSUPPORTED_KEYWORDS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"}
)
_MAX_MARKS = 4
_MIN_BUDGET = 1024
_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Facts beside the request that a server checks it against."""

    signed: Mapping[str, str] | None = None
    """The thinking text that each signature was issued for; None: unknown, so that any signature is accepted."""
    mid_system: bool
    """True if the model accepts system messages within the conversation."""


def complaint_about(body: Any, terms: Terms) -> str | None:
    """Returns the error message with which the real server would answer (status 400); None: the request is valid."""
    if not isinstance(body, dict):
        return "The request body is not valid JSON."
    for check in _CHECKS:
        for message in check(body, terms):
            return message
    return None


def complaint(body: Any, *, mid_system: bool) -> dict[str, Any] | None:
    """Returns the error body with which the real server would answer (status 400); None: the request is valid."""
    wrong = complaint_about(body, Terms(mid_system=mid_system))
    return None if wrong is None else refusal(400, wrong)


def refusal(status: int, message: str, *, kind: str = "", code: str | None = None) -> dict[str, Any]:
    """Returns an error body in the API's format."""
    error = {"type": kind or error_type(status), "message": message}
    return {
        "type": "error",
        "error": {**error, "details": {"error_code": code}} if code else error,
        "request_id": "req_test",
    }


# ---------------------------------------------------------------- fields


def _top(body: Body, _: Terms) -> Iterator[str]:
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            yield f"{name}: Field required"
    for name, value in body.items():
        if name not in _FIELDS:
            yield f"{name}: Extra inputs are not permitted"
        if value is None:
            yield f"{name}: Input should be valid, not null"
    if not isinstance(body["model"], str) or not body["model"]:
        yield "model: String should have at least 1 character"
    if not isinstance(body["max_tokens"], int) or isinstance(body["max_tokens"], bool):
        yield "max_tokens: Input should be a valid integer"
    elif body["max_tokens"] < 1:
        yield "max_tokens: must be greater than or equal to 1"
    if not isinstance(body.get("stream", False), bool):
        yield "stream: Input should be a valid boolean"
    warmth = body.get("temperature", 0)
    if not isinstance(warmth, int | float) or not 0 <= warmth <= 1:
        yield "temperature: range: 0..1"
    if not _all_text(body.get("stop_sequences", [])):
        yield "stop_sequences: each stop sequence must contain non-whitespace"
    if not isinstance(body.get("metadata", {}), dict):
        yield "metadata: Input should be a valid dictionary"
    for name in body.get("metadata", {}):
        if name != "user_id":
            yield f"metadata.{name}: Extra inputs are not permitted"


def _all_text(texts: Any) -> bool:
    return isinstance(texts, list) and all(isinstance(text, str) and text.strip() for text in texts)


def _output(body: Body, _: Terms) -> Iterator[str]:
    config = body.get("output_config", {})
    if not isinstance(config, dict):
        yield "output_config: Input should be a valid dictionary"
    for name in config:
        if name not in ("effort", "format"):
            yield f"output_config.{name}: Extra inputs are not permitted"
    if config.get("effort", "low") not in _EFFORTS:
        yield "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"
    form = config.get("format")
    if form is not None:
        if form.get("type") != "json_schema" or not isinstance(form.get("schema"), dict):
            yield "output_config.format: Input should be a json_schema with a schema"
        yield from _schema(form["schema"])


def _schema(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _schema(each)
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield ("output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false")
    for name, value in schema.items():
        if name in _UNSUPPORTED_KEYWORDS:
            yield f"output_config.format.schema: For '{schema.get('type')}' type, property '{name}' is not supported"
        if name in ("properties", "$defs"):
            value = list(value.values())
        if name not in ("default", "enum", "const", "examples"):
            yield from _schema(value)


def _thinking(body: Body, _: Terms) -> Iterator[str]:
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in ("enabled", "disabled", "adaptive", "between_tools"):
        yield f"thinking: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    if kind != "enabled":
        return
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int):
        yield "thinking.enabled.budget_tokens: Field required"
    elif budget < _MIN_BUDGET:
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    elif budget >= body["max_tokens"]:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        yield "Thinking may not be enabled when tool_choice forces tool use."
    if body.get("temperature", 1) != 1:
        yield "`temperature` may only be set to 1 when thinking is enabled."


# ---------------------------------------------------------------- tools


def _tools(body: Body, _: Terms) -> Iterator[str]:
    tools = body.get("tools", [])
    if not isinstance(tools, list):
        yield "tools: Input should be a valid list"
    seen: set[str] = set()
    for place, tool in enumerate(tools):
        yield from _tool(tool, f"tools.{place}")
        if tool["name"] in seen:
            yield "tools: Tool names must be unique."
        seen.add(tool["name"])
    if tools and all(tool.get("defer_loading") for tool in tools):
        yield "All tools have defer_loading set. At least one tool must be non-deferred."


def _tool(tool: Any, where: str) -> Iterator[str]:
    if not isinstance(tool, dict):
        yield f"{where}: Input should be a valid dictionary"
    kind = tool.get("type", "custom")
    if kind == "function":
        yield f"{where}: Input tag 'function' found using 'type' does not match any of the expected tags: 'custom', ..."
    if tool.get("defer_loading") and tool.get("cache_control"):
        yield f"{where}: a tool with defer_loading cannot have cache_control"
    if not _NAME.match(str(tool.get("name", ""))):
        yield f"{where}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if kind != "custom":
        return
    for name in tool:
        if name not in _TOOL_FIELDS:
            yield f"{where}.custom.{name}: Extra inputs are not permitted"
    if not isinstance(tool.get("description", ""), str):
        yield f"{where}.custom.description: Input should be a valid string"
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        yield f"{where}.custom.input_schema: Field required"
    elif schema.get("type") != "object":
        yield f"{where}.custom.input_schema.type: Input should be 'object'"
    elif any(keyword in schema for keyword in ("oneOf", "allOf", "anyOf")):
        yield (f"{where}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level")
    elif not all(_KEY.match(name) for name in schema.get("properties") or ()):
        yield (f"{where}.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'")


def _tool_choice(body: Body, _: Terms) -> Iterator[str]:
    choice = body.get("tool_choice")
    if choice is None:
        return
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind not in _CHOICES:
        yield f"tool_choice: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    if not body.get("tools"):
        yield "tool_choice: tool_choice may only be specified while providing tools."
    if kind == "none" and "disable_parallel_tool_use" in choice:
        yield "tool_choice.none.disable_parallel_tool_use: Extra inputs are not permitted"
    if kind == "tool" and choice.get("name") not in [tool["name"] for tool in body["tools"]]:
        yield f"Tool '{choice.get('name')}' not found in provided tools"
    if kind in ("any", "tool") and body["model"].startswith(_NEVER_FORCED):
        yield f"tool_choice: forcing tool use is not supported on {body['model']}. Use 'auto' or 'none'."


# ---------------------------------------------------------------- messages


def _system(body: Body, _: Terms) -> Iterator[str]:
    system = body.get("system", "x")
    if not isinstance(system, str | list):
        yield "system: Input should be a valid list"
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    for place, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            yield f"system.{place}: Input should be a text block"
        yield from _text(block, "system")


def _turns(body: Body, terms: Terms) -> Iterator[str]:
    messages = body["messages"]
    if not isinstance(messages, list) or not messages:
        yield "messages: at least one message is required"
    before = ""
    for place, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant", "system"):
            yield f"messages.{place}.role: Input should be 'user' or 'assistant'"
        if role == "system":
            yield from _mid_system(messages, place, terms)
        if not place and role != "user":
            yield 'messages: first message must use the "user" role'
        if role == before:
            yield (
                'messages: roles must alternate between "user" and "assistant", '
                f'but found multiple "{role}" roles in a row'
            )
        before = str(role)
        content = message.get("content")
        if not isinstance(content, str | list):
            yield f"messages.{place}.content: Input should be a valid list"
        if not content:
            yield f"messages.{place}: all messages must have non-empty content"
        blocks = blocks_of(message)
        for index, block in enumerate(blocks):
            yield from _block(block, str(role), f"messages.{place}.content.{index}")
        if message is messages[-1] and role == "assistant" and blocks[-1].get("text", "x")[-1].isspace():
            yield "messages: final assistant content cannot end with trailing whitespace"


def _mid_system(messages: Sequence[Any], place: int, terms: Terms) -> Iterator[str]:
    if not terms.mid_system:
        yield "messages: role 'system' is not supported on this model"
    after = messages[place + 1] if place + 1 < len(messages) else None
    if not place or messages[place - 1]["role"] != "user":
        yield f"messages.{place}: a system message must follow a user message"
    if after is not None and after["role"] != "assistant":
        yield f"messages.{place}: a system message must be last or be followed by an assistant message"


def blocks_of(message: Any) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _block(block: Any, role: str, where: str) -> Iterator[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    kinds = {"user": _USER_BLOCKS, "assistant": _ASSISTANT_BLOCKS, "system": _SYSTEM_BLOCKS}[role]
    if kind not in kinds and not (role == "assistant" and str(kind).endswith(_SERVER_RESULT)):
        yield f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags of a {role}"
    if kind in _THINKING and "cache_control" in block:
        yield f"{where}.{kind}.cache_control: Extra inputs are not permitted"
    check = _BLOCKS.get(str(kind))
    if check is not None:
        yield from check(block, where)


def _text(block: Body, where: str) -> Iterator[str]:
    text = block.get("text")
    if not isinstance(text, str):
        yield f"{where}.text.text: Input should be a valid string"
    elif not text:
        yield f"{where.partition('.')[0]}: text content blocks must be non-empty"
    elif text.isspace():
        yield f"{where.partition('.')[0]}: text content blocks must contain non-whitespace text"
    for name in block:
        if name not in ("type", "text", "cache_control", "citations"):
            yield f"{where}.text.{name}: Extra inputs are not permitted"


def _image(block: Body, where: str) -> Iterator[str]:
    source = block.get("source", {})
    kind = source.get("type")
    if kind == "base64" and source.get("media_type") not in _IMAGES:
        yield f"{where}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or ..."
    elif kind == "base64" and not source.get("data"):
        yield f"{where}.image.source.base64: image cannot be empty"
    elif kind == "url" and not str(source.get("url", "")).startswith("https://"):
        yield f"{where}.image.source.url.url: Only HTTPS URLs are supported."
    elif kind not in ("base64", "url", "file"):
        yield f"{where}.image.source: Input tag '{kind}' does not match any of the expected tags"


def _document(block: Body, where: str) -> Iterator[str]:
    if block.get("source", {}).get("type") not in ("base64", "text", "content", "url", "file"):
        yield f"{where}.document.source: Input tag does not match any of the expected tags"


def _tool_use(block: Body, where: str) -> Iterator[str]:
    if not _ID.match(str(block.get("id", ""))):
        yield f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not _NAME.match(str(block.get("name", ""))):
        yield f"{where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if not isinstance(block.get("input"), dict):
        yield f"{where}.tool_use.input: Input should be a valid dictionary"


def _tool_result(block: Body, where: str) -> Iterator[str]:
    if not isinstance(block.get("tool_use_id"), str):
        yield f"{where}.tool_result.tool_use_id: Field required"
    content = block.get("content", "")
    if block.get("is_error") and not content:
        yield f"{where}.tool_result: content cannot be empty if `is_error` is true"
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        yield f"{where}.tool_result.content: Input should be a valid list"
    kinds = {part.get("type") for part in content}
    for kind in kinds - _RESULT_BLOCKS:
        yield f"{where}.tool_result.content: Input tag '{kind}' does not match any of the expected tags"
    if "tool_reference" in kinds and len(kinds) > 1:
        yield f"{where}.tool_result: tool_reference blocks cannot be mixed with other content"
    for index, part in enumerate(content):
        check = _BLOCKS.get(part["type"])
        if check is not None:
            yield from check(part, f"{where}.tool_result.content.{index}")


_BLOCKS: dict[str, Callable[[Any, str], Iterator[str]]] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
}


def _answers(body: Body, _: Terms) -> Iterator[str]:
    """Checks that each call has one result at the start of the next message, and that there are no other results."""
    open_calls: list[str] = []
    used: set[str] = set()
    for place, message in enumerate(body["messages"]):
        blocks = blocks_of(message)
        yield from _results(open_calls, blocks, place)
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for call in open_calls:
            if call in used or open_calls.count(call) > 1:
                yield f"messages.{place}: `tool_use` ids must be unique"
        used.update(open_calls)
    yield from _results(open_calls, [], len(body["messages"]))


def _results(open_calls: list[str], blocks: list[Any], place: int) -> Iterator[str]:
    leading = 0
    while leading < len(blocks) and blocks[leading]["type"] == "tool_result":
        leading += 1
    answered_calls = [block["tool_use_id"] for block in blocks[:leading]]
    missing = [call for call in open_calls if call not in answered_calls]
    if missing:
        yield (
            f"messages.{place - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message."
        )
    for index, block in enumerate(blocks):
        if block["type"] != "tool_result":
            continue
        call = block["tool_use_id"]
        if call not in open_calls or index >= leading:
            yield (
                f"messages.{place}.content.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {call}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if answered_calls.count(call) > 1:
            yield (
                f"messages.{place}.content.{index}: each tool_use must have a single result. Found multiple "
                f"`tool_result` blocks with id: {call}"
            )


def _references(body: Body, _: Terms) -> Iterator[str]:
    offered = {tool["name"] for tool in body.get("tools", [])}
    for message in body["messages"]:
        for block in blocks_of(message):
            content = block.get("content") if block["type"] == "tool_result" else None
            for part in content if isinstance(content, list) else []:
                if part["type"] == "tool_reference" and part.get("tool_name") not in offered:
                    yield f"Tool reference '{part.get('tool_name')}' has no corresponding tool definition"
            changed = block.get("tool", {}).get("name") if block["type"] in ("tool_addition", "tool_removal") else ""
            if changed != "" and changed not in offered:
                yield f"Tool reference '{changed}' could not be resolved to a tool declared in `tools`."


def _thoughts(body: Body, terms: Terms) -> Iterator[str]:
    """Checks that thinking is returned as it was signed, and that with a budget it precedes the last calls."""
    last: tuple[int, list[Any]] | None = None
    for place, message in enumerate(body["messages"]):
        blocks = blocks_of(message)
        if message["role"] == "assistant":
            last = place, blocks
        for index, block in enumerate(blocks):
            if block["type"] in _THINKING:
                yield from _signature(block, f"messages.{place}.content.{index}", terms)
    if last is None or body.get("thinking", {}).get("type") != "enabled":
        return
    place, blocks = last
    first = blocks[0]["type"]
    if first not in _THINKING and any(block["type"] == "tool_use" for block in blocks):
        yield (
            f"messages.{place}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{first}`. When "
            "`thinking` is enabled, a final `assistant` message must start with a thinking block (preceding the lastmost "
            "set of `tool_use` and `tool_result` blocks)."
        )


def _signature(block: Body, where: str, terms: Terms) -> Iterator[str]:
    hidden = block["type"] == "redacted_thinking"
    thought, signature = ("", block.get("data")) if hidden else (block.get("thinking"), block.get("signature"))
    if signature is None:
        yield f"{where}.{block['type']}.{'data' if hidden else 'signature'}: Field required"
    elif terms.signed is not None and terms.signed.get(signature) != thought:
        yield f"{where}: Invalid `{'data' if hidden else 'signature'}` in `{block['type']}` block"


def _marks(body: Body, _: Terms) -> Iterator[str]:
    marks = sum(_marked(body.get(name)) for name in ("tools", "system", "messages")) + ("cache_control" in body)
    if marks > _MAX_MARKS:
        yield f"A maximum of {_MAX_MARKS} blocks with cache_control may be provided. Found {marks}."


def _marked(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_marked, value))
    if not isinstance(value, dict):
        return 0
    return ("cache_control" in value) + _marked(value.get("content"))


_CHECKS: tuple[Callable[[Body, Terms], Iterator[str]], ...] = (
    _top,
    _tools,
    _tool_choice,
    _thinking,
    _output,
    _system,
    _turns,
    _answers,
    _references,
    _thoughts,
    _marks,
)
"""The checks in their order: each one relies on what the checks before it have made sure of."""
