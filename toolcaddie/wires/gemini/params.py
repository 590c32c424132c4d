"""Conversion of a request's parameters (temperature, reasoning effort, ...) from the names of chat completions to Gemini's
`generationConfig`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.wires.gemini.messages import wants_signatures

_OMITTED = frozenset(
    {
        *("stream", "stream_options"),  # streaming is part of the path; usage is always reported
        *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),  # its cache is automatic
        *("user", "safety_identifier", "metadata"),  # labels that only other providers store
        *("verbosity", "prediction"),  # hints about style and speed
        "parallel_tool_calls",  # Gemini has no such limit; the loop runs several calls in their order
    }
)
"""Parameters of chat completions that are omitted."""
_RENAMED = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
    "seed": "seed",
    "n": "candidateCount",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "logprobs": "responseLogprobs",
    "top_logprobs": "logprobs",
}
_CONFIG = frozenset(
    {
        *("topP", "topK", "candidateCount", "maxOutputTokens", "stopSequences", "presencePenalty", "frequencyPenalty"),
        *("responseMimeType", "responseSchema", "responseJsonSchema", "responseFormat", "responseLogprobs"),
        *("responseModalities", "thinkingConfig", "mediaResolution", "speechConfig", "imageConfig"),
        *("enableEnhancedCivicAnswers", "audioTranscriptionConfig", "translationConfig"),
    }
)
"""Gemini's own parameters that belong in `generationConfig`."""
_LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "XHIGH", "max": "XHIGH"}
_BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}
"""Thinking tokens by `reasoning_effort`, for models without thinking levels. Gemini's own layer for OpenAI's API has the
same numbers."""


def settings(params: Mapping[str, Any], model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns two mappings: the `generationConfig`, and the fields of the request outside it. Unknown parameters are sent
    unchanged, and Gemini names them in its error."""
    config: dict[str, Any] = {}
    beside: dict[str, Any] = {}
    for name, value in params.items():
        if value is None or name in _OMITTED:
            continue
        if name in _TRANSLATED:
            config.update(_TRANSLATED[name](value, model))
        elif name in _RENAMED:
            config[_RENAMED[name]] = value
        elif name in _CONFIG:
            config[name] = value
        elif name == "service_tier":
            beside.update({} if value in ("auto", "default") else {"serviceTier": value})
        elif name != "generationConfig":
            beside[name] = value
    return {**config, **object_of(params, "generationConfig")}, beside


def object_of(params: Mapping[str, Any], name: str) -> JsonObject:
    """Returns the value of one of Gemini's own parameters; empty if it is missing. Raises `RequestError` if it is not
    an object."""
    value = params.get(name)
    if not isinstance(value, Mapping | None):
        raise RequestError(f"{name} must be an object", param=name)
    return value or {}


def _stop(value: Any, _: str) -> JsonObject:
    return {"stopSequences": [value] if isinstance(value, str) else value}


def _modalities(value: Any, _: str) -> JsonObject:
    return {"responseModalities": [str(each).upper() for each in value] if isinstance(value, list | tuple) else value}


def _thinking(effort: Any, model: str) -> JsonObject:
    """Returns the configuration of thinking. Gemini 3 has levels and always thinks; earlier models have budgets. Thoughts are
    included, because a caller who sets the effort is assumed to want them."""
    if not isinstance(effort, str) or effort not in _BUDGETS:
        raise RequestError(f"reasoning_effort {effort!r} is none of {', '.join(_BUDGETS)}", param="reasoning_effort")
    amount = (
        {"thinkingLevel": _LEVELS.get(effort, "MINIMAL")}
        if wants_signatures(model)
        else {"thinkingBudget": _BUDGETS[effort]}
    )
    return {"thinkingConfig": amount if effort == "none" else {**amount, "includeThoughts": True}}


def _format(value: Any, _: str) -> JsonObject:
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"responseMimeType": "application/json"}
    inside = value.get("json_schema") if kind == "json_schema" else None
    if not isinstance(inside, Mapping) or not isinstance(inside.get("schema"), Mapping):
        raise RequestError(f"response_format {kind!r} is not supported by Gemini", param="response_format")
    return json_output(inside["schema"])


def json_output(schema: JsonObject) -> JsonObject:
    return {"responseMimeType": "application/json", "responseJsonSchema": schema}


_TRANSLATED: Mapping[str, Callable[[Any, str], JsonObject]] = {
    "stop": _stop,
    "modalities": _modalities,
    "reasoning_effort": _thinking,
    "response_format": _format,
}
