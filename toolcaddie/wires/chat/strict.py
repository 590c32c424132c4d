"""Checks of a chat-completions request, as far as it concerns tools, as strict as OpenAI's and with OpenAI's error texts. The
scripted servers of tests use them to refuse what the real server would refuse.

Unknown top-level fields are accepted, because newer models bring new fields and a gateway must pass them on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Refusal = dict[str, Any]
"""The provider's error body: `{"error": {message, type, param, code}}`."""

_MAX_TOOLS = 128
_MAX_CALL_ID = 40
_MAX_NAME = 64
_NAME = re.compile(r"[a-zA-Z0-9_-]+\Z")
_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_CHOICES = ("none", "auto", "required")


def complaint(body: Any) -> Refusal | None:
    """Returns the error body with which the real server would answer (status 400); None: the request is valid."""
    if not isinstance(body, dict):
        return refusal("We could not parse the JSON body of your request.")
    for check in _CHECKS:
        for error in check(body):
            return error
    return None


def refusal(message: str, *, param: str | None = None, code: str | None = None) -> Refusal:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def _model(body: dict[str, Any]) -> Iterator[Refusal]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield refusal("you must provide a model parameter")


def _stream(body: dict[str, Any]) -> Iterator[Refusal]:
    if not isinstance(body.get("stream"), bool | None):
        yield wrong_type("stream", "a boolean", body["stream"])
    if body.get("stream_options") is not None and not body.get("stream"):
        yield refusal(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )


def _messages(body: dict[str, Any]) -> Iterator[Refusal]:
    if "messages" not in body:
        yield refusal("Missing required parameter: 'messages'.", param="messages", code="missing_required_parameter")
        return
    messages = body["messages"]
    if not isinstance(messages, list):
        yield wrong_type("messages", "an array of objects", messages)
    elif not messages:
        yield _empty_array("messages")
    else:
        for position, message in enumerate(messages):
            yield from _message(message, f"messages[{position}]")


def _message(message: Any, where: str) -> Iterator[Refusal]:
    if not isinstance(message, dict):
        yield wrong_type(where, "an object", message)
        return
    role = message.get("role")
    if role not in _ROLES:
        listed = ", ".join(f"'{each}'" for each in _ROLES[:-1])
        yield refusal(
            f"Invalid value: '{role}'. Supported values are: {listed}, and '{_ROLES[-1]}'.",
            param=f"{where}.role",
            code="invalid_value",
        )
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield missing(f"{where}.tool_call_id")
    if "tool_calls" in message:
        yield from _calls(message["tool_calls"], f"{where}.tool_calls")
    elif not isinstance(message.get("content"), str | list):
        yield refusal("Invalid value for 'content': expected a string, got null.", param=f"{where}.content")


def _calls(calls: Any, where: str) -> Iterator[Refusal]:
    if not isinstance(calls, list):
        yield wrong_type(where, "an array of objects", calls)
        return
    if not calls:
        yield _empty_array(where)
    for position, each in enumerate(calls):
        yield from _call(each, f"{where}[{position}]")
    yield from _repeated_ids(calls, where)


def _call(each: Any, where: str) -> Iterator[Refusal]:
    if not isinstance(each, dict):
        yield wrong_type(where, "an object", each)
        return
    function = each.get("function")
    if not isinstance(each.get("id"), str):
        yield missing(f"{where}.id")
    elif len(each["id"]) > _MAX_CALL_ID:
        yield too_long(f"{where}.id", _MAX_CALL_ID, each["id"])
    if each.get("type") not in ("function", "custom"):
        yield missing(f"{where}.type")
    elif each["type"] == "function" and not isinstance(function, dict):
        yield missing(f"{where}.function")
    elif isinstance(function, dict):
        for field in ("name", "arguments"):
            if not isinstance(function.get(field), str):
                yield wrong_type(f"{where}.function.{field}", "a string", function.get(field))


def _repeated_ids(calls: list[dict[str, Any]], where: str) -> Iterator[Refusal]:
    seen: set[str] = set()
    for each in calls:
        if each["id"] in seen:
            yield refusal(f"Duplicate value for 'tool_call_id' of '{each['id']}' in '{where}'.", param=where)
        seen.add(each["id"])


def _answers(body: dict[str, Any]) -> Iterator[Refusal]:
    """Checks that a tool message answers a call of the assistant message before it, and that every call is answered at once."""
    open_ids: list[str] = []
    for position, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_ids:
                yield _stray_answer(position)
                return
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            yield _unanswered(position, open_ids)
            return
        open_ids = [each["id"] for each in message.get("tool_calls") or ()]
    if open_ids:
        yield _unanswered(len(body["messages"]), open_ids)


def _stray_answer(position: int) -> Refusal:
    return refusal(
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        param=f"messages.[{position}].role",
    )


