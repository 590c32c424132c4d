"""The section of the trail: its rows by person, run, kind and time, what people did in the console, its check, its export."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC
from typing import get_args
from urllib.parse import urlencode

import msgspec

from toolcaddie.core.errors import RequestError
from toolcaddie.doors.audit_sheets import LINES, Format, moment_in
from toolcaddie.doors.console.answers import Answer, Download, redirect
from toolcaddie.doors.console.audit_checks import Checks
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.storage.audits import Audits, RowQuery
from toolcaddie.storage.trail_pages import ACTS, TrailQuery
from toolcaddie.util.text import visible_json

PATH = f"{HOME}audit"
_PAGE = 50
_FILTERS = ("person", "run", "kind", "since", "until")
_LONGEST_DATA = 4_000
_BYTES_AT_ONCE = 64 * 1024
_TYPES: Mapping[Format, str] = {"jsonl": "application/jsonl", "ocsf": "application/jsonl"}


def audit_section(audits: Audits) -> Section:
    """Returns the section."""
    return Section(title="Audit", path=PATH, routes=lambda renderer: _Audit(audits, renderer).routes, level="viewer")


class _Audit:
    def __init__(self, audits: Audits, renderer: Renderer) -> None:
        self._audits = audits
        self._renderer = renderer
        self._checks = Checks(audits)

    @property
    def routes(self) -> Sequence[PageRoute]:
        return (
            PageRoute(method="GET", path=PATH, handle=self._list),
            PageRoute(method="GET", path=f"{PATH}/export", handle=self._export),
            PageRoute(method="GET", path=f"{PATH}/check", handle=self._show_check, level="admin"),
            PageRoute(method="POST", path=f"{PATH}/check", handle=self._start_check, level="admin"),
        )

    async def _list(self, visit: Visit) -> Answer:
        filters = _filters(visit.request.query)
        page = await self._audits.page(_query(visit, filters))
        data = {"rows": page.rows, "before": page.before}
        return self._renderer.page(
            "audit/list.html",
            visit,
            data,
            path=PATH,
            filters=filters,
            words={name: filters.get(name, "") for name in _FILTERS},
            texts={row.id: _text(row.record.data) for row in page.rows},
            is_of_acts=filters.get("kind", "").startswith(ACTS),
            acts=f"{ACTS}*",
            address=urlencode(filters),
            older=f"{PATH}?{urlencode({**filters, 'before': page.before})}" if page.before else "",
            may_check=visit.tenant is None,
        )

    async def _export(self, visit: Visit) -> Download:
        query, filters = visit.request.query, _filters(visit.request.query)
        form = next((each for each in get_args(Format) if each == query.get("format", "jsonl")), None)
        if form is None:
            raise RequestError(f"the format is one of {', '.join(get_args(Format))}", param="format")
        rows = RowQuery(
            run_id=filters.get("run"),
            principal=filters.get("person"),
            tenant=visit.tenant,
            kind=filters.get("kind"),
            since=_moment(filters, "since"),
            until=_moment(filters, "until"),
        )
        return Download(name=f"trail-{form}.jsonl", type=_TYPES[form], parts=_lines(self._audits, rows, form))

    async def _show_check(self, visit: Visit) -> Answer:
        _check_server(visit)
        check = self._checks.last
        return self._renderer.page(
            "audit/check.html",
            visit,
            {"check": check, "percent": None if check is None else check.percent},
            path=PATH,
        )

    async def _start_check(self, visit: Visit) -> Answer:
        _check_server(visit)
        await self._checks.start(visit.person.id)
        return redirect(f"{PATH}/check")


async def _lines(audits: Audits, query: RowQuery, form: Format) -> AsyncIterator[bytes]:
    """Yields the rows of a query as lines of JSON, some of them together."""
    part = b""
    async for row in audits.rows(query):
        part += visible_json(msgspec.json.encode(LINES[form](row)).decode()).encode() + b"\n"
        if len(part) >= _BYTES_AT_ONCE:
            yield part
            part = b""
    if part:
        yield part


def _filters(query: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name in _FILTERS if (value := query.get(name, "").strip())}


def _query(visit: Visit, filters: Mapping[str, str]) -> TrailQuery:
    before = visit.request.query.get("before", "")
    if before and not (before.isdecimal() and before.isascii() and len(before) < 19):
        raise RequestError("'before' must be the number of a row", param="before")
    return TrailQuery(
        run_id=filters.get("run"),
        person=filters.get("person"),
        tenant=visit.tenant,
        kind=filters.get("kind"),
        since=_moment(filters, "since"),
        until=_moment(filters, "until"),
        before=int(before) if before else None,
        limit=_PAGE,
    )


def _moment(filters: Mapping[str, str], name: str) -> float | None:
    return moment_in(filters[name], zone=UTC) if name in filters else None


def _text(data: Mapping[str, object]) -> str:
    """Returns the data of a row as a person reads them, not more than a page can show."""
    text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
    return text if len(text) <= _LONGEST_DATA else f"{text[:_LONGEST_DATA]}\n…"


def _check_server(visit: Visit) -> None:
    """Raises `RequestError` for an admin of a tenant: the trail is that of all tenants."""
    if visit.tenant is not None:
        raise RequestError(
            f"a check reads the rows of all tenants, and you belong to the tenant {visit.tenant}", code="forbidden"
        )
