"""Adapts a request of a client of the Responses API to a provider with another API (wire): omits parameters that only describe
how this API shows its answer, and refuses tools that only its servers can run. Providers use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.vocabulary import WireName
from toolcaddie.util.replacing import replace

_WIRE: WireName = "responses"
_HINTS = ("client_metadata", "include")
"""Parameters that add details to answers of this API, or say who asks. The answer is complete without them."""
_REASONING = frozenset({"summary", "generate_summary", "context"})
"""Fields of the parameter `reasoning` that say which reasoning is shown. The effort is a parameter of its own."""
_FUNCTIONS = ("function", "custom")


def for_wire(request: ModelRequest, wire: WireName) -> ModelRequest:
    """Returns the request as a provider of this wire can take it. Raises `RequestError` naming a tool that it cannot run."""
    if request.client_wire != _WIRE or wire == _WIRE:
        return request
    _check_tools(request, wire)
    params = request.params or {}
    omitted = {name for name in _HINTS if name in params}
    if _only_shows(params.get("reasoning")):
        omitted.add("reasoning")
    if not omitted:
        return request
    return replace(request, params={name: value for name, value in params.items() if name not in omitted})


def _only_shows(reasoning: Any) -> bool:
    return isinstance(reasoning, Mapping) and reasoning.keys() <= _REASONING


def _check_tools(request: ModelRequest, wire: WireName) -> None:
    for definition in request.tools:
        kind = definition.get("type", "function")
        if kind not in _FUNCTIONS:
            raise RequestError(
                f"a tool of type {str(kind)[:80]!r} is run by servers of the Responses API, and the upstream has another API "
                f"({wire}): leave the tool out, or choose an upstream with the Responses API",
                param="tools",
                code="unsupported_tool",
            )