def _unanswered(position: int, ids: list[str]) -> Refusal:
    return refusal(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(ids)}",
        param=f"messages.[{position}].role",
    )


def _tools(body: dict[str, Any]) -> Iterator[Refusal]:
    if "tools" not in body:
        return
    tools = body["tools"]
    if not isinstance(tools, list):
        yield wrong_type("tools", "an array of objects", tools)
    elif not tools:
        yield _empty_array("tools")
    elif len(tools) > _MAX_TOOLS:
        yield refusal(
            f"Invalid 'tools': array too long. Expected an array with maximum length {_MAX_TOOLS}, "
            f"but got an array with length {len(tools)} instead.",
            param="tools",
            code="array_above_max_length",
        )
    else:
        yield from _each_tool(tools)


def _each_tool(tools: list[Any]) -> Iterator[Refusal]:
    seen: set[str] = set()
    for position, tool in enumerate(tools):
        where = f"tools[{position}]"
        if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
            yield missing(f"{where}.type")
        elif tool["type"] == "function":
            yield from _function(tool.get("function"), f"{where}.function")
            if tool["function"]["name"] in seen:
                yield refusal(f"Invalid 'tools': tool names must be unique, but '{tool['function']['name']}' repeats.")
            seen.add(tool["function"]["name"])


def _function(function: Any, where: str) -> Iterator[Refusal]:
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        yield missing(f"{where}.name")
        return
    name = function["name"]
    if len(name) > _MAX_NAME:
        yield too_long(f"{where}.name", _MAX_NAME, name)
    if not _NAME.match(name):
        yield refusal(
            f"Invalid '{where}.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            param=f"{where}.name",
            code="invalid_value",
        )
    if not isinstance(function.get("description"), str | None):
        yield wrong_type(f"{where}.description", "a string", function["description"])
    yield from _parameters(name, function.get("parameters"), f"{where}.parameters")


def _parameters(name: str, schema: Any, where: str) -> Iterator[Refusal]:
    if schema is None:
        return
    if not isinstance(schema, dict):
        yield wrong_type(where, "an object", schema)
    elif schema and schema.get("type") != "object":
        yield refusal(
            f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', "
            f"got 'type: \"{schema.get('type')}\"'.",
            param=where,
            code="invalid_function_parameters",
        )


def _tool_choice(body: dict[str, Any]) -> Iterator[Refusal]:
    if "tools" not in body:
        for field in ("tool_choice", "parallel_tool_calls"):
            if body.get(field) is not None:
                yield refusal(
                    f"Invalid value for '{field}': '{field}' is only allowed when 'tools' are specified.", param=field
                )
        return
    choice = body.get("tool_choice")
    offered = {tool["function"]["name"] for tool in body["tools"] if tool["type"] == "function"}
    for name in _function_names(choice):
        if name not in offered:
            yield refusal(
                f"Invalid value for 'tool_choice': no function named '{name}' was specified in the 'tools' parameter.",
                param="tool_choice",
            )
    if not isinstance(choice, str | Mapping | None):
        yield wrong_type("tool_choice", "one of 'none', 'auto', 'required' or an object", choice)
    if isinstance(choice, str) and choice not in _CHOICES:
        yield refusal(
            f"Invalid value: '{choice}'. Supported values are: 'none', 'auto', and 'required'.",
            param="tool_choice",
            code="invalid_value",
        )


def _function_names(choice: Any) -> Iterator[Any]:
    """Yields the names in `tool_choice`: of one function, or of the allowed ones."""
    if not isinstance(choice, Mapping):
        return
    if choice.get("type") == "function":
        yield (choice.get("function") or {}).get("name")
    for tool in (choice.get("allowed_tools") or {}).get("tools", ()):
        yield (tool.get("function") or {}).get("name")


def missing(param: str) -> Refusal:
    return refusal(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")


def _empty_array(param: str) -> Refusal:
    return refusal(
        f"Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        param=param,
        code="empty_array",
    )


def too_long(param: str, limit: int, value: str) -> Refusal:
    return refusal(
        f"Invalid '{param}': string too long. Expected a string with maximum length {limit}, "
        f"but got a string with length {len(value)} instead.",
        param=param,
        code="string_above_max_length",
    )


def wrong_type(param: str, expected: str, value: Any) -> Refusal:
    return refusal(
        f"Invalid type for '{param}': expected {expected}, but got {type(value).__name__} instead.",
        param=param,
        code="invalid_type",
    )


_CHECKS: tuple[Callable[[dict[str, Any]], Iterator[Refusal]], ...] = (
    _model,
    _stream,
    _messages,
    _answers,
    _tools,
    _tool_choice,
)
"""The checks in their order: each one relies on what the checks before it have made sure of."""
