"""A request of Gemini's generateContent, written for a provider.

Written according to ai.google.dev/api and the official package, 3.4: names are in camel case, arguments of calls are objects, and
a stream consists of partial answers without a closing event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.wires.bodies import ENCODER
from toolcaddie.wires.gemini.messages import conversation
from toolcaddie.wires.gemini.params import json_output, object_of, settings


def write_request(request: ModelRequest, *, model: str, author: str) -> bytes:
    """Returns the body of a request to `model`. `author`: the provider and model, as in `Message.author`.

    Raises `RequestError` for a request that this API cannot express.
    """
    if request.deferred:
        raise RequestError("Gemini does not support deferred definitions", param="tools")
    system, contents = conversation(request.messages, model=model, author=author)
    body: dict[str, Any] = {"contents": contents}
    if system:
        body["systemInstruction"] = {"parts": system}
    declarations, others = _tools(request.tools)
    if declarations or others:
        body["tools"] = [{"functionDeclarations": declarations}, *others] if declarations else others
    config, more = settings(request.params or {}, model)
    if request.output_schema is not None:
        config.pop("responseSchema", None)
        config.update(json_output(request.output_schema))
    calling = _calling(request)
    if calling == {"mode": "AUTO"} and (others or "responseMimeType" in config):
        calling = None  # without a mode Gemini uses its default, in which the model is also free to call or not
    if calling is not None and (declarations or calling["mode"] == "ANY"):
        body["toolConfig"] = {**object_of(more, "toolConfig"), "functionCallingConfig": calling}
    if config:
        body["generationConfig"] = config
    return ENCODER.encode({**more, **body})


class _Function(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.Raw()


class _Definition(msgspec.Struct):
    type: str | None = None
    function: _Function | None = None


_DEFINITION = msgspec.json.Decoder(_Definition)


def _tools(tools: Iterable[Any]) -> tuple[list[JsonObject], list[Any]]:
    """Returns two lists: declarations of functions, and Gemini's own tools (`{"googleSearch": {}}`), which are sent unchanged."""
    declarations: list[JsonObject] = []
    others: list[Any] = []
    for tool in tools:
        declared = _of_bytes(tool) if isinstance(tool, msgspec.Raw) else _of_mapping(tool)
        if declared is None:
            others.append(tool)
        else:
            declarations.append(declared)
    return declarations, others


def _of_bytes(tool: msgspec.Raw) -> JsonObject | None:
    """Returns the declaration for an encoded definition. Its schema is copied without decoding."""
    try:
        read = _DEFINITION.decode(tool)
    except msgspec.DecodeError as error:
        raise RequestError(f"a tool is not in OpenAI's function format: {error}", param="tools") from error
    function = read.function
    if function is None:
        _refuse_typed(read.type)
        return None
    schema = None if bytes(function.parameters) in (b"", b"null", b"{}") else function.parameters
    return _declaration(function.name, function.description, schema)


def _of_mapping(tool: JsonObject) -> JsonObject | None:
    function = tool.get("function")
    if function is None:
        _refuse_typed(tool.get("type"))
        return None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError("a tool is not in OpenAI's function format: it has no name", param="tools")
    return _declaration(function["name"], function.get("description"), function.get("parameters"))


def _refuse_typed(kind: Any) -> None:
    """Refuses another provider's tool: a tool that is not a function and has a type. Gemini's own tools have no type."""
    if kind is not None:
        raise RequestError(f"Gemini has no tools of type {kind!r}", param="tools")


def _declaration(name: str, description: Any, schema: Any) -> JsonObject:
    """Returns a declaration. `strict` has no counterpart here; the modes VALIDATED and ANY make calls follow their schemas."""
    declared: dict[str, Any] = {"name": name}
    if description:
        declared["description"] = description
    if schema:
        declared["parametersJsonSchema"] = schema
    return declared


def _calling(request: ModelRequest) -> dict[str, Any] | None:
    """Returns the tool choice, limited to the allowed tools. All tools stay in the request, so that the provider's cache stays
    valid."""
    mode, names = _choice(request.tool_choice)
    if names is None and mode != "NONE":
        names = request.allowed
    if names is None:
        return {"mode": mode} if mode else None
    if not names:  # an empty list would mean all
        if mode == "ANY":
            raise RequestError("tool_choice requires a call, but no tool may be called", param="tool_choice")
        return {"mode": "NONE"}
    return {"mode": "ANY" if mode == "ANY" else "VALIDATED", "allowedFunctionNames": list(names)}


_MODES = {None: None, "auto": "AUTO", "none": "NONE", "required": "ANY"}


def _choice(choice: Any) -> tuple[str | None, Sequence[str] | None]:
    """Returns the mode, and the names that the choice itself allows. Raises `RequestError` for an unknown choice."""
    if choice is None or isinstance(choice, str):
        if choice in _MODES:
            return _MODES[choice], None
    elif isinstance(choice, Mapping):
        if choice.get("type") == "function":
            name = _name_of(choice)
            if name:
                return "ANY", [name]
        inside = choice.get("allowed_tools")
        if choice.get("type") == "allowed_tools" and isinstance(inside, Mapping):
            tools, mode = inside.get("tools"), inside.get("mode")
            if mode in ("auto", "required") and isinstance(tools, list | tuple):
                names = [_name_of(tool) if isinstance(tool, Mapping) else "" for tool in tools]
                if all(names):
                    return _MODES[mode], names
    raise RequestError(f"tool_choice {choice!r} is not supported by Gemini", param="tool_choice")


def _name_of(tool: JsonObject) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else ""
