"""Definitions of the Responses API that are not plain functions: namespaces, which are named groups of tools, `custom` tools,
whose input is text, and the search for tools that the client runs itself (`tool_search`). `own_calls.py` has their calls.

Each of these tools is a function to Toolcaddie and to every other API. `Tool.own_form` keeps the client's own definition. A tool
of a namespace gets a name with the namespace in front, because the names of functions must be unique.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject, Tool
from toolcaddie.util.replacing import replace
from toolcaddie.wires.bodies import ENCODER
from toolcaddie.wires.chat import messages as chat

SEARCH = "tool_search"

_JOINED = "__"
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST = 64
"""The largest length of a name in chat completions."""
_DIGITS = 8
_NAMES = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
INPUT = "input"
"""The only argument of the function that a custom tool becomes."""
_INPUT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {INPUT: {"type": "string", "description": "The whole input of the tool, as plain text."}},
    "required": [INPUT],
    "additionalProperties": False,
}


def internal_name(namespace: Any, name: str) -> str:
    """Returns the unique name of a tool of a namespace, which every API accepts. A name without a namespace stays unchanged, and
    so does a tool that has a namespace of its own: OpenAI's servers make one for each tool that joins a conversation."""
    if not isinstance(namespace, str) or namespace in ("", name):
        return name
    joined = f"{namespace.removesuffix(_JOINED)}{_JOINED}{name}"
    clean = _NO_NAME.sub("_", joined)
    if clean == joined and len(joined) <= _LONGEST:
        return joined
    digest = hashlib.sha256(ENCODER.encode([namespace, name])).hexdigest()[:_DIGITS]
    return f"{clean[: _LONGEST - _DIGITS - 1]}_{digest}"


# ---------------------------------------------------------------- tools of a client


def read_tools(items: Any, bounds: Bounds, where: str = "tools") -> Sequence[Tool]:
    """Returns a client's tools. Raises `RequestError` naming the field at fault."""
    if not isinstance(items, list):
        raise RequestError(f"'{where}' must be an array", param=where)
    pairs = [pair for index, item in enumerate(items) for pair in _forms(item, f"{where}[{index}]")]
    tools = chat.read_tools([function for function, _ in pairs], bounds)
    return [_with_own_form(tool, own) for tool, (_, own) in zip(tools, pairs, strict=True)]


def _with_own_form(tool: Tool, own: JsonObject | None) -> Tool:
    """Returns the tool with the client's own form. Tools that are not functions are always sent, unless they are in a
    namespace."""
    return tool if own is None else replace(tool, own_form=own, core=own["type"] != "namespace")


def _forms(item: Any, where: str) -> Iterator[tuple[Any, JsonObject | None]]:
    """Yields the functions that an item of `tools` becomes, in the format of chat completions, each with its own form; None: it
    is an ordinary function, or a tool that the provider runs itself."""
    match item:
        case {"type": "namespace"}:
            yield from _members(item, where)
        case {"type": "custom"} if "custom" not in item:
            yield _custom_function(item, _name_of(item, where)), item
        case {"type": "tool_search", "execution": "client"}:
            yield _function({**item, "name": SEARCH}, SEARCH), item
        case {"type": "function"} if "function" not in item:
            yield {"type": "function", "function": {k: v for k, v in item.items() if k != "type"}}, None
        case _:
            yield item, None


def _members(group: JsonObject, where: str) -> Iterator[tuple[Any, JsonObject]]:
    namespace, members = _name_of(group, where), group.get("tools")
    if not isinstance(members, list):
        raise RequestError(f"'{where}.tools' must be an array", param=f"{where}.tools")
    for index, member in enumerate(members):
        here = f"{where}.tools[{index}]"
        own = {**group, "tools": [member]}
        match member:
            case {"type": "function"}:
                yield _function(member, internal_name(namespace, _name_of(member, here))), own
            case {"type": "custom"}:
                yield _custom_function(member, internal_name(namespace, _name_of(member, here))), own
            case _:
                raise RequestError(f"'{here}' must be a function or a custom tool", param=here)


def _name_of(item: JsonObject, where: str) -> str:
    name = item.get("name")
    if not isinstance(name, str) or not _NAMES.fullmatch(name):
        raise RequestError(f"'{where}.name' must be a name of at most 128 characters", param=f"{where}.name")
    return name


