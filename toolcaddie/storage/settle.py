"""What becomes of the runs of a process that is gone: they can be resumed where their state was stored, else they failed."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection


def settle_runs(connection: Connection, number: int, *, clock: Callable[[], float]) -> None:
    """End what the owner of that number left open, within the transaction that removes it."""
