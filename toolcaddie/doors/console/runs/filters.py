"""The filter of the list of runs, as it stands in the address of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args
from urllib.parse import urlencode

from toolcaddie.core.errors import RequestError
from toolcaddie.core.run import RunStatus
from toolcaddie.core.storage import RunCursor, RunQuery, RunSummary

PAGE = 50
"""Number of runs on a page."""
STATUSES: tuple[str, ...] = get_args(RunStatus)

_FIELDS = ("text", "bot", "principal", "tool", "status", "since", "until")
_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The filter of a list of runs, as a person fills it in."""

    fields: Mapping[str, str]
    """The fields of the form that are filled in."""
    query: RunQuery

    @classmethod
    def of(cls, query: Mapping[str, str], tenant: str | None) -> Filter:
        """Returns the filter in the fields of an address. Raises `RequestError`."""
        fields = {name: value for name in _FIELDS if (value := query.get(name, "").strip())}
        for name, value in fields.items():
            if len(value) > _LONGEST:
                raise RequestError(f"the field {name} has more than {_LONGEST} characters", param=name)
        status = fields.get("status")
        if status is not None and status not in STATUSES:
            raise RequestError(f"there is no status {status!r}; choose one of {', '.join(STATUSES)}", param="status")
        return cls(
            fields=fields,
            query=RunQuery(
                tenant=tenant,
                text=fields.get("text"),
                bot=fields.get("bot"),
                principal=fields.get("principal"),
                tool=fields.get("tool"),
                status=status,
                since=_moment("since", fields),
                until=_moment("until", fields),
                before=_cursor(query.get("before", "")),
                limit=PAGE,
            ),
        )

    @property
    def can_follow(self) -> bool:
        """True if the page has the newest runs and can follow what happens. Which tools a run calls is known only later."""
        return self.query.before is None and self.query.tool is None and self.query.until is None

    def address(self, path: str, cursor: RunCursor | None = None) -> str:
        """Returns the address of a page with this filter: the first one, or the one after a place in the list."""
        fields = dict(self.fields)
        if cursor is not None:
            fields["before"] = f"{cursor.started!r},{cursor.run_id or ''}"
        return f"{path}?{urlencode(fields)}" if fields else path

    def takes(self, run: RunSummary) -> bool:
        """Returns True if a run belongs on the page, whatever its status: a run on the page stays there when it ends."""
        query = self.query
        return (
            query.tenant in (None, run.tenant)
            and query.principal in (None, run.principal)
            and query.bot in (None, run.bot)
            and (query.text is None or query.text.lower() in run.message.lower())
            and (query.since is None or run.started >= query.since)
        )


def _moment(name: str, fields: Mapping[str, str]) -> float | None:
    """Returns a field with a date and time (UTC) as seconds since the epoch; None: it is empty. Raises `RequestError`."""
    if (text := fields.get(name)) is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise RequestError(f"{name} is no date and time such as 2026-02-28T14:30: {text!r}", param=name) from None


def _cursor(text: str) -> RunCursor | None:
    """Returns the place in the list that an address names. Raises `RequestError`."""
    if not text:
        return None
    started, _, run_id = text.partition(",")
    try:
        place = float(started)
    except ValueError:
        raise RequestError("the address names no place in the list of runs", param="before") from None
    return RunCursor(started=place, run_id=run_id[:255] or None)
