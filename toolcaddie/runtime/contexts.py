"""The context of a run: what stays the same from its beginning to its end."""

from __future__ import annotations

import hashlib
import uuid

from toolcaddie.core.catalog import View
from toolcaddie.core.run import RunContext, RunRequest
from toolcaddie.runtime.dependencies import Dependencies


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
