"""The gain of forced tool use: success, model calls and time, compared with a single attempt and with nudges (a sentence added to
the message) alone.

python -m benchmarks.escalation [--quick]

The models are scripted and answer behind real HTTP servers. They fail as follows:

- A request that asks for a tool call in words alone, with or without a nudge, is answered without a tool call with probability p,
  independently each time. Real models do not fail independently: they overlook again a tool that they overlooked before. So a
  second table repeats p = 0.5 with stubborn requests: half of the failures are requests that fail whatever the words are, the
  others are as before.
- A server that honours choices always calls a tool if `tool_choice` is `required` or a named tool; a server that ignores choices
  treats such a request like words alone. A server with JSON schemas always answers with JSON that fits the schema; a server
  without them treats such a request like words alone too.
- Every call that is made is the right one, and the servers answer at once. Added milliseconds are CPU time of client and server,
  both in this process, so that other work on the machine does not show; with a real model, add its time for every further call.
- The fallback is a second server of the same kind with p = 0.2 and an escalation of its own, 3 attempts.

"known server": the capability table has a row for the server. "unknown server": it has none, and the provider learns what the
server supports from its answers.

Nothing depends on timing: each failure is drawn from the seed and the numbers of the request and the attempt.
"""

from __future__ import annotations

import logging
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog
import uvloop

from toolcaddie.core.capabilities import Capabilities, capabilities_from
from toolcaddie.core.message import Force, Message, ModelRequest
from toolcaddie.ports import Provider
from toolcaddie.providers.forced import Forced
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.step_statistics import StepStatistics
from toolcaddie.providers.wrapping import Entry
from toolcaddie.testing import Reply, ScriptedUpstream, call, say

REQUESTS = 2_000
SEED = 20_261_121
ATTEMPTS = 3
FALLBACK_P = 0.2
GOAL = 0.99

