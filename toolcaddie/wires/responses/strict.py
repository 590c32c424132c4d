"""Checks of a Responses request, as far as it concerns tools, as strict as OpenAI's and with OpenAI's error texts. The scripted
servers of tests use them to refuse what the real server would refuse.

Unlike chat completions, this API refuses unknown parameters. A scripted server stores nothing, so it refuses requests that refer
to an earlier answer by its id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from toolcaddie.wires.chat.strict import Refusal, missing, refusal, too_long, wrong_type

_MAX_TOOLS = 128
_MAX_CALL_ID = 64
_MAX_NAME = 128
_LEAST_OUTPUT = 16
_NAME = re.compile(r"[a-zA-Z0-9_-]+\Z")
_MOVED = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
    "messages": "input",
    "functions": "tools",
}
_PARAMETERS = frozenset(
    [
        "background",
        "client_metadata",
        "context_management",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "moderation",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    ]
)
_INCLUDED = frozenset(
    [
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
        "reasoning.encrypted_content",
        "message.output_text.logprobs",
    ]
)
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_CHOICES = ("none", "auto", "required")
_ROLES = ("assistant", "system", "developer", "user")
_FIELDS = {
    "message": {"type", "role", "content", "id", "status", "phase"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
    "function_call": {"type", "id", "call_id", "name", "arguments", "namespace", "status", "caller", "async"},
    "function_call_output": {"type", "id", "call_id", "output", "name", "namespace", "status", "caller"},
    "custom_tool_call": {"type", "id", "call_id", "name", "input", "namespace", "status", "caller"},
    "custom_tool_call_output": {"type", "id", "call_id", "output", "name", "namespace", "status", "caller"},
    "tool_search_call": {"type", "id", "call_id", "execution", "arguments", "status"},
    "tool_search_output": {"type", "id", "call_id", "execution", "tools", "status"},
    "additional_tools": {"type", "id", "role", "tools"},
    "item_reference": {"type", "id"},
}
"""Fields of items, by the types that are known here."""
_PARTS = {
    "input_text": {"type", "text", "prompt_cache_breakpoint"},
    "input_image": {"type", "image_url", "file_id", "detail", "prompt_cache_breakpoint"},
    "input_file": {"type", "file_id", "file_url", "file_data", "filename", "detail", "prompt_cache_breakpoint"},
    "output_text": {"type", "text", "annotations", "logprobs"},
    "refusal": {"type", "refusal"},
}
_TOOL_FIELDS = frozenset(
    [
        "type",
        "name",
        "description",
        "parameters",
        "strict",
        "defer_loading",
        "allowed_callers",
        "output_schema",
        "async",
    ]
)
_CUSTOM_FIELDS = frozenset({"type", "name", "description", "format", "defer_loading", "allowed_callers"})
_OWN_TOOLS = frozenset(
    [
        "file_search",
        "web_search",
        "web_search_preview",
        "code_interpreter",
        "image_generation",
        "mcp",
        "tool_search",
        "computer",
        "shell",
        "local_shell",
    ]
)


def complaint(body: Any) -> Refusal | None:
    """Returns the error body with which the real server would answer (status 400); None: the request is valid."""
    if not isinstance(body, dict):
        return refusal("We could not parse the JSON body of your request.")
    for check in _CHECKS:
        for error in check(body):
            return error
    return None


def loaded_by(body: dict[str, Any]) -> set[str]:
    """Returns the names of the functions that items in the input (`additional_tools`) add to the tools."""
    tools = [
        tool
        for item in _items(body)
        if item.get("type") in ("additional_tools", "tool_search_output")
        for tool in item.get("tools", ())
    ]
    return {tool["name"] for tool in tools if tool.get("type") == "function"} | names_of(tools)


def names_of(tools: Any) -> set[str]:
    """Returns the names of the tools that belong to a namespace, as `namespace.name`."""
    groups = [tool for tool in tools or () if tool.get("type") == "namespace"]
    return {f"{group['name']}.{member['name']}" for group in groups for member in group["tools"]}


def custom_names(body: dict[str, Any]) -> set[str]:
    """Returns the names of the `custom` tools, those of a namespace as `namespace.name`."""
    tools = [*(body.get("tools") or ()), *(tool for item in _items(body) for tool in item.get("tools") or ())]
    groups = [tool for tool in tools if tool.get("type") == "namespace"]
    members = {f"{g['name']}.{each['name']}" for g in groups for each in g["tools"] if each["type"] == "custom"}
    return members | {tool["name"] for tool in tools if tool.get("type") == "custom"}


def _items(body: dict[str, Any]) -> list[dict[str, Any]]:
    return body["input"] if isinstance(body["input"], list) else []


# ---------------------------------------------------------------- the request


def _parameters(body: dict[str, Any]) -> Iterator[Refusal]:
    for name in body:
        if name in _MOVED:
            yield refusal(
                f"Unsupported parameter: '{name}'. In the Responses API, this parameter has moved to '{_MOVED[name]}'. "
                "Try again with the new parameter.",
                param=name,
                code="unsupported_parameter",
            )
        elif name not in _PARAMETERS:
            yield _unknown(name)
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield missing("model")


def _settings(body: dict[str, Any]) -> Iterator[Refusal]:
    for name in ("stream", "store", "parallel_tool_calls"):
        if not isinstance(body.get(name), bool | None):
            yield wrong_type(name, "a boolean", body[name])
    if body.get("stream_options") is not None:
        if not body.get("stream"):
            yield refusal(
                "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
            )
        yield from _only(body["stream_options"], {"include_obfuscation"}, "stream_options")
    for position, name in enumerate(body.get("include") or ()):
        if name not in _INCLUDED:
            yield _no_value(f"include[{position}]", name, sorted(_INCLUDED))
    effort = (body.get("reasoning") or {}).get("effort")
    if effort is not None and effort not in _EFFORTS:
        yield _no_value("reasoning.effort", effort, _EFFORTS)
    limit = body.get("max_output_tokens")
    if limit is not None and limit < _LEAST_OUTPUT:
        yield refusal(
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {_LEAST_OUTPUT}, "
            f"but got {limit} instead.",
            param="max_output_tokens",
            code="integer_below_min_value",
        )
    earlier = body.get("previous_response_id")
    if earlier is not None:
        yield refusal(
            f"Previous response with id '{earlier}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    yield from _text(body.get("text"))


def _text(text: Any) -> Iterator[Refusal]:
    if text is None:
        return
    yield from _only(text, {"format", "verbosity"}, "text")
    form = text.get("format")
    if form is None:
        return
    if not isinstance(form, dict) or form.get("type") not in ("text", "json_object", "json_schema"):
        yield missing("text.format.type")
    elif form["type"] == "json_schema":
        yield from _only(form, {"type", "name", "schema", "strict", "description"}, "text.format")
        for name in ("name", "schema"):
            if name not in form:
                yield missing(f"text.format.{name}")


# ---------------------------------------------------------------- the input


def _input(body: dict[str, Any]) -> Iterator[Refusal]:
    items = body.get("input")
    if items is None:
        yield missing("input")
    elif not isinstance(items, str | list):
        yield wrong_type("input", "one of a string or array of input items", items)
    elif not items:
        yield refusal("One of 'input' or 'previous_response_id' or 'prompt' must be provided.", param="input")
    elif isinstance(items, list):
        for position, item in enumerate(items):
            yield from _item(item, f"input[{position}]")


def _item(item: Any, where: str) -> Iterator[Refusal]:
    if not isinstance(item, dict):
        yield wrong_type(where, "an object", item)
        return
    kind = item.get("type", "message" if "role" in item else None)
    if kind not in _FIELDS:
        yield _no_value(f"{where}.type", kind, tuple(_FIELDS))
        return
    yield from _only(item, _FIELDS[kind], where)
    yield from _ITEMS[kind](item, where)


def _message(item: dict[str, Any], where: str) -> Iterator[Refusal]:
    role = item.get("role")
    if role not in _ROLES:
        yield _no_value(f"{where}.role", role, _ROLES)
    parts = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
    yield from _content(item.get("content"), parts, f"{where}.content")


def _content(content: Any, kinds: tuple[str, ...], where: str) -> Iterator[Refusal]:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        yield wrong_type(where, "one of an array of objects or string", content)
        return
    for position, part in enumerate(content):
        here = f"{where}[{position}]"
        if not isinstance(part, dict) or part.get("type") not in kinds:
            yield _no_value(here, part.get("type") if isinstance(part, dict) else part, kinds)
            return
        yield from _only(part, _PARTS[part["type"]], here)
        for name in ("text", "refusal"):
            if part["type"].endswith(name) and not isinstance(part.get(name), str):
                yield missing(f"{here}.{name}")
        if part["type"] == "input_image" and not any(isinstance(part.get(n), str) for n in ("image_url", "file_id")):
            yield missing(f"{here}.image_url")


def _reasoning(item: dict[str, Any], where: str) -> Iterator[Refusal]:
    if not isinstance(item.get("summary"), list):
        yield missing(f"{where}.summary")
    if not isinstance(item.get("encrypted_content"), str):
        yield _not_found(item)


def _call(item: dict[str, Any], where: str) -> Iterator[Refusal]:
    yield from _call_id(item, where)
    for name in ("name", "arguments" if item["type"] == "function_call" else "input"):
        if not isinstance(item.get(name), str):
            yield missing(f"{where}.{name}")
            return
    yield from _name(item["name"], f"{where}.name")


def _output(item: dict[str, Any], where: str) -> Iterator[Refusal]:
    yield from _call_id(item, where)
    if "output" not in item:
        yield missing(f"{where}.output")
        return
    yield from _content(item["output"], ("input_text", "input_image", "input_file"), f"{where}.output")


def _call_id(item: dict[str, Any], where: str) -> Iterator[Refusal]:
    call_id = item.get("call_id")
    if not isinstance(call_id, str):
        yield missing(f"{where}.call_id")
    elif not call_id:
        yield refusal(
            f"Invalid '{where}.call_id': empty string. Expected a string with minimum length 1, "
            "but got an empty string instead.",
            param=f"{where}.call_id",
            code="empty_string",
        )
    elif len(call_id) > _MAX_CALL_ID:
        yield too_long(f"{where}.call_id", _MAX_CALL_ID, call_id)


def _search_call(item: dict[str, Any], where: str) -> Iterator[Refusal]:
    if not isinstance(item.get("arguments"), dict):
        yield missing(f"{where}.arguments")


def _search_output(item: dict[str, Any], where: str) -> Iterator[Refusal]:
    yield from _tool_list(item.get("tools"), f"{where}.tools")


def _additional(item: dict[str, Any], where: str) -> Iterator[Refusal]:
    if item.get("role") != "developer":
        yield _no_value(f"{where}.role", item.get("role"), ("developer",))
    yield from _tool_list(item.get("tools"), f"{where}.tools")


def _reference(item: dict[str, Any], where: str) -> Iterator[Refusal]:
    yield _not_found(item)


def _not_found(item: dict[str, Any]) -> Refusal:
    return refusal(
        f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false. "
        "Try again with `store` set to true, or remove this item from your input.",
        param="input",
    )


_ITEMS: dict[str, Callable[[dict[str, Any], str], Iterator[Refusal]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call,
    "function_call_output": _output,
    "custom_tool_call": _call,
    "custom_tool_call_output": _output,
    "tool_search_call": _search_call,
    "tool_search_output": _search_output,
    "additional_tools": _additional,
    "item_reference": _reference,
}


def _pairs(body: dict[str, Any]) -> Iterator[Refusal]:
    """Checks that every output has a call before it, and every call an output after it."""
    open_ids: dict[str, str] = {}
    seen: set[str] = set()
    for item in _items(body):
        kind, call_id = str(item.get("type")), item.get("call_id")
        if item.get("execution") == "server":
            continue
        if kind in _OUTPUTS:
            if call_id in seen:
                yield refusal(f"Duplicate function call with call_id {call_id}.", param="input")
            seen.add(str(call_id))
            open_ids[str(call_id)] = _OUTPUTS[kind]
        elif kind in _OUTPUTS.values():
            if open_ids.get(str(call_id)) != kind:
                words = _OUTPUT_WORDS[kind]
                yield refusal(f"No tool call found for {words} output with call_id {call_id}.", param="input")
            open_ids.pop(str(call_id), None)
    for call_id, kind in open_ids.items():
        yield refusal(f"No tool output found for {_OUTPUT_WORDS[kind]} {call_id}.", param="input")


_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
_OUTPUT_WORDS = {
    "function_call_output": "function call",
    "custom_tool_call_output": "custom tool call",
    "tool_search_output": "tool search call",
}


def _reasoning_items(body: dict[str, Any]) -> Iterator[Refusal]:
    """Checks that reasoning is followed by an item of the same answer."""
    for item, after in pairwise([*_items(body), {}]):
        led_to = after.get("type", "message"), after.get("role", "assistant")
        if item.get("type") == "reasoning" and (not after or led_to[1] != "assistant" or "output" in led_to[0]):
            yield refusal(
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.",
                param="input",
            )


# ---------------------------------------------------------------- tools


def _tools(body: dict[str, Any]) -> Iterator[Refusal]:
    tools = body.get("tools")
    if tools is None:
        return
    yield from _tool_list(tools, "tools")
    if len(tools) > _MAX_TOOLS:
        yield refusal(
            f"Invalid 'tools': array too long. Expected an array with maximum length {_MAX_TOOLS}, "
            f"but got an array with length {len(tools)} instead.",
            param="tools",
            code="array_above_max_length",
        )
    searchable = any(tool.get("defer_loading") for tool in tools)
    if searchable and not any(tool["type"] == "tool_search" for tool in tools):
        yield refusal("Tools with 'defer_loading' require a tool of type 'tool_search'.", param="tools")
    offered = {tool["name"] for tool in tools if tool["type"] == "function"}
    twice = (offered | names_of(tools)) & loaded_by(body)
    if twice:
        yield refusal(f"Tool names must be unique, but '{min(twice)}' is defined again in the input.", param="input")


def _tool_list(tools: Any, where: str) -> Iterator[Refusal]:
    if not isinstance(tools, list):
        yield wrong_type(where, "an array of objects", tools)
        return
    seen: set[str] = set()
    for position, tool in enumerate(tools):
        here = f"{where}[{position}]"
        if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
            yield missing(f"{here}.type")
            return
        if tool["type"] in _OWN_TOOLS:
            continue
        if tool["type"] not in ("function", "custom", "namespace"):
            yield _no_value(f"{here}.type", tool["type"], ("function", "custom", "namespace", *sorted(_OWN_TOOLS)))
        yield from _CHECKED_TOOLS[tool["type"]](tool, here)
        if tool["name"] in seen:
            yield refusal(f"Invalid '{where}': tool names must be unique, but '{tool['name']}' repeats.", param=where)
        seen.add(tool["name"])


def _custom(tool: dict[str, Any], where: str) -> Iterator[Refusal]:
    if not isinstance(tool.get("name"), str):
        yield missing(f"{where}.name")
        return
    yield from _only(tool, _CUSTOM_FIELDS, where)
    yield from _name(tool["name"], f"{where}.name")


def _namespace(tool: dict[str, Any], where: str) -> Iterator[Refusal]:
    for name in ("name", "description", "tools"):
        if name not in tool:
            yield missing(f"{where}.{name}")
            return
    yield from _only(tool, {"type", "name", "description", "tools"}, where)
    if not tool["tools"]:
        yield refusal(
            f"Invalid '{where}.tools': empty array. Expected an array with minimum length 1, but got an empty array "
            "instead.",
            param=f"{where}.tools",
            code="empty_array",
        )
    for position, member in enumerate(tool["tools"]):
        if isinstance(member, dict) and member.get("type") not in ("function", "custom"):
            yield _no_value(f"{where}.tools[{position}].type", member.get("type"), ("function", "custom"))
    yield from _tool_list(tool["tools"], f"{where}.tools")


def _function(tool: dict[str, Any], where: str) -> Iterator[Refusal]:
    if not isinstance(tool.get("name"), str):
        yield missing(f"{where}.name")
        return
    yield from _only(tool, _TOOL_FIELDS, where)
    yield from _name(tool["name"], f"{where}.name")
    schema = tool.get("parameters")
    if schema is None:
        return
    if not isinstance(schema, dict):
        yield wrong_type(f"{where}.parameters", "an object", schema)
    elif schema.get("type") != "object":
        yield _bad_schema(
            tool, f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'.", where
        )
    elif tool.get("strict") and schema.get("additionalProperties") is not False:
        yield _bad_schema(
            tool, "In context=(), 'additionalProperties' is required to be supplied and to be false.", where
        )
    elif tool.get("strict") and set(schema.get("required", ())) != set(schema.get("properties", ())):
        yield _bad_schema(
            tool, "In context=(), 'required' is required to be supplied and to include every property.", where
        )


def _bad_schema(tool: dict[str, Any], why: str, where: str) -> Refusal:
    return refusal(
        f"Invalid schema for function '{tool['name']}': {why}",
        param=f"{where}.parameters",
        code="invalid_function_parameters",
    )


def _name(name: str, where: str) -> Iterator[Refusal]:
    if len(name) > _MAX_NAME:
        yield too_long(where, _MAX_NAME, name)
    if not _NAME.match(name):
        yield refusal(
            f"Invalid '{where}': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            param=where,
            code="invalid_value",
        )


def _tool_choice(body: dict[str, Any]) -> Iterator[Refusal]:
    choice = body.get("tool_choice")
    tools = body.get("tools") or []
    offered = {tool["name"] for tool in tools if tool["type"] in ("function", "custom")} | loaded_by(body)
    offered |= {name.partition(".")[2] for name in names_of(tools) | offered if "." in name}
    if choice is None:
        return
    if isinstance(choice, str):
        if choice not in _CHOICES:
            yield _no_value("tool_choice", choice, _CHOICES)
        if choice == "required" and not tools and not offered:
            yield refusal("Tool choice 'required' must be specified with 'tools' parameter.", param="tool_choice")
        return
    if choice.get("type") not in ("function", "custom", "allowed_tools"):
        yield _no_value("tool_choice.type", choice.get("type"), ("function", "custom", "allowed_tools"))
    functions = [choice]
    if choice["type"] == "allowed_tools":
        yield from _only(choice, {"type", "mode", "tools"}, "tool_choice")
        if choice.get("mode") not in ("auto", "required"):
            yield missing("tool_choice.mode")
        functions = choice.get("tools") or []
        if not functions:
            yield missing("tool_choice.tools")
    for tool in functions:
        if not isinstance(tool.get("name"), str):
            yield missing("tool_choice.name")
        if tool["name"] not in offered:
            yield refusal(f"Tool choice '{tool['name']}' not found in 'tools' parameter.", param="tool_choice")


# ---------------------------------------------------------------- error messages


def _only(fields: Any, names: set[str] | frozenset[str], where: str) -> Iterator[Refusal]:
    if not isinstance(fields, dict):
        yield wrong_type(where, "an object", fields)
        return
    for name in fields:
        if name not in names:
            yield _unknown(f"{where}.{name}")


def _unknown(param: str) -> Refusal:
    return refusal(f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")


def _no_value(param: str, value: Any, values: Any) -> Refusal:
    listed = ", ".join(f"'{each}'" for each in values)
    return refusal(f"Invalid value: '{value}'. Supported values are: {listed}.", param=param, code="invalid_value")


_CHECKED_TOOLS: dict[str, Callable[[dict[str, Any], str], Iterator[Refusal]]] = {
    "function": _function,
    "custom": _custom,
    "namespace": _namespace,
}

_CHECKS: tuple[Callable[[dict[str, Any]], Iterator[Refusal]], ...] = (
    _parameters,
    _settings,
    _input,
    _pairs,
    _reasoning_items,
    _tools,
    _tool_choice,
)
"""The checks in their order: each one relies on what the checks before it have made sure of."""
