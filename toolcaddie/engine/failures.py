"""Records the end of a run that fails, and notes on its error whether calls of the run had acted, so that callers know whether a
retry is safe."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from toolcaddie.core.errors import (
    BudgetSpentError,
    LimitExceededError,
    OutputError,
    ProviderError,
    RequestError,
    ShutdownError,
    ToolNotCalledError,
    mark_acted,
)
from toolcaddie.core.events import CallFinished, CallIntended, Emit, RunEvent, RunFailed
from toolcaddie.core.message import Attempt


class _ActionWatch:
    """Passes events on, and remembers whether a call of the run may have acted: its intent is recorded, or it has ended."""

    def __init__(self, emit: Emit, *, acted: bool) -> None:
        self._emit = emit
        self.acted = acted

    def __call__(self, event: RunEvent) -> Awaitable[None]:
        if type(event) is CallIntended:
            return self._intended(event)
        if type(event) is CallFinished and event.result.error != "not_run":
            self.acted = True
        return self._emit(event)

    async def _intended(self, event: CallIntended) -> None:
        await self._emit(event)
        self.acted = True


@contextlib.asynccontextmanager
async def end_recorded(
    run_id: str, emit: Emit, *, acted: bool = False, stopping: Callable[[], bool] = lambda: False
) -> AsyncIterator[Emit]:
    """Yields the function to which a run passes its events. If the run ends with an exception of any kind (also of a policy or an
    approver), its failure is recorded, and the exception says whether calls had acted (`errors.has_acted`).

    `acted`: True if calls had acted before the run was resumed. `stopping`: returns True if a cancellation comes from the
    shutdown of the server, and False if the caller has disconnected.
    """
    watch = _ActionWatch(emit, acted=acted)
    try:
        yield watch
    except asyncio.CancelledError:
        await _record(_shutdown(run_id) if stopping() else _disconnect(run_id), emit)
        raise
    except Exception as error:
        mark_acted(error, watch.acted)
        failed = RunFailed(
            run_id=run_id,
            error=str(error),
            kind=type(error).__name__,
            attempts=_attempts(error),
            state=error.state if isinstance(error, BudgetSpentError | LimitExceededError) else None,
        )
        await _record(failed, emit)
        raise


def _disconnect(run_id: str) -> RunFailed:
    """Returns the event for a run whose caller has disconnected."""
    return RunFailed(run_id=run_id, error="the caller went away", kind="CancelledError")


def _shutdown(run_id: str) -> RunFailed:
    """Returns the event for a run that the shutdown of the server has cancelled."""
    return RunFailed(
        run_id=run_id, error="the server was shut down before the run had ended", kind=ShutdownError.__name__
    )


def _attempts(error: Exception) -> tuple[Attempt, ...]:
    """Returns the attempts that an error of Toolcaddie reports. On other errors, an attribute of that name may be anything and is
    ignored."""
    if isinstance(error, OutputError | ProviderError | RequestError | ToolNotCalledError):
        return tuple(error.attempts)
    return ()


async def _record(event: RunFailed, emit: Emit) -> None:
    """Records the failure. If the trail fails too, that second error is dropped."""
    with contextlib.suppress(Exception):  # the run has failed already, and the first error is the one to report
        await emit(event)
