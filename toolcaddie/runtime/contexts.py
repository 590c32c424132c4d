"""Makes the context of a run: the values that stay the same from its beginning to its end, such as principal, view and model."""

from __future__ import annotations

import hashlib

from toolcaddie.core.catalog import View
from toolcaddie.core.run import RunContext, RunRequest
from toolcaddie.runtime.dependencies import Dependencies
from toolcaddie.util.random_ids import random_id


def context_of(request: RunRequest, view: View, model: str, dependencies: Dependencies) -> RunContext:
    """Returns the context of a request's run. Raises `RequestError` for a missing dependency."""
    return RunContext(
        run_id=request.run_id or f"run_{random_id()}",
        principal=request.principal,
        view=view,
        model=model,
        conversation=request.conversation_name,
        params=request.params,
        headers=request.headers,
        tool_choice=request.tool_choice,
        essential=tuple(request.essential),
        injected=request.injected,
        cache_key=_cache_key(request),
        client_wire=request.client_wire,
        mode=request.mode,
        inherited=request.inherited,
        recalled=request.recalled,
        dependencies=dependencies.of(request),
    )


def conversation_digest(request: RunRequest) -> str:
    """Returns a digest of the conversation of a request, for the record of its run; empty: there is no conversation.

    A conversation that its client only sends again has no name. It is known by its messages up to the first one of the user, so
    two conversations of one person with one bot that begin with the same words count as one.
    """
    name = request.conversation_name or request.cache_key
    return _digest(*request.principal.owner, request.principal.bot or "", name)[:16] if name else ""


def _cache_key(request: RunRequest) -> str:
    """Returns the key by which a provider sends requests of one conversation to the same prompt cache; empty: there is none. A
    key of the caller's own is among the request's parameters and is used instead."""
    name = request.cache_key or (request.conversation if isinstance(request.conversation, str) else "")
    if "prompt_cache_key" in request.params or not name:
        return ""
    return _digest(*request.principal.owner, name)[:32]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
