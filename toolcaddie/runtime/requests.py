"""Requests and their contexts: read from what a caller hands over, and made by one of the bots."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

from toolcaddie.control.bots import Bots, unknown_tools
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import RequestError
from toolcaddie.core.run import RunContext, RunRequest
from toolcaddie.inputs.requests import RequestInput, request_from
from toolcaddie.runtime.dependencies import Dependencies
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.util.replacing import replace


def read_request(
    argument: RequestInput, options: Mapping[str, Any], *, bots: Bots, source: CombinedSource
) -> RunRequest:
    """Returns the request, made by one of the bots if there are any. `source`: whose tools may be
    disabled.

    Raises `RequestError` for names that nothing has.
    """
    request = request_from(argument, options)
    principal = bots.identified(request.principal)
    if principal is not request.principal:
        request = replace(request, principal=principal)
    if request.disabled_tools:
        _check_disabled(request, source.snapshot())
    return request


def _check_disabled(request: RunRequest, catalog: Catalog) -> None:
    client_names = {tool.name for tool in request.client_tools}
    own_names = [name for name in request.disabled_tools if name not in client_names]
    if unknown := list(unknown_tools("disabled_tools", own_names, catalog)):
        raise RequestError("; ".join(unknown), param="disabled_tools")


def context_of(request: RunRequest, view: View, model: str, dependencies: Dependencies) -> RunContext:
    """Raises `RequestError` for a dependency that is missing."""
    return RunContext(
        run_id=request.run_id or f"run_{uuid.uuid4().hex}",
        principal=request.principal,
        view=view,
        model=model,
        params=request.params,
        headers=request.headers,
        tool_choice=request.tool_choice,
        essential=tuple(request.essential),
        injected=request.injected,
        cache_key=_cache_key(request),
        dependencies=dependencies.of(request),
    )


def _cache_key(request: RunRequest) -> str:
    """Returns what a provider routes a conversation by. A caller's own key is among the parameters and stays."""
    name = request.cache_key or (request.conversation if isinstance(request.conversation, str) else "")
    if "prompt_cache_key" in request.params or not name:
        return ""
    return hashlib.sha256("\n".join((*request.principal.owner, name)).encode()).hexdigest()[:32]
