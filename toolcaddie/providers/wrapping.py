"""What providers that wrap providers share: whom to ask, what to ask them, and what is written down of an attempt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, TypeVar

import msgspec

from toolcaddie.core.capabilities import Capabilities, capabilities_of
from toolcaddie.core.errors import ProviderError, RequestError
from toolcaddie.core.message import Attempt, ModelDelta, ModelReply, ModelRequest, Usage
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.vocabulary import WireName, wire_named
from toolcaddie.ports import Provider
from toolcaddie.util.replacing import replace

Outcome = Literal["answered", "not_called", "failed"]
Failure = TypeVar("Failure", bound=ProviderError | RequestError)
"""What a provider raises that somebody else may be asked after."""

_MOST_TOOLS = 128
"""Held-back definitions that are sent openly, at most this many in all, to a model that knows no other way and no limit."""
_QUOTED = 300
_COMMON = frozenset(
    {
        *("frequency_penalty", "max_completion_tokens", "max_tokens", "metadata", "n", "parallel_tool_calls"),
        *("presence_penalty", "response_format", "seed", "stop", "stream_options", "temperature", "top_p", "user"),
    }
)
"""Parameters that mean the same to every provider. The others are meant for the model they were set for: another one would
refuse them, and a fallback is there to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One provider of several."""

    provider: Provider
    model: str = ""
    """What it is asked; empty: of the first of several, what the request names, of the others their own default."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Set over those of the request."""
    attempts: int | None = None
    """Forced attempts of its own; None: as many as the first."""

    @property
    def label(self) -> str:
        return f"{self.provider.name}:{self.model}"


def wire_of(provider: Provider) -> WireName:
    """Returns the wire a provider speaks: its `wire`, else the one of its name."""
    wire: WireName = getattr(provider, "wire", None) or wire_named(provider.name)
    return wire


def known_of(entry: Entry, table: Sequence[Capabilities]) -> Capabilities:
    """Returns what `table` says of the entry's model over its provider's wire."""
    return capabilities_of(entry.label, table, wire=wire_of(entry.provider))


def first_request(entry: Entry, request: ModelRequest) -> ModelRequest:
    """The request as the provider it was made for gets it."""
    params = {**(request.params or {}), **entry.params} if entry.params else request.params
    return replace(request, model=entry.model or request.model, params=params)


def other_request(entry: Entry, request: ModelRequest, row: Capabilities) -> ModelRequest:
    """The request as another provider gets it: its own model, the same messages, and of the tools what it can take.

    The caller's headers stay behind, which may hold a key of the first provider.
    """
    params = {name: value for name, value in (request.params or {}).items() if name in _COMMON}
    return replace(
        request,
        model=entry.model,
        params={**params, **entry.params},
        headers=None,
        tools=_tools_for(request, row),
        deferred=request.deferred if row.deferral else frozenset(),
        allowed=request.allowed if row.mask else None,
    )


def _tools_for(request: ModelRequest, row: Capabilities) -> Sequence[JsonObject]:
    """The tools, in their order: openly where the model cannot be shown them later, and no more than it takes."""
    opened, masked = bool(request.deferred) and not row.deferral, request.allowed is not None and not row.mask
    cap = row.tool_cap or (_MOST_TOOLS if opened else len(request.tools))
    if not opened and not masked and len(request.tools) <= cap:
        return request.tools
    names = [tool_name(tool) for tool in request.tools]
    usable = [i for i, name in enumerate(names) if not masked or name in (request.allowed or ())]
    wanted = request.force.candidates if request.force else ()
    hidden = request.deferred.difference(*(message.revealed for message in request.messages)) if opened else ()
    best = sorted(usable, key=lambda i: (names[i] not in wanted, names[i] in hidden))[:cap]
    return [request.tools[i] for i in sorted(best)]


class _Function(msgspec.Struct):
    name: str = ""


class _Definition(msgspec.Struct):
    function: _Function = msgspec.field(default_factory=_Function)


def tool_name(definition: Any) -> str:
    """The name in a definition, encoded or not; empty: it is no function."""
    if isinstance(definition, msgspec.Raw):
        return msgspec.json.decode(definition, type=_Definition).function.name
    return str((definition.get("function") or {}).get("name", ""))


@asynccontextmanager
async def closing(
    items: AsyncIterator[ModelDelta | ModelReply],
) -> AsyncIterator[AsyncIterator[ModelDelta | ModelReply]]:
    """The stream, closed at the end of the block however that comes: its connection must not wait for a collector."""
    try:
        yield items
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


def error_line(error: BaseException) -> str:
    """An error in a line for the list of attempts."""
    return " ".join(str(error).split())[:_QUOTED] or type(error).__name__


def of_answer(entry: Entry, reply: ModelReply, seconds: float) -> tuple[Attempt, ...]:
    """The attempts behind a reply: those that a wrapper below wrote down, or this one."""
    return reply.attempts or (
        Attempt(
            provider=reply.provider or entry.provider.name,
            model=reply.model or entry.model,
            usage=reply.usage,
            seconds=seconds,
        ),
    )


def of_failure(entry: Entry, error: BaseException, seconds: float) -> tuple[Attempt, ...]:
    """The attempts behind an error: those that a wrapper below wrote down, or this one."""
    below: tuple[Attempt, ...] = getattr(error, "attempts", ())
    return below or (
        Attempt(
            provider=entry.provider.name,
            model=entry.model,
            outcome="failed",
            detail=_without_name(error_line(error), entry.provider.name),
            seconds=seconds,
        ),
    )


def _without_name(text: str, name: str) -> str:
    """Errors begin with the provider's name, which an attempt has already."""
    return text.removeprefix(name).removeprefix(":").lstrip() if text.startswith((f"{name}:", f"{name} ")) else text


def failed(error: Failure, attempts: Sequence[Attempt]) -> Failure:
    """`error`, the last of several, as an error of the same class that names every attempt. A copy: a provider may raise the
    same one twice, and is not to find in it what somebody made of it."""
    kind = type(error)
    whole = kind.__new__(kind)  # not its own __init__, which may want anything
    whole.__dict__.update(error.__dict__)
    whole.args = (attempts_text(attempts),) if len(attempts) > 1 else error.args
    whole.attempts = tuple(attempts)
    return whole


_SAID = {"answered": "answered", "not_called": "called no tool", "failed": "failed"}


def attempts_text(attempts: Sequence[Attempt]) -> str:
    """`openai:gpt-test failed 3 times: boom (HTTP 500); ollama:qwen3 failed: cannot be reached ...`."""
    lines = []
    for (label, outcome, detail), equal in groupby(attempts, key=_alike):
        number = len(list(equal))
        times = f" {number} times" if number > 1 else ""
        lines.append(f"{label} {_SAID[outcome]}{times}" + (f": {detail}" if detail else ""))
    return "; ".join(lines)


def _alike(attempt: Attempt) -> tuple[str, str, str]:
    label = f"{attempt.provider}:{attempt.model}".rstrip(":")
    return label, attempt.outcome, attempt.detail if attempt.outcome == "failed" else ""


def with_attempts(reply: ModelReply, attempts: Sequence[Attempt], *, provider: str = "") -> ModelReply:
    """The reply that took all of these; `provider`: who answered."""
    return replace(
        reply,
        attempts=tuple(attempts),
        usage=sum((attempt.usage for attempt in attempts), Usage()),
        provider=reply.provider or provider,
    )
