"""Records the runs of the large database of the console: ten events each, written by the product's own log, so each row is in the
chain of the trail. A run with 4,000 events and one to which 10,000 tools were sent come last."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolcaddie.core.storage import EventRecord
from toolcaddie.ports import EventLog

EVENTS = 10
"""Events of a run."""
LONG, WHOLE = "run_long", "run_whole"
DAYS = 60.0
"""The runs of the trail are spread over so many days, which end now."""
MODELS = ("gpt-5-mini", "claude-sonnet-5-5", "gemini-3-flash")
BOTS = ("desk", "hall", "coach", "cellar", "night")
_SENT = 20
"""Number of tools that a run is sent."""
_AT_ONCE = 1_000
"""Number of runs after which the queue is written."""
_DAY = 86_400.0

Fact = tuple[str, Mapping[str, Any]]


def run_name(number: int) -> str:
    return f"run_{number:032x}"


async def record_runs(log: EventLog, runs: int, names: Sequence[str], categories: Sequence[str]) -> None:
    """Records runs that use the tools `names`, some of them far more often than others."""
    chance = random.Random(17)
    begun = time.time() - DAYS * _DAY
    spacing = DAYS * _DAY / (runs + 2)
    for number in range(runs):
        _append(log, run_name(number), begun + number * spacing, _facts(number, chance, names, categories))
        if number % _AT_ONCE == 0:
            await log.flush()
            await asyncio.sleep(0)
    few, end = list(_run("a long one", _principal(chance), names[1], names[:1], categories, "completed")), time.time()
    rounds = [fact for _ in range(1_000) for fact in few[3:7]]
    _append(log, LONG, end - 2 * spacing, [*few[:3], *rounds, *few[-3:]])
    _append(log, WHOLE, end - spacing, _run("all tools", _principal(chance), names[1], names, categories, "completed"))
    await log.flush()


def _append(log: EventLog, run_id: str, at: float, facts: Iterator[Fact] | Sequence[Fact]) -> None:
    for seq, (kind, data) in enumerate(facts, start=1):
        log.append(EventRecord(run_id=run_id, seq=seq, at=at + seq * 0.1, kind=kind, data=data))


def _facts(number: int, chance: random.Random, names: Sequence[str], categories: Sequence[str]) -> Iterator[Fact]:
    status = chance.choices(("completed", "failed", "pending"), (94, 5, 1))[0]
    message = (
        f"please {'find the needle' if number % 40_000 == 7 else 'freeze the membership'} of client {number}, "
        + ("and tell me what it costs. " * chance.randrange(6))
    )
    sent = list(dict.fromkeys(names[int(len(names) * chance.random() ** 3)] for _ in range(_SENT)))
    tool = "rare_tool" if number % 50_000 == 11 else names[chance.randrange(6)] if chance.random() < 0.7 else sent[-1]
    return _run(message, _principal(chance), tool, sent, categories, status, chance=chance)


def _principal(chance: random.Random) -> Mapping[str, Any]:
    return {
        "id": f"person_{chance.randrange(500)}",
        "bot": chance.choice((*BOTS, None)),
        "role": None,
        "tenant": chance.choices(("default", "acme", "north"), (80, 15, 5))[0],
        "channel": "gateway",
    }


def _run(
    message: str,
    principal: Mapping[str, Any],
    tool: str,
    sent: Sequence[str],
    categories: Sequence[str],
    status: str,
    *,
    chance: random.Random | None = None,
) -> Iterator[Fact]:
    """Yields the ten events of a run."""
    chance = chance or random.Random(1)
    model = chance.choice(MODELS)
    one = {"id": "call_1", "name": tool, "arguments": '{"client": "John"}'}
    usage = {"input": 900, "output": 40, "cached": 500, "written": 0, "reasoning": 0}
    matched = [chance.choice(categories)]
    yield (
        "run_started",
        {"principal": principal, "preset": "default", "model": model, "message": message, "catalog_size": 10_000},
    )
    yield "tools_selected", _selection(sent, matched)
    yield "tools_delivered", _delivery(sent)
    yield "model_asked", {"round": 1, "provider": "openai", "model": model, "tools": len(sent)}
    yield "model_answered", {"round": 1, "text": "", "calls": [one], "usage": usage, "model": model, "seconds": 0.7}
    if chance.random() < 0.05:
        search = {"name": "search_tools", "arguments": f'{{"query": "words {chance.randrange(2_000)}"}}'}
        yield "meta_called", {**search, "id": "call_0", "content": '{"total": 0, "tools": []}', "added": []}
    else:
        yield "call_decided", {**one, "verdict": "allow", "reason": "", "rule": "default"}
    failure = {"error": "timeout"} if chance.random() < 0.03 else {}
    yield "call_finished", {**one, "content": "{}", "seconds": 0.1, "number": 1, **failure}
    yield "model_asked", {"round": 2, "provider": "openai", "model": model, "tools": len(sent)}
    answer = {"round": 2, "text": "It is done.", "calls": [], "usage": usage, "model": model, "seconds": 0.6}
    yield "model_answered", answer
    ending = {"status": status, "text": "It is done.", "calls": 1, "rounds": 2, "seconds": 1.5}
    yield "run_paused" if status == "pending" else "run_finished", ending


def _selection(sent: Sequence[str], matched: Sequence[str]) -> Mapping[str, Any]:
    return {
        "tools": [
            {"name": name, "category": matched[0], "score": 0.5, "reasons": ["keyword: client"]} for name in sent
        ],
        "dropped": [
            {"name": f"dropped_{n}", "stage": "floor", "detail": "0.1 is below", "score": 0.1} for n in range(50)
        ],
        "dropped_by_stage": {"floor": 50, "no_match": 130},
        "categories": matched,
        "matched": matched,
        "counts": {"catalog": 10_000, "selected": len(sent)},
        "seconds": 0.01,
    }


def _delivery(sent: Sequence[str]) -> Mapping[str, Any]:
    options = [
        {"strategy": name, "tokens": tokens, "expected": 0.001, "dollars": dollars}
        for name, tokens, dollars in (("direct", 900, 0.0009), ("meta", 400, 0.0012), ("deferred", 700, 0.0010))
    ]
    return {
        "round": 1,
        "strategy": "direct",
        "meta": [],
        "tools": list(sent),
        "tokens": {"all": 9000, "sent": 900},
        "options": options,
        "note": "the best of the selection",
        "later_by": "array",
    }
