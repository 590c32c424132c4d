"""Approvals: of two answers at once one counts, an approval holds for exactly the call that was asked about, and a source that is
exchanged meanwhile never runs."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Sequence
from typing import Any

from security.goals import Goal, none_of
from toolcaddie import Runtime, tool
from toolcaddie.control.approvals import StoredApprovals
from toolcaddie.core.approval import Approval
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, say

_AT_ONCE = 20
_MOMENTS = 4
"""Number of moments at which a source is exchanged: while the question waits, after the answer, and twice at a random moment of
the resumed run."""
_LONGEST = 0.15
"""Seconds within which that random moment lies; a resumed run takes about as long beside the others."""


def attacked(*, quick: bool) -> Sequence[Goal]:
    """Returns the goals of approvals."""
    with tempfile.TemporaryDirectory(prefix="security-") as folder:
        return asyncio.run(_attacked(f"sqlite:///{folder}/approvals.sqlite", quick=quick))


async def _attacked(url: str, *, quick: bool) -> Sequence[Goal]:
    answers, swaps = (100, 200) if quick else (1_000, 10_000)
    async with Database(url) as database:
        return [*await _answered_twice(database, answers), *await _exchanged(database, swaps)]


# --- answers ----------------------------------------------------------------------------------------------------------


def _question(number: int) -> Approval:
    return Approval(
        id=f"approval_{number}",
        run_id=f"run_{number}",
        call_id="c1",
        tool="pay",
        arguments={"amount": number},
        digest=f"digest {number}",
        policy_version="1",
        principal=Principal(id=f"asker {number}"),
        created=0.0,
        expires=4e9,
    )


async def _answered_twice(database: Database, times: int) -> Sequence[Goal]:
    """Answers each question with yes and no at once, from two stores over one database, and uses approvals for other calls."""
    stores = [StoredApprovals(database.store), StoredApprovals(database.store)]
    wrong_winners = wrong_states = misused = 0
    for first in range(0, times, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, times))
        outcomes = await asyncio.gather(*(_both_answers(stores, number) for number in numbers))
        wrong_winners += sum(winners != 1 for winners, _, _ in outcomes)
        wrong_states += sum(not matches for _, matches, _ in outcomes)
        misused += sum(uses for _, _, uses in outcomes)
    return [
        none_of("questions with two answers at once of which not exactly one counted", wrong_winners, times),
        none_of("questions whose stored answer is not that of the winner", wrong_states, times),
        none_of("approvals used for other arguments, another policy, or twice", misused, 4 * times),
    ]


async def _both_answers(stores: Sequence[StoredApprovals], number: int) -> tuple[int, bool, int]:
    """Returns the number of answers that counted, whether the stored one is that answer, and the number of wrong uses."""
    question = _question(number)
    await stores[0].open(question)
    answers = [True, False]
    random.shuffle(answers)

    async def answered(store: StoredApprovals, approved: bool) -> bool | None:
        try:
            await store.answer("default", question.id, approved=approved)
        except RequestError:
            return None
        return approved

    winners = [
        answer
        for answer in await asyncio.gather(*(answered(*pair) for pair in zip(stores, answers, strict=True)))
        if answer is not None
    ]
    stored = await stores[1].get("default", question.id)
    matches = stored is not None and [stored.status == "approved"] == winners
    own = {"digest": question.digest, "policy_version": "1"}
    wrong = [{**own, "digest": "other"}, {**own, "policy_version": "2"}]
    uses = [await _uses(stores[0], question.id, **changed) for changed in wrong]
    rightly = [*await asyncio.gather(*(_uses(store, question.id, **own) for store in stores))]
    allowed = 1 if winners == [True] else 0
    return len(winners), matches, sum(uses) + abs(sum(rightly) - allowed)


async def _uses(store: StoredApprovals, approval_id: str, **call_facts: str) -> bool:
    try:
        await store.use("default", approval_id, **call_facts)
    except RequestError:
        return False
    return True


# --- exchanged sources ------------------------------------------------------------------------------------------------


def _payments(to: str, paid: list[str]) -> FunctionSource:
    """Returns a source with a tool that pays, and notes whom it paid."""

    @tool(destructive=True)
    async def pay(amount: int) -> str:
        """Pays an amount."""
        paid.append(to)
        return f"paid {to}"

    return FunctionSource("payments", [pay])


async def _exchanged(database: Database, times: int) -> Sequence[Goal]:
    """Exchanges the source of a tool at some moment of its approval. In some runs nothing is exchanged, and the calls run."""
    paid: list[str] = []
    unchanged: list[str] = []
    for number in range(_AT_ONCE):
        await _exchange(database, unchanged, -number - 1)
    for first in range(0, times, _AT_ONCE):
        await asyncio.gather(
            *(_exchange(database, paid, number) for number in range(first, min(first + _AT_ONCE, times)))
        )
    return [
        none_of("approved calls that ran in an exchanged source", paid.count("eve"), times),
        Goal(
            name="approved calls that ran in their own source, because the exchange came after them",
            figure=f"{paid.count('ann'):,} of {times:,}",
            goal="more than 0",
            met=bool(paid.count("ann")),
        ),
        Goal(
            name="approved calls that ran where no source was exchanged",
            figure=f"{unchanged.count('ann'):,} of {_AT_ONCE}",
            goal="all",
            met=unchanged == ["ann"] * _AT_ONCE,
        ),
    ]


async def _exchange(database: Database, paid: list[str], number: int) -> None:
    """Asks about a call, answers yes, and resumes the run. The source is exchanged meanwhile, unless `number` is negative."""
    moment = number % _MOMENTS if number >= 0 else None

    async def exchange(delay: float = 0.0) -> None:
        await asyncio.sleep(delay)
        await runtime.remove_source("payments")
        await runtime.add_source(_payments("eve", paid))

    steps: list[Any] = [call("pay", {"amount": number}, call_id="c1"), say("done"), say("done")]
    provider = ScriptedProvider(steps)
    asker = Principal(id=f"asker {number}")
    async with Runtime(provider=provider, sources=[_payments("ann", paid)], documents=database.store) as runtime:
        waiting = await runtime.run("pay", principal=asker)
        (question,) = [item.approval for item in waiting.state.pending]
        if moment == 0:
            await exchange()
        await runtime.approvals.answer("default", question, approved=True)
        if moment == 1:
            await exchange()
        later = moment is not None and moment > 1
        swap = asyncio.create_task(exchange(random.uniform(0, _LONGEST))) if later else None
        await runtime.resume(waiting.run_id)
        if swap is not None:
            await swap
