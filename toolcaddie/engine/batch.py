"""The admitted calls of one turn on their way, and what is known of each when the turn breaks off."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence

from toolcaddie.control.admission import Admitted
from toolcaddie.core.errors import AuditError
from toolcaddie.core.events import CallFinished, CallIntended, CallUnknown, Emit, RunEvent
from toolcaddie.core.run import Limits, PendingCall, RunContext
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.engine.executor import Executor
from toolcaddie.util.replacing import replace

BeforeActing = Callable[[Sequence[PendingCall]], Awaitable[None]]


async def unkept(outcomes: Sequence[PendingCall]) -> None:
    """`before_acting` where nobody carries a run on that broke off."""


class Batch:
    """Runs the calls, together or in order; turns are numbered in call order either way.

    `admitted` maps a call's place in the turn to the call, `taken` is how many turns the run has had. `before_acting` is
    awaited with the outcomes of the turn as they are known before each call that must not be made a second time: that call
    counts as unknown in them, so that a process that dies from here on leaves nothing to be repeated.
    """

    def __init__(
        self,
        executor: Executor,
        context: RunContext,
        limits: Limits,
        emit: Emit,
        *,
        admitted: Mapping[int, Admitted],
        taken: int,
        outcomes: Sequence[PendingCall],
        before_acting: BeforeActing,
    ) -> None:
        self._executor = executor
        self._context = context
        self._limits = limits
        self._emit = emit
        self._admitted = admitted
        self._turns = {index: taken + number for number, index in enumerate(admitted, start=1)}
        self._outcomes = outcomes
        self._before_acting = before_acting
        self._noting_down = asyncio.Lock()
        self._intended: set[int] = set()
        self._begun: set[int] = set()
        self._refused: set[int] = set()
        """Calls that broke off before they could act."""
        self._results: dict[int, ToolResult] = {}
        self._broken: BaseException | None = None

    async def run(self, *, together: bool) -> None:
        """Carry all of them out. When the trail fails, what has started is waited for and nothing else starts. Where it breaks
        off, each call that was intended has an end on record, as far as there is one to be had."""
        try:
            await self._all(together=together)
        except BaseException:
            for event in self._loose_ends():
                with contextlib.suppress(AuditError):  # the first error is the one to raise
                    await self._emit(event)
            raise

    async def _all(self, *, together: bool) -> None:
        if not together or len(self._admitted) < 2:
            for index in self._admitted:
                await self._one(index)
            return
        # Not a TaskGroup: that would cancel the writes under way when the record of one of them fails.
        ended = await asyncio.gather(*map(self._one, self._admitted), return_exceptions=True)
        failures = [outcome for outcome in ended if outcome is not None]
        if failures:
            raise failures[0]

    def entered(self) -> list[PendingCall]:
        """The calls of the turn with what came of them; who began and did not end has an unknown outcome."""
        found = list(self._outcomes)
        for index in self._begun:
            found[index] = replace(found[index], result=_unknown(self._admitted[index]), waiting="")
        for index, result in self._results.items():
            found[index] = replace(found[index], result=result, waiting="")
        return found

    def ran(self) -> list[Admitted]:
        """The calls that ended, or may have acted."""
        return [call for index, call in self._admitted.items() if index in self._results or index in self._begun]

    def _loose_ends(self) -> list[CallUnknown | CallFinished]:
        return [self._loose_end(index) for index in self._admitted if index in self._intended - self._results.keys()]

    def _loose_end(self, index: int) -> CallUnknown | CallFinished:
        admitted, run_id = self._admitted[index], self._context.run_id
        if index not in self._refused:
            return CallUnknown(run_id=run_id, call=admitted.call, reason="the run broke off before it answered")
        return CallFinished(
            run_id=run_id,
            call=admitted.call,
            result=failed("Not run: the run broke off before it.", "not_run"),
            source=admitted.tool.source,
            seconds=0.0,
            turn=self._turns[index],
        )

    async def _one(self, index: int) -> None:
        try:
            self._go_on()
            self._results[index] = await self._executor.carry_out(
                self._admitted[index], self._context, self._limits, self._turns[index], self._noting(index)
            )
        except BaseException as error:
            self._broken = self._broken or error
            raise

    def _noting(self, index: int) -> Emit:
        """An intent on record means that the call is about to act: from here on it must not be made a second time."""

        async def emit(event: RunEvent) -> None:
            if not isinstance(event, CallIntended):
                await self._emit(event)
                return
            try:
                if not _carries_its_key(self._admitted[index]):
                    self._begun.add(index)
                    async with self._noting_down:  # what is written last must hold all that have begun
                        await self._before_acting(self.entered())
                self._intended.add(index)
                await self._emit(event)
                self._go_on()
            except BaseException:  # it has not acted
                self._begun.discard(index)
                self._refused.add(index)
                raise

        return emit

    def _go_on(self) -> None:
        if self._broken is not None:
            raise self._broken


def _carries_its_key(call: Admitted) -> bool:
    """Sent again with the same idempotency key, a call acts once."""
    return call.tool.idempotency_key is not None and call.tool.idempotency_key in call.arguments


def _unknown(call: Admitted) -> ToolResult:
    return failed(
        f"{call.tool.name} was started and the run broke off before it answered: whether it took effect is not known. "
        "It is not repeated; look before you call it again.",
        "unknown_outcome",
    )
