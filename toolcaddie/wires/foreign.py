"""Adapts a request of a client of one API to a provider with another API (wire): translates parameters that the other API calls
otherwise, omits those without effect there, and refuses those that the client relies on and the other API cannot follow, and
tools that only the client's API can run. Providers use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.vocabulary import WireName
from toolcaddie.util.replacing import replace
from toolcaddie.wires.neutral import is_neutral

_Params = Mapping[str, Any]

_FUNCTIONS = ("function", "custom")
_API_NAMES: Mapping[WireName, str] = {
    "chat": "chat completions",
    "responses": "the Responses API",
    "messages": "the Messages API",
}
_NO_EFFECT: Mapping[WireName, frozenset[str]] = {
    "chat": frozenset(),
    "responses": frozenset({"client_metadata", "context_management", "include", "max_tool_calls", "truncation"}),
    "messages": frozenset({"cache_control", "context_management", "diagnostics", "speed"}),
}
"""Parameters that are omitted. The answer is complete without them: they describe how the client's API shows, caches, shortens
or hurries it, or limit tools of its servers, which are refused anyway. If a conversation is too long, the provider says so."""
_REFUSED: Mapping[WireName, frozenset[str]] = {
    "chat": frozenset(
        {
            *(
                "audio",
                "function_call",
                "functions",
                "logit_bias",
                "logprobs",
                "modalities",
                "moderation",
                "top_logprobs",
            ),
            "web_search_options",
        }
    ),
    "responses": frozenset({"access_programs", "image", "moderation", "top_logprobs"}),
    "messages": frozenset(
        {"container", "inference_geo", "mcp_servers", "output_config", "user_profile_id", "workspace_id"}
    ),
}
"""Parameters that are refused, because the client relies on them, unless their value has no effect."""
_LIMITS = ("max_tokens", "max_completion_tokens")
"""Names of the limit of output tokens in chat completions. OpenAI's reasoning models refuse the first; other servers may know
only the first."""
_OPENAI_MODEL = re.compile(r"gpt-(?!oss)|chatgpt-|o\d")
"""Beginning of the names of OpenAI's hosted models."""
_LOGPROBS = "message.output_text.logprobs"
_REASONING = frozenset({"summary", "generate_summary", "context"})
"""Fields of the parameter `reasoning` that say which reasoning is shown. The effort is a parameter of its own."""
_SERVICE_TIERS = {"default": "standard_only", "auto": "auto"}
"""`service_tier` of OpenAI's APIs, and what the Messages API calls it."""
_EFFORTS = ((4_096, "low"), (16_384, "medium"))
"""Budgets of thinking tokens, and the effort of every budget below; any larger one is `high`."""


def for_wire(request: ModelRequest, wire: WireName, model: str) -> ModelRequest:
    """Returns the request as a provider of this wire can take it for `model`, as one of no client's API. Raises `RequestError`
    naming a parameter that it cannot follow or a tool that it cannot run."""
    client = request.client_wire
    if client is None or client == wire:
        return request
    if client == "responses":
        _check_tools(request, wire)
    params = request.params or {}
    if client in _REFUSED:
        params = _crossed(params, client, wire)
    if wire == "chat":
        params = _limited(params, model)
    return replace(request, params=params, client_wire=None)


def _crossed(params: _Params, client: WireName, wire: WireName) -> _Params:
    params = _TRANSLATIONS[client](params, wire)
    for name in sorted(_REFUSED[client].intersection(params)):
        if params[name] != [] and not is_neutral(name, params[name]):
            raise _refusal(name, client, wire)
    omitted = _REFUSED[client] | _NO_EFFECT[client]
    return {name: value for name, value in params.items() if name not in omitted}


def _refusal(name: str, client: WireName, wire: WireName) -> RequestError:
    return RequestError(
        f"{name!r} is a parameter of {_API_NAMES[client]}, and the upstream has another API ({wire}): omit it, or choose an "
        f"upstream with {_API_NAMES[client]}",
        param=name,
        code="unsupported_parameter",
    )


# ---------------------------------------------------------------- translations


def _of_chat(params: _Params, wire: WireName) -> _Params:
    tier = params.get("service_tier")
    if tier is None or wire != "messages":
        return params
    if tier not in _SERVICE_TIERS:
        raise RequestError(
            f"'service_tier': the upstream has another API ({wire}), which knows {' and '.join(_SERVICE_TIERS)} of its values",
            param="service_tier",
            code="unsupported_parameter",
        )
    return {**params, "service_tier": _SERVICE_TIERS[tier]}


def _of_responses(params: _Params, wire: WireName) -> _Params:
    include, reasoning = params.get("include"), params.get("reasoning")
    if isinstance(include, list) and _LOGPROBS in include:
        raise _refusal("include", "responses", wire)
    if isinstance(reasoning, Mapping) and reasoning.keys() <= _REASONING:
        params = _without(params, "reasoning")
    return _of_chat(params, wire)


def _limited(params: _Params, model: str) -> _Params:
    """Returns the parameters with the limit of output tokens under the name that the model's server knows."""
    limit = next((params[name] for name in _LIMITS if params.get(name) is not None), None)
    if limit is None:
        return params
    hosted = _OPENAI_MODEL.match(model.rpartition("/")[2].removeprefix("ft:"))
    rest = {name: value for name, value in params.items() if name not in _LIMITS}
    return {**rest, _LIMITS[1 if hosted else 0]: limit}


def _of_messages(params: _Params, _: WireName) -> _Params:
    if params.get("service_tier") == "standard_only":
        params = {**params, "service_tier": "default"}
    thinking = params.get("thinking")
    if not isinstance(thinking, Mapping):
        return params
    rest, budget = _without(params, "thinking"), thinking.get("budget_tokens")
    return {"reasoning_effort": _effort(budget), **rest} if isinstance(budget, int) else rest


def _effort(budget: int) -> str:
    return next((effort for limit, effort in _EFFORTS if budget < limit), "high")


def _without(params: _Params, name: str) -> _Params:
    return {each: value for each, value in params.items() if each != name}


_TRANSLATIONS: Mapping[WireName, Callable[[_Params, WireName], _Params]] = {
    "chat": _of_chat,
    "responses": _of_responses,
    "messages": _of_messages,
}


# ---------------------------------------------------------------- tools


def _check_tools(request: ModelRequest, wire: WireName) -> None:
    for definition in request.tools:
        kind = definition.get("type", "function")
        if kind not in _FUNCTIONS:
            raise RequestError(
                f"a tool of type {str(kind)[:80]!r} is run by servers of the Responses API, and the upstream has another API "
                f"({wire}): omit the tool, or choose an upstream with the Responses API",
                param="tools",
                code="unsupported_tool",
            )
