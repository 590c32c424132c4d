"""How a run that breaks off is put on record."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from toolcaddie.engine.executor import Emit
from toolcaddie.events import RunFailed


@contextlib.asynccontextmanager
async def end_recorded(run_id: str, emit: Emit) -> AsyncIterator[None]:
    """A run that breaks off has an end on record as well, whatever broke it: its policy and approver are strangers too."""
    try:
        yield
    except asyncio.CancelledError:
        await _failed(run_id, "the caller went away", "CancelledError", emit)
        raise
    except Exception as error:
        await _failed(run_id, str(error), type(error).__name__, emit)
        raise


async def _failed(run_id: str, error: str, kind: str, emit: Emit) -> None:
    with contextlib.suppress(Exception):  # the run has failed already; the first error is the one to tell
        await emit(RunFailed(run_id=run_id, error=error, kind=kind))
