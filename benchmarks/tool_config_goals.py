"""Measures the goals of `tool_config` on whole runs: more successful tool calls, less latency, less cost.

python -m benchmarks.tool_config_goals [--quick]

An agent with `tool_config` is compared with an agent without it. Each is a `Runtime` that calls a scripted model behind a real
HTTP server. There are three parts:

- **Forcing.** The model answers a request in words with probability p, independently each time, and otherwise calls the right
  tool; the servers are those of `benchmarks.escalation`. A chat succeeds if the tool ran. The fallback is a second server of the
  same kind, with p = 0.2. If few chats fail without forcing, even perfect forcing cannot gain 80 %; `possible` is the gain of
  perfect forcing.
- **Cache.** The model takes 20 ms per answer and the tool 100 ms; a share of the chats repeats an earlier question. The saving
  depends on these three values alone. Only the share is varied; the saving for other times can be calculated.
- **Retries.** The agent has a system prompt and four tools, some 500 tokens. The model ignores them with probability p, on a
  server that ignores choices and has JSON schemas; the tool fails with probability q. Without `tool_config`, a user asks again in
  a new chat, at most five times in all. With it, attempts, the escalation and the tool's retries happen inside one chat; a user
  who still has no answer asks again as well. Tokens are counted by the size of the requests. Cost is that of all chats, divided
  by the number of answers.

Only the milliseconds depend on timing: the model's behaviour is drawn from the seed and the numbers of the chat and the attempt.
"""

from __future__ import annotations

import asyncio
import logging
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import structlog
import uvloop

from benchmarks import escalation
from toolcaddie import Message, RunRequest, Runtime, tool
from toolcaddie.core.capabilities import capabilities_from
from toolcaddie.core.schema import estimate_tokens
from toolcaddie.core.usage import Usage
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.testing import Reply, ScriptedUpstream, call, say

REQUESTS, QUICK = 1_000, 150
SEED = 20_261_121
FALLBACK_P = 0.2
MOST_TRIES = 5
AT_ONCE = 20
TOOL_SECONDS, MODEL_SECONDS = 0.1, 0.02
CALL_GOAL, LATENCY_GOAL, COST_GOAL = 0.8, 0.4, 0.3

