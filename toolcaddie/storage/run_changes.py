"""The changes of the table `runs` that follow from rows of the trail: a run begins, is resumed, pauses or ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, bindparam, literal_column, true, update

from toolcaddie.storage.compiled import CompiledStatement
from toolcaddie.storage.tables import runs

ENDING = ("status", "calls", "rounds", "seconds")
"""Columns of a run's row that its end changes, if the record has them."""


class RunChange(Struct, frozen=True):
    """The change of one run by one row of the trail."""

    run_id: str
    new_run: Mapping[str, Any] | None = None
    """The whole row of a run that starts."""
    changes: Mapping[str, Any] | None = None
    """Columns of the run's row that change, when it ends, pauses or is resumed."""
    continues: bool = False
    """True: this process owns the run from this change on."""

    @property
    def is_plain_end(self) -> bool:
        """Returns True for the change that nearly all runs end with."""
        changes = self.changes or {}
        return not self.continues and all(changes.get(name) is not None for name in ENDING)


class RunChanges(Struct, frozen=True):
    """The changes of a group of rows. Each run has a row in one of the first two, and further changes of it follow."""

    new_runs: Sequence[Mapping[str, Any]]
    """Whole rows. A run that begins and ends in one group is written once."""
    ends: Sequence[RunChange]
    """Changes of all columns of `ENDING`, of runs that this process ends."""
    others: Sequence[RunChange]


def sorted_changes(changes: Iterable[RunChange], owner: int) -> RunChanges:
    """Returns the changes of a group. `owner`: the number of this process."""
    new_runs: dict[str, Mapping[str, Any]] = {}
    ends: list[RunChange] = []
    others: list[RunChange] = []
    open_runs: set[str] = set()
    """New runs that have not ended in the group."""
    closed: set[str] = set()
    """Runs whose further changes must come after the others."""
    for change in changes:
        run_id = change.run_id
        if change.new_run is not None:
            new_runs[run_id] = {**change.new_run, "owner": owner}
            open_runs.add(run_id)
        elif run_id in open_runs and not change.continues:
            new_runs[run_id] = {**new_runs[run_id], **(change.changes or {}), "owner": None}
            open_runs.discard(run_id)
            closed.add(run_id)
        elif change.is_plain_end and run_id not in closed and run_id not in new_runs:
            ends.append(change)
            closed.add(run_id)
        else:
            others.append(change)
            open_runs.discard(run_id)
            closed.add(run_id)
    return RunChanges(list(new_runs.values()), ends, others)


def change_runs(connection: Connection, changes: Iterable[RunChange], owner: int) -> None:
    """Changes runs. Consecutive changes of the same columns share a statement."""
    for (columns, continues), group in groupby(changes, key=lambda each: (tuple(each.changes or ()), each.continues)):
        _ending(columns, continues).execute(connection, [_parameters(change, owner) for change in group])


def _parameters(change: RunChange, owner: int) -> dict[str, Any]:
    changes = {f"new_{name}": value for name, value in (change.changes or {}).items()}
    ownership = {"new_owner": owner} if change.continues else {"new_owner": None, "by": owner}
    return {**changes, **ownership, "of_run": change.run_id}


@cache
def _ending(columns: tuple[str, ...], continues: bool) -> CompiledStatement:
    """Returns the statement that changes these columns of a run's row. `continues`: this process becomes the owner of the run;
    otherwise the run loses its owner."""
    is_pending = runs.c.owner.is_(None) & (runs.c.status == literal_column("'pending'"))
    # A process must not end a run that another one continues or has ended meanwhile. Resuming a run needs its claim.
    is_ours = true() if continues else (runs.c.owner == bindparam("by")) | is_pending
    changes: dict[str, Any] = {column: bindparam(f"new_{column}") for column in (*columns, "owner")}
    return CompiledStatement(update(runs).where(runs.c.run_id == bindparam("of_run"), is_ours).values(changes))
