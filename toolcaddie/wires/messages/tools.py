"""Conversion of tools, and of the choice among them, between OpenAI's function format and the Messages API, in both
directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.tool import CLIENT_SOURCE, JsonObject, Tool
from toolcaddie.wires.bodies import ENCODER
from toolcaddie.wires.messages.content import Block
from toolcaddie.wires.messages.schemas import input_schema

_MAX_FORMS = 20_000
_MARK = b'"cache_control":{"type":"ephemeral"}'
_DEFER = b'"defer_loading":true'
_NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}
_DECODER = msgspec.json.Decoder()


class WireTool:
    """The definition of a tool in the API's form, encoded once because every request sends it again."""

    __slots__ = ("_deferred", "definition", "keys", "name", "plain")

    def __init__(self, definition: Any, wire: Mapping[str, Any]) -> None:
        self.definition = definition
        """The original definition. It is kept so that no other object can get its `id()`, under which this form is cached."""
        self.name: str = wire["name"]
        self.keys = wire.keys()
        self.plain = msgspec.Raw(ENCODER.encode(wire))
        self._deferred: msgspec.Raw | None = None

    @property
    def deferred(self) -> msgspec.Raw:
        if self._deferred is None:
            self._deferred = self._with(_DEFER, "defer_loading")
        return self._deferred

    @property
    def marked(self) -> msgspec.Raw:
        """The form for the last tool of a prefix that is to be cached."""
        return self._with(_MARK, "cache_control")

    def _with(self, more: bytes, key: str) -> msgspec.Raw:
        return self.plain if key in self.keys else msgspec.Raw(bytes(self.plain)[:-1] + b"," + more + b"}")


class WireTools:
    """Definitions in the API's form, cached by the identity of the original, because a definition never changes."""

    def __init__(self) -> None:
        self._forms: dict[int, WireTool] = {}

    def of(self, definition: Any) -> WireTool:
        """Returns the form of a definition, which is in OpenAI's function format, encoded or not, or in the API's own."""
        wire_tool = self._forms.get(id(definition))
        if wire_tool is None:
            if len(self._forms) >= _MAX_FORMS:
                self._forms.clear()
            wire_tool = self._forms[id(definition)] = WireTool(definition, _tool(definition))
        return wire_tool


def _tool(definition: Any) -> Mapping[str, Any]:
    wire = _DECODER.decode(definition) if isinstance(definition, msgspec.Raw) else definition
    if isinstance(wire, Mapping):
        function = wire.get("function")
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            return _function(function)
        if isinstance(
            wire.get("name"), str
        ):  # the API's own form: a tool that the server runs, or one with further fields
            return wire
    raise RequestError(f"tools: this provider takes functions only, not {quoted(wire)}", param="tools")


