"""Sends hostile inputs to a real server, while another client (the quiet client) keeps sending small requests.

    python -m security hostile [--quick] [--json FILE]

It prints for each input the answer of the server, the longest wait of the quiet client, and the growth of the server's memory.
The exit status is 1 if the quiet client waited more than 200 ms, memory grew by more than 128 MiB, or the answer did not have the
expected status and sentence. A wait that is too long is measured again, because a delay by the server repeats and a delay by the
machine does not. With `--quick`, which is for busy machines, a wait may take a second.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from security.attacks import Attack, of_requests, of_upstreams
from security.server import Server
from toolcaddie.core.bounds import MEGABYTE

MOST_WAIT, MOST_WAIT_QUICK = 0.2, 1.0
"""The longest accepted wait of the quiet client in seconds, without and with `--quick`. Before there were bounds, the attacks
stopped all clients for 2 to 60 seconds."""
MOST_MEMORY = 128 * MEGABYTE
_TRIES = 3
_SETTLE = 0.3
_ROUNDS = 5
"""How often each input is sent without `--quick`, all to the same server, so that damage that adds up is noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The measurement of one input."""

    name: str
    status: int
    sentence: str
    wait: float
    """Longest wait of the quiet client in seconds."""
    memory: int
    """Growth of the server's memory in bytes."""
    seconds: float
    wrong: str
    """What was wrong, as a text; empty: nothing."""

    def line(self) -> str:
        figures = (
            f"{self.status:>4} {self.wait * 1000:>7.0f} ms {self.memory / MEGABYTE:>6.0f} MiB {self.seconds:>6.1f} s"
        )
        return f"{self.name:<58} {figures}  {self.wrong and 'WRONG: ' + self.wrong}\n    {self.sentence[:150]}"


async def measured(server: Server, attack: Attack, *, most_wait: float = MOST_WAIT) -> Outcome:
    """Plays an attack, up to `_TRIES` times until nothing is wrong. Returns the last outcome."""
    attack.prepare()
    for _ in range(_TRIES):
        outcome = await _once(server, attack, most_wait)
        if not outcome.wrong:
            break
    return outcome


async def _once(server: Server, attack: Attack, most_wait: float) -> Outcome:
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
    if wait > most_wait:
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


async def _all(quick: bool) -> list[Outcome]:
    outcomes = []
    most_wait = MOST_WAIT_QUICK if quick else MOST_WAIT
    for group in (of_requests, of_upstreams):
        async with group(quick=quick) as (server, attacks):
            for attack in attacks:
                outcomes += [
                    await measured(server, attack, most_wait=most_wait) for _ in range(1 if quick else _ROUNDS)
                ]
    return outcomes


def played(*, quick: bool) -> list[Outcome]:
    """Plays all attacks and returns their outcomes."""
    return asyncio.run(_all(quick))