def _function(item: JsonObject, name: str) -> JsonObject:
    fields = {each: item[each] for each in ("description", "parameters", "strict") if item.get(each) is not None}
    return {"type": "function", "function": {"name": name, **fields}}


def _custom_function(item: JsonObject, name: str) -> JsonObject:
    """Returns a custom tool as a function whose only argument is the input. The description contains the grammar."""
    form, description = item.get("format"), str(item.get("description") or "")
    if isinstance(form, Mapping) and isinstance(form.get("definition"), str):
        syntax = form.get("syntax") or "given"
        description += f"\n\n`{INPUT}` must follow this {syntax} grammar:\n{form['definition']}"
    return {
        "type": "function",
        "function": {"name": name, "description": description.strip(), "parameters": _INPUT_SCHEMA},
    }


# ---------------------------------------------------------------- definitions for a provider of this API


def grouped(forms: Sequence[tuple[str, Any]], own_forms: Mapping[str, JsonObject]) -> list[Any]:
    """Returns definitions in their own forms. `forms`: names and definitions of functions. Tools of one namespace form a group at
    the place of the first."""
    tools: list[Any] = []
    groups: dict[str, list[Any]] = {}
    for name, form in forms:
        own = own_forms.get(name)
        if own is None or own.get("type") != "namespace":
            tools.append(form if own is None else own)
            continue
        if own["name"] not in groups:
            groups[own["name"]] = []
            tools.append({**own, "tools": groups[own["name"]]})
        groups[own["name"]].append(_member_form(own["tools"][0], form))
    return tools


def namespaces_of(own_forms: Mapping[str, JsonObject]) -> frozenset[str]:
    """Returns the names of the namespaces to which these tools belong."""
    return frozenset(own["name"] for own in own_forms.values() if own["type"] == "namespace")


def _member_form(member: JsonObject, form: Any) -> JsonObject:
    """Returns a tool of a namespace. Its description and parameters are those of the function `form`, which may be shorter than
    the client's."""
    if member["type"] != "function":
        return member
    function = msgspec.json.decode(form) if isinstance(form, msgspec.Raw) else form
    return {**member, **function, "name": member["name"]}


def chosen(name: str, own_forms: Mapping[str, JsonObject]) -> JsonObject:
    """Returns a tool as `tool_choice` names it."""
    own = own_forms.get(name)
    if own is None:
        return {"type": "function", "name": name}
    member = own["tools"][0] if own["type"] == "namespace" else own
    return {field: member[field] for field in ("type", "name") if field in member}


# ---------------------------------------------------------------- tools among the items of a conversation


def loaded_tools(items: Any, bounds: Bounds) -> tuple[Tool, ...]:
    """Returns the tools whose definitions are items of the input: those that a search for tools returned, and `additional_tools`.
    The model may call them, so they are always sent to a provider of another API. Raises `RequestError`."""
    tools: dict[str, Tool] = {}
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if not isinstance(item, dict) or item.get("type") not in ("additional_tools", "tool_search_output"):
            continue
        for tool in read_tools(item.get("tools"), bounds, f"input[{index}].tools"):
            if tool.own_form is not None or tool.definition is None or tool.definition.get("type") == "function":
                tools.setdefault(tool.name, replace(tool, core=True))
    return tuple(tools.values())


def names_in(item: JsonObject) -> Iterator[str]:
    """Yields the names of the tools whose definitions an item of the input contains. The item may come from a provider."""
    for tool in _objects(item.get("tools")):
        members = _objects(tool.get("tools")) if tool.get("type") == "namespace" else (tool,)
        namespace = tool.get("name") if tool.get("type") == "namespace" else None
        yield from (internal_name(namespace, each["name"]) for each in members if isinstance(each.get("name"), str))


def _objects(items: Any) -> Iterator[JsonObject]:
    return (item for item in (items if isinstance(items, list | tuple) else ()) if isinstance(item, Mapping))


def search_text(item: JsonObject) -> str:
    """Returns the result of a search for tools as text, for a provider of another API."""
    names = list(names_in(item))
    return f"These tools can be called now: {', '.join(names)}" if names else "No tool fits."