def _function(function: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": function["name"]}
    if function.get("description"):
        made["description"] = function["description"]
    schema = function.get("parameters") or _NO_PARAMETERS
    made["input_schema"] = input_schema(schema) if isinstance(schema, Mapping) else schema
    if function.get("strict") is True:
        made["strict"] = True
    return made


def write_array(tools: Sequence[WireTool], deferred: set[str], *, marks: bool) -> list[msgspec.Raw]:
    """Returns the tool array. The last tool of the cached prefix gets the mark; deferred tools are not in the prefix."""
    last = max(place for place, tool in enumerate(tools) if tool.name not in deferred) if marks else -1
    return [
        tool.deferred if tool.name in deferred else tool.marked if place == last else tool.plain
        for place, tool in enumerate(tools)
    ]


class Choice:
    """A choice of tools in the API's form, and the names of the tools to send if it allows only some."""

    __slots__ = ("only", "wire")

    def __init__(self, wire: Block | None, only: frozenset[str] | None = None) -> None:
        self.wire = wire
        self.only = only

    @classmethod
    def of(cls, request: ModelRequest) -> Choice:
        choice = cls._read(request.tool_choice)
        alone = (request.params or {}).get("parallel_tool_calls") is False
        if alone and (choice.wire is None or choice.wire["type"] != "none"):
            choice.wire = {**(choice.wire or {"type": "auto"}), "disable_parallel_tool_use": True}
        if request.allowed is not None:
            choice.only = frozenset(request.allowed).intersection(choice.only or request.allowed)
        return choice

    @classmethod
    def _read(cls, choice: Any) -> Choice:
        if choice is None:
            return cls(None)
        if isinstance(choice, str) and choice in _MODES:
            return cls({"type": _MODES[choice]})
        if isinstance(choice, Mapping):
            name = _function_name(choice)
            if name is not None:
                return cls({"type": "tool", "name": name})
            allowed = choice.get("allowed_tools")
            if choice.get("type") == "allowed_tools" and isinstance(allowed, Mapping):
                return cls._of_some(allowed)
        raise RequestError(
            f"tool_choice: this provider does not support the choice {quoted(choice)}", param="tool_choice"
        )

    @classmethod
    def _of_some(cls, allowed: Mapping[str, Any]) -> Choice:
        """Returns the form of a choice among some tools. The API has no mask, so only the tools that may be called are sent."""
        mode, listed = allowed.get("mode", "auto"), allowed.get("tools")
        names = [_function_name(each) for each in listed] if isinstance(listed, list | tuple) else []
        if mode not in ("auto", "required") or not names or None in names:
            raise RequestError(
                "tool_choice: allowed_tools needs a mode, auto or required, and functions by name", param="tool_choice"
            )
        return cls({"type": _MODES[mode]}, frozenset(name for name in names if name is not None))


_MODES = {"auto": "auto", "none": "none", "required": "any"}
_READ_MODES: Mapping[Any, str] = {wire: mode for mode, wire in _MODES.items()}
_OWN = "custom"
"""The type of a tool that the client runs."""


def _function_name(choice: Any) -> str | None:
    function = choice.get("function") if isinstance(choice, Mapping) and choice.get("type") == "function" else None
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else None


def quoted(value: Any) -> str:
    return repr(value)[:200]


# ---------------------------------------------------------------- at a door


def read_tools(items: Any, bounds: Bounds) -> Sequence[Tool]:
    """Returns a client's tools, their definitions in OpenAI's function format, which all providers accept. Marks for the
    prompt cache are omitted, because the planner decides which tools are sent, and the last of the sent tools is
    marked. A tool that
    the provider runs itself goes out unchanged. Raises `RequestError` naming the field at fault."""
    if not isinstance(items, list):
        raise RequestError("tools: must be a list", param="tools")
    if len(items) > bounds.tools:
        message = beyond(f"'tools' holds {len(items):,}", bounds.tools, "tools")
        raise RequestError(message, param="tools", code="too_many_tools")
    tools: dict[str, Tool] = {}
    for place, item in enumerate(items):
        tool = _read_tool(item, f"tools.{place}", bounds)
        if tool.name in tools:
            raise RequestError(
                f"tools.{place}: there is a tool {tool.name!r} already", param="tools", code="duplicate_tool"
            )
        tools[tool.name] = tool
    return tuple(tools.values())


def _read_tool(item: Any, where: str, bounds: Bounds) -> Tool:
    name = item.get("name") if isinstance(item, Mapping) else None
    if not isinstance(item, Mapping) or not isinstance(name, str) or not name:
        raise RequestError(f"{where}.name: must be the tool's name", param="tools")
    if len(name) > bounds.name:
        message = beyond(f"{where}.name has {len(name):,} characters", bounds.name, "name")
        raise RequestError(message, param="tools", code="name_too_long")
    if item.get("type", _OWN) != _OWN:
        return Tool(name=name, source=CLIENT_SOURCE, core=True, definition=item)
    description, schema = item.get("description") or "", item.get("input_schema")
    if not isinstance(description, str) or not isinstance(schema, Mapping):
        raise RequestError(f"{where}: must have a text as its description and an input_schema", param="tools")
    if len(description) > bounds.description:
        message = beyond(f"{where}.description has {len(description):,} characters", bounds.description, "description")
        raise RequestError(message, param="tools", code="description_too_long")
    function: dict[str, Any] = {"name": name, "description": description, "parameters": schema}
    if item.get("strict") is True:
        function["strict"] = True
    return Tool(
        name=name,
        description=description,
        input_schema=schema,
        source=CLIENT_SOURCE,
        definition={"type": "function", "function": function},
    )


def read_choice(choice: Any) -> Any:
    """Returns the choice in OpenAI's form. Raises `RequestError` for an unknown choice."""
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    if kind == "tool" and isinstance(name := choice.get("name"), str):
        return {"type": "function", "function": {"name": name}}
    if not isinstance(kind, str) or kind not in _READ_MODES:
        raise RequestError(f"tool_choice: unknown choice {quoted(choice)}", param="tool_choice")
    return _READ_MODES[kind]
