"""Calls of the Responses API that are not calls of plain functions: of tools in a namespace, of `custom` tools, and of a search
for tools that the client runs (`own_forms.py` has the definitions). They are read as calls of functions, and written for the
client in its own form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.wires.bodies import ENCODER
from toolcaddie.wires.responses.own_forms import INPUT, SEARCH, internal_name

FUNCTION_CALL, CUSTOM_CALL, SEARCH_CALL = "function_call", "custom_tool_call", "tool_search_call"
"""Types of calls."""
OUTPUTS = {
    FUNCTION_CALL: "function_call_output",
    CUSTOM_CALL: "custom_tool_call_output",
    SEARCH_CALL: "tool_search_output",
}
"""Types of results, by the types of their calls."""


def is_call(item: JsonObject) -> bool:
    """Returns True for a call that the client answers with a result."""
    kind = item.get("type")
    return kind in (FUNCTION_CALL, CUSTOM_CALL) or (kind == SEARCH_CALL and item.get("execution") == "client")


def call_fields(item: JsonObject, namespaces: Collection[str] | None = None) -> tuple[Any, Any]:
    """Returns the name and the arguments of a call as those of a function. `namespaces`: those of the request; other
    namespaces are the server's own and are ignored. None: all are the client's."""
    match item["type"]:
        case "custom_tool_call":
            return _called_name(item, namespaces), ENCODER.encode({INPUT: item.get("input") or ""}).decode()
        case "tool_search_call":
            return SEARCH, ENCODER.encode(item.get("arguments") or {}).decode()
    return _called_name(item, namespaces), item.get("arguments")


def _called_name(item: JsonObject, namespaces: Collection[str] | None) -> Any:
    name, namespace = item.get("name"), item.get("namespace")
    if not isinstance(name, str) or (namespaces is not None and namespace not in namespaces):
        return name
    return internal_name(namespace, name)


def own_call(item: JsonObject, own_forms: Mapping[str, JsonObject]) -> JsonObject:
    """Returns a call of a function in the client's own form. Other items, and calls that have it already, stay unchanged."""
    own = own_forms.get(item.get("name", "")) if item.get("type") == FUNCTION_CALL else None
    if own is None or item.get("namespace"):
        return item
    kept = {name: value for name, value in item.items() if name not in ("name", "arguments")}
    namespaced = {"namespace": own["name"]} if own["type"] == "namespace" else {}
    member = own["tools"][0] if namespaced else own
    return {**kept, **namespaced, **_WRITERS[member["type"]](member, str(item.get("arguments") or ""))}


def with_arguments(item: JsonObject, arguments: str) -> JsonObject:
    """Returns a call that is not a function's, with the arguments of the function that it became."""
    return {**item, **(_custom_input(arguments) if item["type"] == CUSTOM_CALL else _search_arguments(arguments))}


def _function_fields(member: JsonObject, arguments: str) -> JsonObject:
    return {"name": member["name"], "arguments": arguments}


def _custom_fields(member: JsonObject, arguments: str) -> JsonObject:
    return {"type": CUSTOM_CALL, "name": member["name"], **_custom_input(arguments)}


def _search_fields(member: JsonObject, arguments: str) -> JsonObject:
    return {"type": SEARCH_CALL, "execution": "client", **_search_arguments(arguments)}


def _custom_input(arguments: str) -> JsonObject:
    """Returns the input of a custom tool. A model that ignores the schema and writes the input itself is understood too."""
    decoded = _decoded(arguments)
    text = decoded.get(INPUT) if isinstance(decoded, dict) else None
    return {INPUT: text if isinstance(text, str) else arguments}


def _search_arguments(arguments: str) -> JsonObject:
    decoded = _decoded(arguments)
    return {"arguments": decoded if isinstance(decoded, dict) else {"query": arguments}}


def _decoded(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


_WRITERS: dict[str, Callable[[JsonObject, str], JsonObject]] = {
    "function": _function_fields,
    "custom": _custom_fields,
    SEARCH: _search_fields,
}


def call_of(item: JsonObject) -> ToolCall:
    """Returns a call that a client sent."""
    name, arguments = call_fields(item)
    return ToolCall(id=item["call_id"], name=name, arguments=arguments)
