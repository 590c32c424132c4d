"""Checks of a generateContent request, as far as it concerns tools, as strict as Gemini's and with Gemini's error texts. The
scripted servers of tests use them to refuse what the real server would refuse.

Two checks are stricter than the real ones, so that a client that passes is right for every model: turns must alternate (text
may follow a turn of results), and a signature must have been issued by the server for the part it is on. One message is clearer
than the real one: that for a turn which mixes results with text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Signatures = Mapping[str, Any]
"""The content that each signature was issued for: name and arguments of a call, or the text of a part."""

UNSIGNED = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Accepted in place of a signature on calls that the model did not make."""

_MAX_TOOLS = 512
_MAX_STOPS = 5
_MAX_CANDIDATES = 8
_NAME = re.compile(r"[a-zA-Z_][\w.:-]{0,127}\Z", re.ASCII)
_BODY = frozenset(
    {
        *("contents", "tools", "toolConfig", "safetySettings", "systemInstruction", "generationConfig"),
        *("cachedContent", "labels", "serviceTier", "store", "continuationToken", "model"),
    }
)
_CONFIG: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("temperature", "topP", "topK", "presencePenalty", "frequencyPenalty"), (int, float)),
    **dict.fromkeys(("candidateCount", "maxOutputTokens", "seed", "logprobs"), int),
    **dict.fromkeys(("responseMimeType", "mediaResolution"), str),
    **dict.fromkeys(("responseLogprobs", "enableEnhancedCivicAnswers"), bool),
    **dict.fromkeys(("stopSequences", "responseModalities", "responseFormat"), list),
    **dict.fromkeys(("responseSchema", "responseJsonSchema", "thinkingConfig", "speechConfig", "imageConfig"), dict),
    **dict.fromkeys(("audioTranscriptionConfig", "translationConfig"), dict),
}
_DATA: Mapping[str, type] = {
    "text": str,
    **dict.fromkeys(("inlineData", "fileData", "functionCall", "functionResponse", "executableCode"), dict),
    **dict.fromkeys(("codeExecutionResult", "toolCall", "toolResponse"), dict),
}
_BESIDE_DATA = frozenset({"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"})
_DECLARED = frozenset(
    {"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior"}
)
_TOOLS = frozenset(
    {
        *("functionDeclarations", "googleSearch", "codeExecution", "urlContext", "googleMaps", "fileSearch"),
        *("computerUse", "mcpServers", "googleSearchRetrieval"),
    }
)
_THINKING = frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"})
_CALL = frozenset({"id", "name", "args"})
_RESPONSE = frozenset({"id", "name", "response", "parts", "scheduling", "willContinue"})
_BLOB = frozenset({"mimeType", "data", "displayName"})
_CALLING = frozenset({"mode", "allowedFunctionNames"})
_FIELDS = frozenset(
    {
        *(_BODY | _CONFIG.keys() | _DATA.keys() | _BESIDE_DATA | _DECLARED | _TOOLS | _THINKING | _CALL | _RESPONSE),
        *(_BLOB | _CALLING | {"functionCallingConfig", "fileUri", "role", "parts"}),
    }
)
_AS_IT_IS = frozenset(
    {
        *("args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"),
        *("partMetadata", "labels"),
    }
)
"""Fields whose content is the client's own, so that names in it are not converted."""
_MODES = ("AUTO", "ANY", "NONE", "VALIDATED")
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class _Request:
    """A request, and the facts beside it that decide whether it is valid."""

    body: dict[str, Any]
    signs: bool
    """True if the model requires signatures."""
    signed: Signatures

    @property
    def contents(self) -> list[dict[str, Any]]:
        contents: list[dict[str, Any]] = self.body["contents"]
        return contents

    @property
    def config(self) -> dict[str, Any]:
        return self.body.get("generationConfig") or {}

    @property
    def declared(self) -> list[dict[str, Any]]:
        return [each for tool in self.body.get("tools") or () for each in tool.get("functionDeclarations") or ()]


def signs(model: str) -> bool:
    """Returns True if the model signs its calls and requires the signatures back: Gemini 3 and later."""
    return not re.match(r"gemini-[12](?!\d)", model)


