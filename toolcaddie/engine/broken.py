"""How a run that breaks off is put on record."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from toolcaddie.engine.executor import Emit
from toolcaddie.errors import LimitExceededError, ProviderError, RequestError, ToolNotCalledError
from toolcaddie.events import RunFailed
from toolcaddie.message import Attempt


@contextlib.asynccontextmanager
async def end_recorded(run_id: str, emit: Emit) -> AsyncIterator[None]:
    """A run that breaks off has an end on record as well, whatever broke it: its policy and approver are strangers too."""
    try:
        yield
    except asyncio.CancelledError:
        await _recorded(RunFailed(run_id=run_id, error="the caller went away", kind="CancelledError"), emit)
        raise
    except Exception as error:
        failed = RunFailed(
            run_id=run_id,
            error=str(error),
            kind=type(error).__name__,
            attempts=_attempts(error),
            state=error.state if isinstance(error, LimitExceededError) else None,
        )
        await _recorded(failed, emit)
        raise


def _attempts(error: Exception) -> tuple[Attempt, ...]:
    """Of our own errors: a stranger's may call anything so."""
    told = error.attempts if isinstance(error, ProviderError | RequestError | ToolNotCalledError) else ()
    return tuple(told)


async def _recorded(event: RunFailed, emit: Emit) -> None:
    with contextlib.suppress(Exception):  # the run has failed already; the first error is the one to tell
        await emit(event)
