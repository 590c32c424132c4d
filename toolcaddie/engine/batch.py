"""Runs the admitted calls of one answer, and records the outcome of each if the batch is interrupted.

An admitted call has passed all gates (see `control.admission`). Before a call that may change something, its intent is recorded
in the trail, so that nobody repeats it if the process dies.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from toolcaddie.control.admission import Admitted
from toolcaddie.control.idempotency import has_key
from toolcaddie.core.bots import BEGINS_RUNS
from toolcaddie.core.errors import AuditError
from toolcaddie.core.events import CallFinished, CallIntended, CallUnknown
from toolcaddie.core.run import PendingCall, RunContext, RunState
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.engine.engine import Run


class Batch:
    """Runs admitted calls, either all at once or one after another. Calls are numbered in the order of the answer in both cases.

    `admitted` maps the index of a call in the answer to the call. `outcomes` has every call of the answer in its state so far.
    """

    def __init__(
        self, run: Run, state: RunState, *, admitted: Mapping[int, Admitted], outcomes: Sequence[PendingCall]
    ) -> None:
        self._run = run
        self._state = state
        self.admitted = admitted
        self._places = {index: state.calls + number for number, index in enumerate(admitted, start=1)}
        self._outcomes = outcomes
        self._storing = asyncio.Lock()
        self._intended: set[int] = set()
        self._started: set[int] = set()
        self._not_run: set[int] = set()
        """Indexes of the calls that were interrupted before they could act."""
        self._results: dict[int, ToolResult] = {}
        self._broken: BaseException | None = None

    async def run(self, *, together: bool) -> None:
        """Runs all calls, at the same time if `together` is True. If the trail fails, calls that have started are awaited and no
        others start.

        If the batch is interrupted, the end of each call with a recorded intent is recorded too, unless the trail refuses it.
        """
        try:
            await self._run_all(together=together)
        except BaseException:
            for event in self._loose_ends():
                with contextlib.suppress(AuditError):  # the first error is the one to raise
                    await self._run.emit(event)
            raise

    async def _run_all(self, *, together: bool) -> None:
        """Runs all calls. One after another, the first error stops the batch; together, the first error is raised after all calls
        have ended."""
        if not together or len(self.admitted) < 2:
            for index in self.admitted:
                await self._run_call(index)
            return
        # Not a TaskGroup: that would cancel the writes under way when the record of one of them fails.
        ended = await asyncio.gather(*map(self._run_call, self.admitted), return_exceptions=True)
        failures = [outcome for outcome in ended if outcome is not None]
        if failures:
            raise failures[0]

    def outcomes(self) -> list[PendingCall]:
        """Returns all calls of the answer with their outcomes. The outcome of a call that started and did not end is unknown."""
        outcomes = list(self._outcomes)
        for index in self._started:
            outcomes[index] = replace(outcomes[index], result=_unknown(self.admitted[index]), waiting="")
        for index, result in self._results.items():
            outcomes[index] = replace(outcomes[index], result=result, waiting="")
        return outcomes

    def acted(self) -> list[Admitted]:
        """Returns the calls that have ended, and those that started and so may have acted."""
        return [call for index, call in self.admitted.items() if index in self._results or index in self._started]

    def _loose_ends(self) -> list[CallUnknown | CallFinished]:
        """Returns the events that record the end of each call with a recorded intent and without a result."""
        return [self._loose_end(index) for index in self.admitted if index in self._intended - self._results.keys()]

    def _loose_end(self, index: int) -> CallUnknown | CallFinished:
        """Returns the event for one such call: not run if it was interrupted before it could act, otherwise unknown."""
        admitted, run_id = self.admitted[index], self._run.context.run_id
        if index not in self._not_run:
            return CallUnknown(run_id=run_id, call=admitted.call, reason="the run broke off before it answered")
        return CallFinished(
            run_id=run_id,
            call=admitted.call,
            result=failed("Not run: the run broke off before it.", "not_run"),
            source=admitted.tool.source,
            seconds=0.0,
            number=self._places[index],
        )

    async def _run_call(self, index: int) -> None:
        """Runs the call with this index in the answer, unless an earlier call has broken the batch."""
        run, call = self._run, self.admitted[index]
        try:
            self._raise_if_broken()
            if _needs_intent(call):
                await self._intend(index)
            self._results[index] = await run.engine.executor.carry_out(
                call, self._context(index), run.limits, self._places[index], run.emit
            )
        except BaseException as error:
            self._broken = self._broken or error
            raise

    def _context(self, index: int) -> RunContext:
        """Returns the context of a call, with what the run may still use after it."""
        limits, usage = self._run.limits, self._state.usage
        spent = [result.spent for result in self._results.values() if result.spent is not None]
        begins_runs = BEGINS_RUNS in self.admitted[index].tool.tags
        # The calls that follow in the answer are admitted already, so a run inside this call must leave them their places.
        place = max(self._places.values()) if begins_runs else self._places[index]
        calls = place + sum(each.calls for each in spent)
        used = usage.input_tokens + usage.output_tokens + sum(each.tokens for each in spent)
        return replace(
            self._run.context,
            taint=self._state.taint,
            calls_left=None if limits.calls is None else max(0, limits.calls - calls),
            tokens_left=None if limits.tokens is None else max(0, limits.tokens - used),
        )

    async def _intend(self, index: int) -> None:
        """Records that a call is about to act, so that it is not made a second time.

        Before that, the state is stored with an unknown outcome for the call, unless the call has an idempotency key and may be
        repeated. So nothing is repeated if the process dies.
        """
        call = self.admitted[index]
        try:
            if not has_key(call.tool, call.arguments):
                self._started.add(index)
                async with self._storing:  # the last write must hold all calls that have begun
                    await self._run.record.store_outcomes(replace(self._state, pending=tuple(self.outcomes())))
            self._intended.add(index)
            await self._run.emit(CallIntended(run_id=self._run.context.run_id, call=call.call))
            self._raise_if_broken()
        except BaseException:  # it has not acted
            self._started.discard(index)
            self._not_run.add(index)
            raise

    def _raise_if_broken(self) -> None:
        if self._broken is not None:
            raise self._broken


def _needs_intent(call: Admitted) -> bool:
    """Returns True if a call may change something that a second run would change again."""
    annotations = call.tool.annotations
    return not annotations.read_only and not annotations.idempotent


def _unknown(call: Admitted) -> ToolResult:
    """Returns the result that tells the model that the outcome of a call is unknown."""
    return failed(
        f"{call.tool.name} was started and the run broke off before it answered: whether it took effect is not known. "
        "It is not repeated; look before you call it again.",
        "unknown_outcome",
    )
