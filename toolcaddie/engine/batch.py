"""The admitted calls of one turn on their way, and what is known of each when the turn breaks off."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from toolcaddie.engine.executor import Admitted, Emit, Executor
from toolcaddie.events import CallIntended, RunEvent, not_run
from toolcaddie.run import Limits, PendingCall, RunContext
from toolcaddie.tool_types import ToolResult, failed


class Batch:
    """Runs the calls, together or in order; turns are numbered in call order either way.

    `admitted` maps a call's place in the turn to the call, `taken` is how many turns the run has had.
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
    ) -> None:
        self._executor = executor
        self._context = context
        self._limits = limits
        self._emit = emit
        self._admitted = admitted
        self._turns = {index: taken + number for number, index in enumerate(admitted, start=1)}
        self._begun: set[int] = set()
        self._results: dict[int, ToolResult] = {}
        self._broken: BaseException | None = None

    async def run(self, *, together: bool) -> None:
        """Carry all of them out. When the trail fails, what has started is waited for and nothing else starts."""
        if not together or len(self._admitted) < 2:
            for index in self._admitted:
                await self._one(index)
            return
        # Not a TaskGroup: that would cancel the writes under way when the record of one of them fails.
        ended = await asyncio.gather(*map(self._one, self._admitted), return_exceptions=True)
        failures = [outcome for outcome in ended if outcome is not None]
        if failures:
            raise failures[0]

    def entered(self, outcomes: Sequence[PendingCall]) -> list[PendingCall]:
        """The calls of the turn with what came of them; who began and did not end has an unknown outcome."""
        found = list(outcomes)
        for index in self._begun:
            found[index] = replace(found[index], result=_unknown(self._admitted[index]), waiting="")
        for index, result in self._results.items():
            found[index] = replace(found[index], result=result, waiting="")
        return found

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
            await self._emit(event)
            if isinstance(event, CallIntended):
                await self._go_on_recorded(event)
                if not _carries_its_key(self._admitted[index]):
                    self._begun.add(index)

        return emit

    async def _go_on_recorded(self, intent: CallIntended) -> None:
        """Another call may have broken the turn while this one's intent was written: then the trail says that it did not run."""
        if self._broken is not None:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                await self._emit(not_run(intent))
            raise self._broken

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
