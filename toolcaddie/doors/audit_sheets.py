"""Rows of the trail and checks of it as people export and read them: the same on the command line and in the console."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime, tzinfo
from typing import Any, Literal

from toolcaddie import __version__
from toolcaddie.app.settings import age_seconds
from toolcaddie.audit.ocsf import ocsf_event
from toolcaddie.core.errors import RequestError
from toolcaddie.storage.audits import TrailRow
from toolcaddie.storage.verification import Verification

Format = Literal["jsonl", "ocsf"]


def _plain(row: TrailRow) -> Any:
    record = row.record
    return {
        "id": row.id,
        "run_id": record.run_id,
        "seq": record.seq,
        "at": record.at,
        "kind": record.kind,
        "principal": row.principal,
        "tenant": row.tenant,
        "data": record.data,
        "link": None if row.link is None else row.link.hex(),
    }


def _ocsf(row: TrailRow) -> Any:
    return ocsf_event(row.record, row=row.id, principal=row.principal, tenant=row.tenant, product_version=__version__)


LINES: dict[Format, Callable[[TrailRow], Any]] = {"jsonl": _plain, "ocsf": _ocsf}
"""Makes the data of a line, by the format."""


def warnings_of(report: Verification) -> Iterator[str]:
    """Yields what is no change, and may hide one."""
    if report.keyed and report.position == 0 and not report.anchors and not report.changes_total:
        yield (
            "the trail has no rows: nothing has run with this database, or somebody put a new one in its place; "
            "an anchor shows which (`--anchor FILE`)"
        )


def moment_in(text: str, *, zone: tzinfo | None = None) -> float:
    """Returns a moment in seconds since the epoch, from an age such as 24h or a date. `zone`: the time zone of dates that name
    none; None: that of this machine. Raises `RequestError`."""
    if re.fullmatch(r"[0-9]+[mhdw]", text):
        return time.time() - (age_seconds(text) or 0.0)
    try:
        moment = datetime.fromisoformat(text)
        return (moment.replace(tzinfo=zone) if moment.tzinfo is None else moment).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise RequestError(
            f"{text[:80]!r} is no time; write 24h, 2026-01-31 or 2026-01-31T12:00", param="time"
        ) from error
