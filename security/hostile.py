"""Hostile inputs against a real server while a quiet client asks for small things all the time.

    python -m security hostile [--quick] [--json]

For each input: what the server answered, how long the quiet client waited at most, and how much memory the server took. The
exit status is 1 where somebody else waited more than 200 ms, memory grew by more than 128 MiB, or the input was not refused with
a status and a sentence. A wait that is too long is measured again: a stall of the server repeats, one of the machine does not.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass

from security.attacks import Attack, of_requests, of_upstreams
from security.server import Server
from toolcaddie.bounds import MEGABYTE

MOST_WAIT = 0.2
MOST_MEMORY = 128 * MEGABYTE
_TRIES = 3
_SETTLE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One input as it was measured."""

    name: str
    status: int
    sentence: str
    wait: float
    """Seconds."""
    memory: int
    """Bytes."""
    seconds: float
    wrong: str
    """What should not be; empty: nothing."""


async def measured(server: Server, attack: Attack) -> Outcome:
    """The best of a few tries where one is not good enough."""
    attack.prepare()
    for _ in range(_TRIES):
        outcome = await _once(server, attack)
        if not outcome.wrong:
            break
    return outcome


async def _once(server: Server, attack: Attack) -> Outcome:
    await asyncio.sleep(_SETTLE)
    before = server.resident
    server.forget_peak()
    started = time.monotonic()
    answer = await attack.play(server)
    seconds = time.monotonic() - started
    await asyncio.sleep(_SETTLE)
    wait, count = server.longest_wait(started)
    memory = max(0, server.peak - before)
    wrong = []
    if answer.status not in attack.statuses:
        wrong.append(f"status {answer.status}, not {' or '.join(map(str, attack.statuses))}")
    if attack.says not in answer.sentence:
        wrong.append(f"the sentence does not say {attack.says!r}")
    if wait > MOST_WAIT:
        wrong.append(f"another request waited {wait * 1000:.0f} ms" if wait < 1e6 else "another request failed")
    if memory > MOST_MEMORY:
        wrong.append(f"memory grew by {memory // MEGABYTE} MiB")
    if not count:
        wrong.append("the quiet client stood still")
    return Outcome(
        name=attack.name,
        status=answer.status,
        sentence=answer.sentence,
        wait=wait,
        memory=memory,
        seconds=seconds,
        wrong="; ".join(wrong),
    )


async def _all(quick: bool, show: bool) -> list[Outcome]:
    outcomes = []
    for group in (of_requests, of_upstreams):
        async with group(quick=quick) as (server, attacks):
            for attack in attacks:
                outcomes.append(await measured(server, attack))
                if show:
                    _print(outcomes[-1])
    return outcomes


def _print(outcome: Outcome) -> None:
    print(
        f"{outcome.name:<58} {outcome.status:>4} {outcome.wait * 1000:>7.0f} ms {outcome.memory / MEGABYTE:>6.0f} MiB"
        f" {outcome.seconds:>6.1f} s  {outcome.wrong and 'WRONG: ' + outcome.wrong}",
        flush=True,
    )
    print(f"    {outcome.sentence[:160]}", flush=True)


def main(words: list[str]) -> int:
    quick, as_json = "--quick" in words, "--json" in words
    if not as_json:
        print(f"{'input':<58} {'':>4} {'wait':>10} {'memory':>10} {'took':>8}")
    outcomes = asyncio.run(_all(quick, show=not as_json))
    if as_json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    if not as_json:
        print(f"{len(outcomes)} inputs, {len(wrong)} of them not as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