def fault_of(body: Any, *, model: str, signed: Signatures) -> str | None:
    """Returns the error message with which the real server would answer (status 400); None: the request is valid."""
    if not isinstance(body, dict):
        return "Invalid JSON payload received. Expected an object."
    request = _Request(_camelled(body), signs(model), signed)
    for check in _CHECKS:
        for fault in check(request):
            return fault
    return None


def _camelled(value: Any) -> Any:
    """Returns a value with its field names in camel case. Gemini accepts snake case too, and its own package mixes both."""
    if isinstance(value, list):
        return [_camelled(each) for each in value]
    if not isinstance(value, dict):
        return value
    renamed = {_camel(name): each for name, each in value.items()}
    return {name: each if name in _AS_IT_IS else _camelled(each) for name, each in renamed.items()}


def _camel(name: str) -> str:
    first, *more = name.split("_")
    made = first + "".join(map(str.capitalize, more))
    return made if made in _FIELDS else name


def _fields(request: _Request) -> Iterator[str]:
    yield from _unknown(request.body, _BODY, "")
    yield from _unknown(request.config, _CONFIG, "generation_config")
    instruction = request.body.get("systemInstruction")
    if instruction is not None and (
        not isinstance(instruction, dict)
        or not instruction.get("parts")
        or not all(isinstance(part.get("text"), str) for part in instruction["parts"])
    ):
        yield "* GenerateContentRequest.system_instruction.parts: must be text"


def _unknown(fields: Mapping[str, Any], names: Any, where: str) -> Iterator[str]:
    for name in fields:
        if name not in names:
            place = f" at '{where}'" if where else ""
            yield f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'


