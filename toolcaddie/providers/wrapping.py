"""The parts that wrapping providers share: entries, the requests for them, and the records of attempts.

A wrapping provider sends its requests through other providers: `Retry`, `Fallback`, `Forced`, `Checked`. A `row` is the row of
the capability table for one model.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, TypeVar

import msgspec

from toolcaddie.core.capabilities import Capabilities, capabilities_of
from toolcaddie.core.errors import ProviderError, RequestError
from toolcaddie.core.message import Attempt, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.usage import Usage
from toolcaddie.core.vocabulary import WireName, wire_named
from toolcaddie.ports import Provider
from toolcaddie.util.replacing import replace

Outcome = Literal["answered", "not_called", "failed"]
"""Outcome of an attempt; not_called: the answer called no tool although it had to."""
Failure = TypeVar("Failure", bound=ProviderError | RequestError)
"""An error after which another provider may receive the request."""

_MOST_TOOLS = 128
"""Largest number of definitions sent to a model that has no deferral and no known limit, if some of them were deferred."""
_QUOTED = 300
"""Largest number of characters of an error in the list of attempts."""
_COMMON = frozenset(
    {
        *("frequency_penalty", "max_completion_tokens", "max_tokens", "metadata", "n", "parallel_tool_calls"),
        *("presence_penalty", "response_format", "seed", "stop", "stream_options", "temperature", "top_p", "user"),
    }
)
"""Parameters that mean the same to every provider. Other parameters are sent only to the model that the request names, because
another provider might refuse them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A provider that a wrapping provider uses, and its settings."""

    provider: Provider
    model: str = ""
    """The model to request. Empty: for the first entry, the model of the request; for the others, the provider's default."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that override those of the request."""
    attempts: int | None = None
    """Number of forced attempts (see `forced`); None: as many as the first entry has."""

    @property
    def label(self) -> str:
        return f"{self.provider.name}:{self.model}"


def wire_of(provider: Provider) -> WireName:
    """Returns the name of the API (wire) that a provider uses: its `wire`, or else the wire that its name stands for."""
    wire: WireName = getattr(provider, "wire", None) or wire_named(provider.name)
    return wire


def capabilities_for(entry: Entry, table: Sequence[Capabilities]) -> Capabilities:
    """Returns the capabilities of the entry's model over its provider's wire, by `table`."""
    return capabilities_of(entry.label, table, wire=wire_of(entry.provider))


def first_request(entry: Entry, request: ModelRequest) -> ModelRequest:
    """Returns the request for the first provider."""
    params = {**(request.params or {}), **entry.params} if entry.params else request.params
    return replace(request, model=entry.model or request.model, params=params)


def other_request(entry: Entry, request: ModelRequest, row: Capabilities) -> ModelRequest:
    """Returns the request for another provider: its own model, the same messages, and the tools that it can take.

    The caller's headers are omitted, because they may hold a key for the first provider.
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
    """Returns the tools in their order, at most as many as the model accepts.

    Deferred tools are sent at once to a model that does not support deferral. Tools that may not be called are omitted for a
    model that does not support masks.
    """
    ends_deferral, ends_mask = bool(request.deferred) and not row.deferral, request.allowed is not None and not row.mask
    cap = row.tool_cap or (_MOST_TOOLS if ends_deferral else len(request.tools))
    if not ends_deferral and not ends_mask and len(request.tools) <= cap:
        return request.tools
    names = [tool_name(tool) for tool in request.tools]
    usable = [i for i, name in enumerate(names) if not ends_mask or name in (request.allowed or ())]
    candidates = request.force.candidates if request.force else ()
    hidden = request.deferred.difference(*(message.revealed for message in request.messages)) if ends_deferral else ()
    best = sorted(usable, key=lambda i: (names[i] not in candidates, names[i] in hidden))[:cap]
    return [request.tools[i] for i in sorted(best)]


class _Function(msgspec.Struct):
    name: str = ""


class _Definition(msgspec.Struct):
    function: _Function = msgspec.field(default_factory=_Function)


def tool_name(definition: Any) -> str:
    """Returns the name in a definition, encoded or decoded; empty: it is not the definition of a function."""
    if isinstance(definition, msgspec.Raw):
        return msgspec.json.decode(definition, type=_Definition).function.name
    return str((definition.get("function") or {}).get("name", ""))


@asynccontextmanager
async def closing(
    items: AsyncIterator[ModelDelta | ModelReply],
) -> AsyncIterator[AsyncIterator[ModelDelta | ModelReply]]:
    """Yields the stream, and closes it at the end of the block so that the connection is released at once."""
    try:
        yield items
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


def error_line(error: BaseException) -> str:
    """Returns an error as one line for the list of attempts."""
    return " ".join(str(error).split())[:_QUOTED] or type(error).__name__


def attempts_of_answer(entry: Entry, reply: ModelReply, seconds: float) -> tuple[Attempt, ...]:
    """Returns the attempts behind a reply: those that an inner wrapper recorded, or this one."""
    return reply.attempts or (
        Attempt(
            provider=reply.provider or entry.provider.name,
            model=reply.model or entry.model,
            usage=reply.usage,
            seconds=seconds,
        ),
    )


def attempts_of_failure(entry: Entry, error: BaseException, seconds: float) -> tuple[Attempt, ...]:
    """Returns the attempts behind an error: those that an inner wrapper recorded, or this one."""
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
    """Returns an error's text without the provider's name at its beginning, which an attempt has already."""
    return text.removeprefix(name).removeprefix(":").lstrip() if text.startswith((f"{name}:", f"{name} ")) else text


def error_with_attempts(error: Failure, attempts: Sequence[Attempt]) -> Failure:
    """Returns a copy of `error`, the last of several, that names every attempt.

    The error itself stays unchanged, because a provider may raise the same object twice.
    """
    kind = type(error)
    copied = kind.__new__(kind)  # without `__init__`, whose parameters are unknown
    copied.__dict__.update(error.__dict__)
    copied.args = (attempts_text(attempts),) if len(attempts) > 1 else error.args
    copied.attempts = tuple(attempts)
    return copied


_OUTCOMES = {"answered": "answered", "not_called": "called no tool", "failed": "failed"}


def attempts_text(attempts: Sequence[Attempt]) -> str:
    """Returns the attempts as a text, such as `openai:gpt-test failed 3 times: boom (HTTP 500); ollama:qwen3 failed: timeout`."""
    lines = []
    for (label, outcome, detail), equal in groupby(attempts, key=_alike):
        number = len(list(equal))
        times = f" {number} times" if number > 1 else ""
        lines.append(f"{label} {_OUTCOMES[outcome]}{times}" + (f": {detail}" if detail else ""))
    return "; ".join(lines)


def _alike(attempt: Attempt) -> tuple[str, str, str]:
    label = f"{attempt.provider}:{attempt.model}".rstrip(":")
    return label, attempt.outcome, attempt.detail if attempt.outcome == "failed" else ""


def with_attempts(reply: ModelReply, attempts: Sequence[Attempt], *, provider: str = "") -> ModelReply:
    """Returns the reply with these attempts and the sum of their usage. `provider` is the name of the provider that answered."""
    return replace(
        reply,
        attempts=tuple(attempts),
        usage=sum((attempt.usage for attempt in attempts), Usage()),
        provider=reply.provider or provider,
    )