TOOLS = tuple(
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Finds {name.split('_')[1]}.",
            "parameters": {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]},
        },
    }
    for name in ("search_books", "search_members", "search_loans", "search_rooms")
)
_JSON = say('{"call": {"tool": "search_books", "arguments": {"words": "bees"}}}')
NAMES = tuple(tool["function"]["name"] for tool in TOOLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of server."""

    name: str
    honours_choice: bool
    has_schema: bool

    @property
    def row(self) -> Mapping[str, str]:
        """The row of the capability table for this kind of server."""
        choice = "honoured" if self.honours_choice else "ignored"
        return {"required": choice, "named": choice, "json_schema": "alone" if self.has_schema else "no"}


KINDS = (
    Kind(name="honours everything", honours_choice=True, has_schema=True),
    Kind(name="ignores choice, has JSON schema", honours_choice=False, has_schema=True),
    Kind(name="ignores choice, no JSON schema", honours_choice=False, has_schema=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A way to get a tool call."""

    name: str
    attempts: int = ATTEMPTS
    steps: str = "all"
    """`words`: nudges alone; `all`: the steps that the capability table allows; `unknown`: all steps, for a server without a row
    in the table."""
    fallback: bool = False


STRATEGIES = (
    Strategy(name="single attempt", attempts=1),
    Strategy(name="nudges alone", steps="words"),
    Strategy(name="known server"),
    Strategy(name="unknown server", steps="unknown"),
    Strategy(name="known, and fallback", fallback=True),
)
_WORDS = {"required": "ignored", "named": "ignored", "json_schema": "no"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of a strategy with one model and one kind of server."""

    model: str
    kind: str
    p: float
    strategy: str
    success: float
    """The share of requests with a tool call."""
    gain: float
    """Requests with a tool call, divided by those of a single attempt, minus 1."""
    calls: float
    """Mean number of model calls per request."""
    calls_p95: int
    added_ms: float
    """Mean CPU milliseconds of client and server per request, minus those of a single attempt; the model takes no time."""
    goal: float | None = None


class Model:
    """A scripted model that ignores its tools with probability `p`. `stubborn` is the part of `p` that no further attempt
    changes."""

    def __init__(self, name: str, kind: Kind, p: float, *, stubborn: float, seed: int) -> None:
        self.name = name
        self._kind = kind
        self._p = p
        self._stubborn = stubborn
        self._seed = seed
        self.attempts: Counter[str] = Counter()

    def __call__(self, body: Any) -> Reply:
        number = body["messages"][0]["content"].partition(":")[0]
        self.attempts[number] += 1
        if self._kind.has_schema and "response_format" in body:
            return _JSON
        forced = body.get("tool_choice") not in (None, "auto", "none")
        if (forced and self._kind.honours_choice) or not self._ignores(number):
            return call("search_books", {"words": "bees"}) if "tools" in body else _JSON
        return say("Bees are kept by many people, and much has been written of them.")

    def _ignores(self, number: str) -> bool:
        if self._random(number, "whole request") < self._stubborn:
            return True
        return self._random(number, str(self.attempts[number])) < (self._p - self._stubborn) / (1 - self._stubborn)

    def _random(self, number: str, label: str) -> float:
        return random.Random(f"{self._seed}/{self.name}/{number}/{label}").random()


def run(requests: int = REQUESTS, *, seed: int = SEED) -> list[Row]:
    return uvloop.run(_rows(requests, seed))


async def _rows(requests: int, seed: int) -> list[Row]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    rows: list[Row] = []
    for model, ps in (("independent", (0.2, 0.5, 0.9)), ("stubborn", (0.5,))):
        for kind in KINDS:
            for p in ps:
                stubborn = p / 2 if model == "stubborn" else 0.0
                rows += await _cells(model, kind, p, stubborn, requests, seed)
    structlog.reset_defaults()
    return rows


async def _cells(model: str, kind: Kind, p: float, stubborn: float, requests: int, seed: int) -> list[Row]:
    """Measures all strategies with one kind of server. The first strategy, a single attempt, is the baseline of the others."""
    rows: list[Row] = []
    first: tuple[float, float] | None = None
    for strategy in STRATEGIES:
        measured = await _measured(strategy, kind, p, stubborn, requests, seed)
        success = statistics.fmean(measured.succeeded)
        seconds = statistics.fmean(measured.seconds)
        first = first or (success, seconds)
        rows.append(
            Row(
                model=model,
                kind=kind.name,
                p=p,
                strategy=strategy.name,
                success=success,
                gain=success / first[0] - 1,
                calls=statistics.fmean(measured.calls),
                calls_p95=sorted(measured.calls)[int(0.95 * len(measured.calls))],
                added_ms=(seconds - first[1]) * 1000,
                goal=_goal_of(model, kind, p, strategy),
            )
        )
    return rows


def _goal_of(model: str, kind: Kind, p: float, strategy: Strategy) -> float | None:
    """Returns the goal for p = 0.5 on servers that ignore choices: with the fallback, and without it if there is a schema."""
    if model != "independent" or p != 0.5 or kind.honours_choice:
        return None
    return GOAL if strategy.fallback or (kind.has_schema and strategy.name == "known server") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """The outcome, the number of model calls and the CPU seconds of each request."""

    succeeded: Sequence[bool]
    calls: Sequence[int]
    seconds: Sequence[float]


async def _measured(strategy: Strategy, kind: Kind, p: float, stubborn: float, requests: int, seed: int) -> _Measured:
    """Sends the requests one after another through our provider with this strategy."""
    models = [Model("first", kind, p, stubborn=stubborn, seed=seed)]
    if strategy.fallback:
        models.append(Model("second", kind, FALLBACK_P, stubborn=0.0, seed=seed))
    succeeded, calls, seconds = list[bool](), list[int](), list[float]()
    async with _provider(strategy, kind, models) as provider:
        for number in range(requests):
            message = Message(role="user", content=f"{number}: is there any book on keeping bees?")
            request = ModelRequest(model="m", messages=(message,), tools=TOOLS, force=Force(candidates=NAMES))
            started = time.process_time()
            reply = await provider.complete(request)
            seconds.append(time.process_time() - started)
            succeeded.append(bool(reply.message.tool_calls))
            calls.append(sum(model.attempts[str(number)] for model in models))
    return _Measured(succeeded=succeeded, calls=calls, seconds=seconds)


@asynccontextmanager
async def _provider(strategy: Strategy, kind: Kind, models: Sequence[Model]) -> AsyncIterator[Provider]:
    """Starts a server for each model and yields a provider that forces tool calls; the second server is its fallback."""
    async with AsyncExitStack() as stack:
        servers = []
        for model in models:
            upstream = await stack.enter_async_context(ScriptedUpstream(model))
            server = OpenAIChat(upstream.base_url, "test-key", name=model.name)
            stack.push_async_callback(server.close)
            servers.append(server)
        fallback = Entry(provider=servers[1], model="m", attempts=ATTEMPTS) if strategy.fallback else None
        yield Forced(
            servers[0],
            fallback=fallback,
            attempts=strategy.attempts,
            on_not_called="allow",
            capabilities=_table(strategy, kind),
            statistics=StepStatistics(),
        )


def _table(strategy: Strategy, kind: Kind) -> Sequence[Capabilities]:
    """Returns the capability table that the provider gets."""
    if strategy.steps == "unknown":
        return ()
    return [capabilities_from({"pattern": "*", **(_WORDS if strategy.steps == "words" else kind.row)})]


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns the goals that the rows miss."""
    return [
        f"{row.model} {row.kind} p={row.p} {row.strategy}: {row.success:.2%}"
        for row in rows
        if row.goal is not None and row.success < row.goal
    ]


def main(arguments: Sequence[str] = ()) -> list[Row]:
    rows = run(200) if "--quick" in arguments else run()
    model = kind = None
    for row in rows:
        if row.model != model:
            print(f"\n{row.model} failures")
            print(f"{'p':<6}{'':<22}{'success':>9}{'gain':>8}{'calls':>8}{'p95':>5}{'added ms':>10}{'goal':>8}")
        if row.kind != kind or row.model != model:
            print(f"a server that {row.kind}")
        model, kind = row.model, row.kind
        met = "" if row.goal is None else f"{row.goal:>7.0%} {'met' if row.success >= row.goal else 'MISSED'}"
        print(
            f"{row.p:<6}{row.strategy:<22}{row.success:>9.2%}{row.gain:>+8.0%}{row.calls:>8.2f}{row.calls_p95:>5}"
            f"{row.added_ms:>10.2f} {met}"
        )
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