def _config(request: _Request) -> Iterator[str]:
    config = request.config
    for name, value in config.items():
        kind = _CONFIG[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            yield f"Invalid value at 'generation_config.{name}': {value!r}"
    if not 0 <= config.get("temperature", 1) <= 2:
        yield (
            f"Unable to submit request because it has a temperature value of {config['temperature']} but the supported "
            "range is from 0 to 2."
        )
    if config.get("maxOutputTokens", 1) < 1:
        yield "Unable to submit request because it has a maxOutputTokens value that is not positive."
    if not 1 <= config.get("candidateCount", 1) <= _MAX_CANDIDATES:
        yield f"* GenerateContentRequest.generation_config.candidate_count: must be from 1 to {_MAX_CANDIDATES}"
    if len(config.get("stopSequences", ())) > _MAX_STOPS:
        yield f"* GenerateContentRequest.generation_config.stop_sequences: at most {_MAX_STOPS} are supported"
    yield from _json_mode(request, config)
    yield from _thinking(request, config.get("thinkingConfig") or {})


def _json_mode(request: _Request, config: dict[str, Any]) -> Iterator[str]:
    if "responseSchema" in config and "responseJsonSchema" in config:
        yield "Only one of response_schema and response_json_schema may be set."
    if ("responseSchema" in config or "responseJsonSchema" in config) and config.get("responseMimeType") != _JSON:
        yield f"Unable to submit request because a response schema needs response_mime_type '{_JSON}'."
    if config.get("responseMimeType") == _JSON and request.body.get("tools") and not request.signs:
        yield f"Function calling with a response mime type: '{_JSON}' is unsupported"


def _thinking(request: _Request, thinking: dict[str, Any]) -> Iterator[str]:
    yield from _unknown(thinking, _THINKING, "generation_config.thinking_config")
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        yield "You can only set only one of thinking budget and thinking level."
    if "thinkingLevel" in thinking and not request.signs:
        yield "Thinking level is not supported for this model."
    if thinking.get("thinkingLevel", "LOW") not in ("MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"):
        yield f"Invalid value at 'generation_config.thinking_config.thinking_level': {thinking['thinkingLevel']!r}"


# ---------------------------------------------------------------- contents


def _contents(request: _Request) -> Iterator[str]:
    contents = request.body.get("contents")
    if not isinstance(contents, list) or not contents:
        yield "* GenerateContentRequest.contents: contents is not specified"
        return
    for place, content in enumerate(contents):
        where = f"* GenerateContentRequest.contents[{place}]"
        if not isinstance(content, dict):
            yield f"Invalid value at 'contents[{place}]'"
        yield from _unknown(content, {"role", "parts"}, f"contents[{place}]")
        if content.get("role") not in ("user", "model"):
            yield "Please use a valid role: user, model."
        if not isinstance(content.get("parts"), list) or not content["parts"]:
            yield f"{where}.parts: contents.parts must not be empty."
        for number, part in enumerate(content["parts"]):
            yield from _part(part, content["role"], f"contents[{place}].parts[{number}]")


def _part(part: Any, role: str, where: str) -> Iterator[str]:
    if not isinstance(part, dict):
        yield f"Invalid value at '{where}'"
    yield from _unknown(part, _DATA.keys() | _BESIDE_DATA, where)
    held = [name for name in _DATA if name in part]
    if len(held) != 1:
        yield f"* GenerateContentRequest.{where}.data: required oneof field 'data' must have one initialized field"
    value = part[held[0]]
    if not isinstance(value, _DATA[held[0]]):
        yield f"Invalid value at '{where}.{held[0]}': {value!r}"
    if value == "" and "thoughtSignature" not in part:
        yield f"Unable to submit request because {where} must have a text that is not empty."
    if held[0] == "inlineData":
        yield from _blob(value, where)
    if held[0] == "fileData" and not value.get("fileUri"):
        yield f"* GenerateContentRequest.{where}.file_data.file_uri: must be specified"
    if held[0] == "functionCall":
        yield from _call(value, role, where)
    if held[0] == "functionResponse":
        yield from _response(value, role, where)


def _blob(blob: dict[str, Any], where: str) -> Iterator[str]:
    yield from _unknown(blob, _BLOB, where)
    if not isinstance(blob.get("mimeType"), str) or "/" not in blob["mimeType"]:
        yield f"* GenerateContentRequest.{where}.inline_data.mime_type: must be specified"
    try:
        base64.b64decode(blob.get("data") or "-", validate=True)
    except (binascii.Error, TypeError):
        yield f"Invalid value at '{where}.inline_data.data' (TYPE_BYTES), Base64 decoding failed"


def _call(call: dict[str, Any], role: str, where: str) -> Iterator[str]:
    yield from _unknown(call, _CALL, f"{where}.function_call")
    if role != "model":
        yield "Please ensure that function calls are in turns of role model."
    if not call.get("name"):
        yield f"* GenerateContentRequest.{where}.function_call.name: Name cannot be empty."
    if not isinstance(call.get("args"), dict | None):
        yield f"Invalid value at '{where}.function_call.args' (type.googleapis.com/google.protobuf.Struct)"


def _response(response: dict[str, Any], role: str, where: str) -> Iterator[str]:
    yield from _unknown(response, _RESPONSE, f"{where}.function_response")
    if role != "user":
        yield "Please ensure that function responses are in turns of role user."
    if not response.get("name"):
        yield f"* GenerateContentRequest.{where}.function_response.name: Name cannot be empty."
    if not isinstance(response.get("response"), dict):
        yield f"Invalid value at '{where}.function_response.response' (type.googleapis.com/google.protobuf.Struct)"
    for part in response.get("parts") or ():
        if not isinstance(part, dict) or part.keys() - {"inlineData", "fileData", "mediaResolution"}:
            yield f"Invalid value at '{where}.function_response.parts'"


def _turns(request: _Request) -> Iterator[str]:
    earlier: dict[str, Any] = {"role": "model", "parts": []}
    for content in request.contents:
        calls, responses = _of(earlier, "functionCall"), _of(content, "functionResponse")
        if content["role"] == earlier["role"] and not _of(earlier, "functionResponse"):
            yield "Please ensure that multiturn requests alternate between user and model, and begin with user."
        yield from _answered(calls, responses)
        if responses and len(responses) != len(content["parts"]):
            yield "Please ensure that function response turn holds nothing but function response parts."
        earlier = content
    yield from _answered(_of(earlier, "functionCall"), [])
    if earlier["role"] == "model" and request.signs:
        yield "Requests ending with a model turn are not supported."


def _of(content: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part[kind] for part in content["parts"] if kind in part]


def _answered(calls: list[dict[str, Any]], responses: list[dict[str, Any]]) -> Iterator[str]:
    if responses and not calls:
        yield "Please ensure that function response turn comes immediately after a function call turn."
    if len(responses) != len(calls):
        yield (
            "Please ensure that the number of function response parts is equal to the number of function call parts "
            "of the function call turn."
        )
    for call, response in zip(calls, responses, strict=True):
        if (call["name"], call.get("id")) != (response["name"], response.get("id")):
            yield (
                f"Please ensure that function responses match their calls: {response['name']!r} "
                f"({response.get('id')}) answers {call['name']!r} ({call.get('id')})."
            )


def _signatures(request: _Request) -> Iterator[str]:
    spoken = [
        place
        for place, content in enumerate(request.contents)
        if content["role"] == "user" and not _only_results(content)
    ]
    turn = spoken[-1] if spoken else 0
    for place, content in enumerate(request.contents):
        for part in content["parts"]:
            yield from _signature(part, request)
        first = next((part for part in content["parts"] if "functionCall" in part), None)
        if request.signs and place > turn and first is not None and not first.get("thoughtSignature"):
            yield (
                f"Function call `{first['functionCall']['name']}` in the `{place + 1}.` content block is missing a "
                "`thought_signature`."
            )


def _only_results(content: dict[str, Any]) -> bool:
    return all("functionResponse" in part for part in content["parts"])


def _signature(part: dict[str, Any], request: _Request) -> Iterator[str]:
    signature = part.get("thoughtSignature")
    if signature is None or (request.signs and signature in UNSIGNED and "functionCall" in part):
        return
    call = part.get("functionCall")
    meant = (call.get("name"), call.get("args")) if call else part.get("text")
    if signature not in request.signed or request.signed[signature] != meant:
        yield "Corrupted thought signature."


# ---------------------------------------------------------------- tools


def _tools(request: _Request) -> Iterator[str]:
    tools = request.body.get("tools", [{}])
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        yield "Invalid value at 'tools'"
        return
    for number, tool in enumerate(tools):
        yield from _unknown(tool, _TOOLS, f"tools[{number}]")
        if "tools" in request.body and not tool:
            yield (
                f"* GenerateContentRequest.tools[{number}].tool_type: required one_of 'tool_type' must have one "
                "initialized field"
            )
    if len(request.declared) > _MAX_TOOLS:
        yield f"The number of function declarations exceeds the maximum of {_MAX_TOOLS}."
    seen: set[str] = set()
    for number, declared in enumerate(request.declared):
        where = f"tools[0].function_declarations[{number}]"
        yield from _declaration(declared, where)
        if declared["name"] in seen:
            yield f"Duplicate function declaration found: {declared['name']}"
        seen.add(declared["name"])


def _declaration(declared: dict[str, Any], where: str) -> Iterator[str]:
    yield from _unknown(declared, _DECLARED, where)
    if not _NAME.match(str(declared.get("name", ""))):
        yield (
            f"* GenerateContentRequest.{where}.name: Invalid function name. Must start with a letter or an underscore. "
            "Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum "
            "length of 128."
        )
    if not isinstance(declared.get("description"), str | None):
        yield f"Invalid value at '{where}.description' (TYPE_STRING)"
    if "parameters" in declared and "parametersJsonSchema" in declared:
        yield f"* GenerateContentRequest.{where}: only one of parameters and parameters_json_schema may be set."
    schema = declared.get("parametersJsonSchema")
    if "parametersJsonSchema" in declared and (not isinstance(schema, dict) or schema.get("type") != "object"):
        yield f"* GenerateContentRequest.{where}.parameters_json_schema: schema should be of type object."


def _tool_config(request: _Request) -> Iterator[str]:
    config = (request.body.get("toolConfig") or {}).get("functionCallingConfig")
    if config is None:
        return
    yield from _unknown(config, _CALLING, "tool_config.function_calling_config")
    mode, allowed = config.get("mode"), config.get("allowedFunctionNames") or []
    if mode not in _MODES:
        yield f"Invalid value at 'tool_config.function_calling_config.mode': {mode!r}"
    if not request.declared:
        yield "Function calling config is set without function_declarations."
    if allowed and mode not in ("ANY", "VALIDATED"):
        yield "Allowed function names should only be set when function calling mode is ANY or VALIDATED."
    names = {declared["name"] for declared in request.declared}
    for name in allowed:
        if name not in names:
            yield f"Function calling config allows {name!r}, which is not among the function declarations."


_CHECKS: tuple[Callable[[_Request], Iterator[str]], ...] = (
    _fields,
    _config,
    _contents,
    _turns,
    _signatures,
    _tools,
    _tool_config,
)
"""The checks in their order: each one relies on what the checks before it have made sure of."""
