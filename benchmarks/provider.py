"""The CPU of a model call through each of our adapters, compared with the official package of the same API.

python -m benchmarks.provider
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import uvloop

from benchmarks.upstream import Upstream
from benchmarks.wires import KINDS, Call, Contest, contests
from toolcaddie.providers.openai_chat import OpenAIChat

ROUNDS = 7
CALLS = 200
GOAL = 1 / 3
"""Goal: the largest share of the official package's CPU that our adapter may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The CPU milliseconds of one call, medians over the rounds."""

    wire: str
    kind: str
    ours_ms: float
    package: str
    package_ms: float
    part: float
    """CPU of our adapter divided by that of the official package: the median of the ratios of all rounds, which a busy machine
    disturbs less than the two figures."""
    forward_ms: float | None = None
    """CPU of a request whose answer is passed through unread; None: the adapter has no such way."""


def run(rounds: int = ROUNDS, calls: int = CALLS) -> list[Row]:
    """Runs the two clients of each API in turns within one process, so that other work on the machine affects both of them."""
    with Upstream() as upstream:
        return uvloop.run(_measured(upstream.root, rounds, calls))


async def _measured(root: str, rounds: int, calls: int) -> list[Row]:
    rows = []
    for contest in contests(root):
        rows += [await _row(contest, kind, rounds, calls) for kind in KINDS]
        await contest.ours.close()
        await contest.close()
    return rows


async def _row(contest: Contest, kind: str, rounds: int, calls: int) -> Row:
    """Measures both clients of an API with one kind of request, and passing the answer through where our adapter can."""
    contestants = [contest.our_calls()[kind], contest.theirs[kind], *_forwards(contest, kind)]
    times: list[list[float]] = [[] for _ in contestants]
    for call in contestants:
        await _cpu_ms(call, calls // 4)  # connections, caches
    for _ in range(rounds):
        for of_call, call in zip(times, contestants, strict=True):
            of_call.append(await _cpu_ms(call, calls))
    ours, theirs, *forward = (statistics.median(of_call) for of_call in times)
    return Row(
        wire=contest.wire,
        kind=kind,
        ours_ms=ours,
        package=contest.package,
        package_ms=theirs,
        part=statistics.median(mine / other for mine, other in zip(times[0], times[1], strict=True)),
        forward_ms=forward[0] if forward else None,
    )


async def _cpu_ms(call: Call, calls: int) -> float:
    gc.collect()
    started = time.process_time()
    for _ in range(calls):
        await call()
    return (time.process_time() - started) * 1000 / calls


_BODIES = {
    "plain": b'{"model":"bench","messages":[{"role":"user","content":"freeze John\'s membership"}]}',
    "stream": b'{"model":"bench","stream":true,"messages":[{"role":"user","content":"freeze John\'s membership"}]}',
}


def _forwards(contest: Contest, kind: str) -> list[Call]:
    """Returns a call that passes an answer through unread, if our adapter can do that for this kind of request."""
    provider = contest.ours
    if not isinstance(provider, OpenAIChat) or kind not in _BODIES:
        return []

    async def call() -> None:
        async with await provider.forward("POST", "/chat/completions", _BODIES[kind]) as response:
            while await response.content.readany():
                pass

    return [call]


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns the goals that the rows miss."""
    return [f"{row.wire} {row.kind}: {row.part:.2f} of {row.package}" for row in rows if row.part > GOAL]


def main(arguments: Sequence[str] = ()) -> list[Row]:
    rows = run(rounds=3) if "--quick" in arguments else run()
    print(f"CPU of one model call, ms (median); goal: ours at most {GOAL:.2f} of the official package's")
    print(f"{'wire':<18}{'':<8}{'toolcaddie':>11}{'forwarded':>11}{'official':>10}{'ours / theirs':>15}{'package':>14}")
    for row in rows:
        forward = "" if row.forward_ms is None else f"{row.forward_ms:.3f}"
        print(
            f"{row.wire:<18}{row.kind:<8}{row.ours_ms:>11.3f}{forward:>11}{row.package_ms:>10.2f}{row.part:>15.2f}"
            f"{row.package:>14}"
        )
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