_NOT_FOUND = say("The search failed, so I cannot tell.")
_CONFIG = {"forceToolUse": True, "maxRetries": 3}
_PROMPT = "You help the visitors of a public library. Be short, and say where a book stands. " * 12
_FOUND = say("There are two books on that, and both can be borrowed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forcing:
    """The figures of forcing with one kind of server."""

    kind: str
    p: float
    alone: float
    """The share of chats whose tool ran, without `tool_config`."""
    forced: float
    """The share of chats whose tool ran, with `tool_config`."""
    with_fallback: float
    """The share of chats whose tool ran, with `tool_config` and a fallback."""

    @property
    def gain(self) -> float:
        """Share of chats whose tool ran with forcing, divided by the share without it, minus 1."""
        return self.forced / self.alone - 1

    @property
    def possible(self) -> float:
        """The gain if every chat succeeded."""
        return 1 / self.alone - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Caching:
    """The figures of the cache for one share of repeated questions."""

    repeated: float
    """The probability that a chat repeats an earlier question."""
    hits: float
    """The share of chats that repeated an earlier question."""
    without_ms: float
    """The median time of a chat without the cache."""
    miss_ms: float
    """The median time of the chats whose tool ran."""
    hit_ms: float
    """The median time of the chats whose result came from the cache."""

    @property
    def with_ms(self) -> float:
        """The time of a chat with the cache: both medians, weighted by their shares. An average would include every pause of the
        machine."""
        return self.hits * self.hit_ms + (1 - self.hits) * self.miss_ms

    @property
    def saved(self) -> float:
        return 1 - self.with_ms / self.without_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of an answer."""

    tokens: float
    calls: float
    answered: float
    """The share of the questions that were answered in the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """The cost of an answer if the model ignores its tools with probability `p` and the tool fails with probability `q`:
    `without` `tool_config`, where the user asks again, and `retried` with it."""

    p: float
    q: float
    without: Cost
    retried: Cost

    @property
    def saved(self) -> float:
        """The share of tokens saved."""
        return 1 - self.retried.tokens / self.without.tokens


Row = Forcing | Caching | Retrying


class Library:
    """A tool that fails with a certain probability, and counts its runs by the words searched for."""

    def __init__(self, *, fails: float = 0.0, seconds: float = 0.0) -> None:
        self.runs: Counter[str] = Counter()
        self._fails = fails
        self._seconds = seconds

    def source(self) -> Callable[..., Any]:
        @tool(read_only=True)
        async def search_books(words: str) -> list[str]:
            """Find books by words of their titles."""
            self.runs[words] += 1
            if self._seconds:
                await asyncio.sleep(self._seconds)
            if _random("tool", words, self.runs[words]) < self._fails:
                raise OSError("the catalog is being written to")
            return ["The Hive", "Keeping Bees"]

        return search_books

    def others(self) -> list[Callable[..., Any]]:
        """Returns tools that are sent together with the right one."""
        return [_beside(name) for name in escalation.NAMES[1:]]


def _beside(name: str) -> Callable[..., Any]:
    """Returns a tool that is sent together with the right one and is never the right one."""

    @tool(name=name, read_only=True)
    def other(words: str, branch: str = "main", limit: int = 10) -> list[str]:
        """Find entries of the library by words, in one of its branches, the best ones first."""
        return []

    return other


class Model:
    """The model of `benchmarks.escalation` until its tool has run; then it reports the result.

    Questions are "number: words". It searches for the number, so that each chat has a different tool call.
    """

    def __init__(self, kind: escalation.Kind, p: float, *, name: str = "first") -> None:
        self._picks = escalation.Model(name, kind, p, stubborn=0.0, seed=SEED)
        self.calls = 0

    def __call__(self, body: Any) -> Reply:
        self.calls += 1
        messages = _without_prompt(body)
        if messages[-1]["role"] == "tool":
            return with_usage(_FOUND if "Bees" in messages[-1]["content"] else _NOT_FOUND, body)
        return with_usage(_about(self._picks({**body, "messages": messages}), _number(messages)), body)


def _without_prompt(body: Any) -> list[Any]:
    return [message for message in body["messages"] if message["role"] != "system"]


def _number(messages: Sequence[Any]) -> str:
    return str(messages[0]["content"].partition(":")[0])


def _about(reply: Reply, number: str) -> Reply:
    """Returns the answer of the escalation's model, with the number of this chat as the words to search for."""
    calls = tuple(replace(each, arguments=each.arguments.replace("bees", number)) for each in reply.calls)
    text = reply.text
    return replace(reply, calls=calls, text=text.replace("bees", number) if text and text.startswith("{") else text)


def with_usage(reply: Reply, body: Any) -> Reply:
    """Returns the answer with the tokens of the request and of the answer."""
    output_tokens = estimate_tokens(msgspec.json.encode([reply.text, [each.arguments for each in reply.calls]]))
    return replace(
        reply, usage=Usage(input_tokens=estimate_tokens(msgspec.json.encode(body)), output_tokens=output_tokens)
    )


# ---------------------------------------------------------------- forcing


async def forcing(requests: int, kind: escalation.Kind, p: float) -> Forcing:
    alone = await _success(requests, kind, p, None)
    forced = await _success(requests, kind, p, _CONFIG)
    async with ScriptedUpstream(Model(kind, FALLBACK_P, name="second")) as second:
        other = {"provider": "openai", "model": "m", "apiKey": "test-key", "baseUrl": second.base_url}
        with_fallback = await _success(requests, kind, p, {**_CONFIG, "fallbackProvider": other})
    return Forcing(kind=kind.name, p=p, alone=alone, forced=forced, with_fallback=with_fallback)


async def _success(requests: int, kind: escalation.Kind, p: float, config: Mapping[str, Any] | None) -> float:
    library = Library()
    async with _agent(Model(kind, p), library, config, kind) as runtime:
        await _each(requests, lambda number: runtime.run(_chat(number)))
    return len(library.runs) / requests


# ---------------------------------------------------------------- the cache


async def caching(
    requests: int, repeated: float, *, tool_seconds: float = TOOL_SECONDS, model_seconds: float = MODEL_SECONDS
) -> Caching:
    async def model(body: Any) -> Reply:
        await asyncio.sleep(model_seconds)
        messages = _without_prompt(body)
        return _FOUND if messages[-1]["role"] == "tool" else call("search_books", {"words": _number(messages)})

    questions = _questions(requests, repeated)
    hits = [number in questions[:place] for place, number in enumerate(questions)]
    without = await _milliseconds(model, questions, tool_seconds, _CONFIG)
    cached = await _milliseconds(model, questions, tool_seconds, {**_CONFIG, "cacheResults": {"maxSize": requests}})
    return Caching(
        repeated=repeated,
        hits=statistics.fmean(hits),
        without_ms=statistics.median(without),
        miss_ms=statistics.median(ms for ms, hit in zip(cached, hits, strict=True) if not hit),
        hit_ms=statistics.median(ms for ms, hit in zip(cached, hits, strict=True) if hit),
    )


def _questions(requests: int, repeated: float) -> list[int]:
    """Returns the numbers of questions. The share `repeated` of them repeats an earlier question."""
    chance, questions = random.Random(SEED), [0]
    while len(questions) < requests:
        again = chance.random() < repeated
        questions.append(chance.choice(questions) if again else len(questions))
    return questions


async def _milliseconds(
    model: Any, questions: Sequence[int], tool_seconds: float, config: Mapping[str, Any]
) -> list[float]:
    """Returns the time of each chat; they run one after another."""
    times: list[float] = []
    async with _agent(model, Library(seconds=tool_seconds), config, escalation.KINDS[0]) as runtime:
        for number in questions:
            started = time.perf_counter()
            await runtime.run(_chat(number))
            times.append((time.perf_counter() - started) * 1000)
    return times


# ---------------------------------------------------------------- retries


async def retrying(requests: int, p: float, q: float) -> Retrying:
    kind = escalation.KINDS[1]
    return Retrying(
        p=p,
        q=q,
        without=await _cost(requests, kind, p, q, None),
        retried=await _cost(requests, kind, p, q, _CONFIG),
    )


async def _cost(requests: int, kind: escalation.Kind, p: float, q: float, config: Mapping[str, Any] | None) -> Cost:
    """Returns the cost of an answer if a user without one asks again in a new chat, at most five times in all."""
    model, tokens, answered = Model(kind, p), 0, 0
    async with _agent(model, Library(fails=q), config, kind) as runtime:

        async def ask(number: int) -> None:
            nonlocal tokens, answered
            for attempt in range(MOST_TRIES):
                result = await runtime.run(_chat(number, attempt))
                tokens += result.usage.input_tokens + result.usage.output_tokens
                if result.text == _FOUND.text:
                    answered += 1
                    return

        await _each(requests, ask)
    return Cost(tokens=tokens / answered, calls=model.calls / answered, answered=answered / requests)


# ---------------------------------------------------------------- shared by all


def _chat(number: int, attempt: int = 0) -> RunRequest:
    """Returns a request that begins with the number of the chat, so that each chat of a question is different."""
    text = f"{number}.{attempt}: is there any book on keeping bees?"
    return RunRequest(messages=(Message(role="system", content=_PROMPT), Message(role="user", content=text)))


def _random(*label: object) -> float:
    return random.Random(f"{SEED}/{label}").random()


async def _each(requests: int, ask: Callable[[int], Any]) -> None:
    """Calls `ask` with the number of each request, at most 20 at the same time."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with places:
            await ask(number)

    async with asyncio.TaskGroup() as tasks:
        for number in range(requests):
            tasks.create_task(one(number))


@asynccontextmanager
async def _agent(
    model: Any, library: Library, config: Mapping[str, Any] | None, kind: escalation.Kind
) -> AsyncIterator[Runtime]:
    async with ScriptedUpstream(model) as upstream:
        runtime = Runtime(
            provider=OpenAIChat(upstream.base_url, "test-key"),
            model="m",
            sources=[library.source(), *library.others()],
            tool_config=config,
            capabilities=(capabilities_from({"pattern": "*", **kind.row}),),
        )
        try:
            yield runtime
        finally:
            await runtime.close()


async def _rows(requests: int) -> list[Row]:
    rows: list[Row] = [await forcing(requests, kind, p) for kind in escalation.KINDS for p in (0.2, 0.5, 0.9)]
    rows += [await caching(max(40, requests // 10), repeated) for repeated in (0.25, 0.5, 0.75, 0.9)]
    return rows + [await retrying(requests, p, q) for p, q in ((0.2, 0.1), (0.5, 0.1), (0.5, 0.3), (0.9, 0.3))]


def run(requests: int = REQUESTS) -> list[Row]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        return uvloop.run(_rows(requests))
    finally:
        structlog.reset_defaults()


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns the goals that the rows miss."""
    return [line for row in rows if (line := _miss(row))]


def _miss(row: Row) -> str:
    match row:
        case Forcing():
            return "" if row.gain >= CALL_GOAL else f"{row.kind} p={row.p}: {row.gain:+.0%} calls"
        case Caching():
            return "" if row.saved >= LATENCY_GOAL else f"{row.repeated:.0%} repeated: {row.saved:.0%} saved"
        case Retrying():
            return "" if row.saved >= COST_GOAL else f"p={row.p} q={row.q}: {row.saved:.0%} saved"


def main(arguments: Sequence[str] = ()) -> list[Row]:
    rows = run(QUICK if "--quick" in arguments else REQUESTS)
    print(_head("a tool was called", "p", "alone", "forced", "fallback", "gain", "most", goal=CALL_GOAL))
    for row in rows:
        if isinstance(row, Forcing):
            shares = [f"{share:.1%}" for share in (row.alone, row.forced, row.with_fallback)]
            print(
                _line(row.kind, row.p, *shares, f"{row.gain:+.0%}", f"{row.possible:+.0%}", _met(row.gain, CALL_GOAL))
            )
    print(_head("ms a chat, by share repeated", "without", "cache", "miss", "hit", "saved", goal=LATENCY_GOAL))
    for row in rows:
        if isinstance(row, Caching):
            times = [f"{ms:.0f}" for ms in (row.without_ms, row.with_ms, row.miss_ms, row.hit_ms)]
            print(_line(f"{row.repeated:.0%}", *times, f"{row.saved:.0%}", _met(row.saved, LATENCY_GOAL)))
    print(_head("an answer costs", "p", "q", "tokens", "calls", "answered", "saved", goal=COST_GOAL))
    for row in rows:
        if isinstance(row, Retrying):
            print(_line("  asked again by hand", row.p, row.q, *_figures(row.without)))
            print(
                _line("  tool_config", "", "", *_figures(row.retried), f"{row.saved:.0%}", _met(row.saved, COST_GOAL))
            )
    return rows


def _figures(cost: Cost) -> tuple[str, str, str]:
    return f"{cost.tokens:,.0f}", f"{cost.calls:.2f}", f"{cost.answered:.1%}"


def _head(*words: str, goal: float) -> str:
    return f"\n{_line(*words)}   goal {goal:.0%}"


def _line(first: str, *rest: object) -> str:
    return f"{first:<32}" + "".join(f"{word!s:>9}" for word in rest)


def _met(value: float, goal: float) -> str:
    return "   met" if value >= goal else "   MISSED"


if __name__ == "__main__":
    main(sys.argv[1:])
