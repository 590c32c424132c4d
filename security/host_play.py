"""Plays hostile cases on a whole machine in this process' namespaces: python -m security.host_play FILE [--quick]
[--corpora FOLDER]. It writes the goals to the file, as JSON. `security.hosts` starts it in namespaces of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from security.command_runs import snapshot
from security.goals import Goal, none_of
from security.host_calls import Case
from security.host_corpora import corpus_cases
from security.host_kinds import kinds, listed
from security.host_model import Rules, opened
from security.host_world import World, running_world
from security.hosts import not_played

_TOGETHER, _TOGETHER_OF_OTHERS = 5, 20
"""Cases after which the machine is looked at: a look after each would take too long."""
_QUICK_STEP, _QUICK_STEP_OF_OTHERS = 12, 40
_LEAST_CASES, _LEAST_KINDS = 500, 30


async def played(world: World, corpora: Path | None, *, quick: bool) -> Sequence[Goal]:
    """Plays everything under each set of rules, and returns the goals."""
    given: Sequence[Case] = [kind.case(turns) for kind in kinds(world) for turns in kind.hostile]
    given = _some_of_each(given, _QUICK_STEP) if quick else given
    others = corpus_cases(world, corpora, step=_QUICK_STEP_OF_OTHERS if quick else 1)
    before = snapshot(world.folder / "vault")
    goals = [_size(given, quick=quick)]
    for rules in ("shipped", "listed"):
        goals += await _harmless(world, rules, given, others, together=_TOGETHER_OF_OTHERS if quick else _TOGETHER)
    goals += [await _listed(world), await _control(world)]
    after = snapshot(world.folder / "vault")
    names = [str(name) for name in {**before, **after} if before.get(name) != after.get(name)]
    if names:
        print(f"  changed on the machine itself: {', '.join(names[:5])}", flush=True)
    return [*goals, none_of("files of the machine itself that changed", len(names), len(after))]


def _some_of_each(cases: Sequence[Case], step: int) -> Sequence[Case]:
    """Returns every so many cases, and at least one of each kind."""
    seen: Counter[str] = Counter()
    chosen = []
    for case in cases:
        if seen[case.kind] % step == 0:
            chosen.append(case)
        seen[case.kind] += 1
    return chosen


def _size(given: Sequence[Case], *, quick: bool) -> Goal:
    numbers = Counter(case.kind for case in given)
    for kind, count in numbers.items():
        print(f"  {count:>4} {kind}", flush=True)
    return Goal(
        name="hostile calls on a host: cases of ours, and their kinds",
        figure=f"{len(given):,}, {len(numbers)}",
        goal=f"{_LEAST_KINDS} kinds" if quick else f"{_LEAST_CASES}, {_LEAST_KINDS} kinds",
        met=len(numbers) >= _LEAST_KINDS and (quick or len(given) >= _LEAST_CASES),
    )


async def _harmless(
    world: World, rules: Rules, given: Sequence[Case], others: Sequence[Case], *, together: int
) -> Sequence[Goal]:
    """Returns the goals that nothing happens beside what the rules allow."""
    async with opened(world, rules) as play:
        own = await play.cases(given, together=together, listed=rules == "listed")
        foreign = await play.cases(others, together=_TOGETHER_OF_OTHERS, listed=rules == "listed")
    for word, counts in (("of ours", own), ("of other people", foreign)):
        figures = f"{counts.cases:,} cases {word}, {counts.calls:,} calls, {counts.questions:,} questions to a person"
        print(f"  {rules}: {figures}", flush=True)
    words = {"shipped": "under the shipped rules, with a person who approves nothing"}.get(
        rules, "if effects are listed"
    )

    def none(what: str, first: Sequence[str], second: Sequence[str]) -> Goal:
        return none_of(f"{what} {words}", len(first) + len(second), own.cases + foreign.cases)

    return [
        none("effects that the policy does not allow,", own.damage, foreign.damage),
        none("texts of secret files in results,", own.leaks, foreign.leaks),
    ]


async def _listed(world: World) -> Goal:
    """Returns the goal that calls with listed effects have them, and no other, where these are allowed."""
    effective = 0
    async with opened(world, "listed") as play:
        for number, turns in enumerate(listed(world)):
            names, wrong = await play.effects(Case(kind="listed", turns=turns), number)
            effective += bool(names) and not wrong
            if wrong or not names:
                print(f"  listed call {number}: {', '.join(wrong) or 'no effect'}", flush=True)
    count = len(listed(world))
    name = "calls with a listed effect that have it, and no other"
    return Goal(name=name, figure=f"{effective} of {count}", goal="all", met=effective == count)


async def _control(world: World) -> Goal:
    """Returns the goal that most attacks ask for something: in an honest form, they have an effect when everything is allowed."""
    honest = [kind for kind in kinds(world) if kind.honest]
    idle = []
    async with opened(world, "everything") as play:
        for number, kind in enumerate(honest):
            names, _ = await play.effects(kind.case(kind.honest), number)
            idle += [] if names else [kind.name]
    if idle:
        print(f"  without an effect although everything is allowed: {', '.join(idle)}", flush=True)
    effective = len(honest) - len(idle)
    return Goal(
        name="kinds that have an effect in an honest form if everything is allowed, so that the attack asks for something",
        figure=f"{effective} of {len(honest)}",
        goal="90 %",
        met=effective >= 0.9 * len(honest),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--corpora", type=Path)
    options = parser.parse_args()
    if os.readlink("/proc/self/ns/net") == os.environ["SECURITY_OUTER_NETWORK"]:
        parser.error("this changes links and filters, so it must run in a namespace of its own")
    try:
        with running_world() as world:
            goals = asyncio.run(played(world, options.corpora, quick=options.quick))
    except pytest.skip.Exception as reason:
        goals = [not_played(str(reason))]
    options.file.write_bytes(msgspec.json.encode(goals))


if __name__ == "__main__":
    main()
