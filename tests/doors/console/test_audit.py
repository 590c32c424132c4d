"""The console's pages of the trail: rows by person, run, kind and time, acts of people, the check, the export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.console.browser import Page, browser
from tests.doors.console.full import ADMIN, VIEWER, Server, console
from toolcaddie.core.control import Principal
from toolcaddie.core.storage import EventRecord

pytestmark = pytest.mark.anyio

AUDIT = "/console/audit"
JSON = "application/json"


async def runs(server: Server, *people: Principal) -> list[str]:
    """Runs a request of each person, and returns the ids of the runs."""
    return [(await server.parts.runtime.run("what time is it?", principal=person)).run_id for person in people]


def rows(page: Page) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(page.html)["rows"]
    return found


async def test_rows_are_found_by_person_run_kind_and_time(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera:
        first, second = await runs(server, Principal(id="ann"), Principal(id="ben"))
        await vera.signs_in(VIEWER, then=AUDIT)
        every = rows(await vera.opens(AUDIT, accept=JSON))
        assert [row["id"] for row in every] == sorted((row["id"] for row in every), reverse=True)  # type: ignore[type-var]
        assert {row["person"] for row in rows(await vera.opens(f"{AUDIT}?person=ann", accept=JSON))} == {"ann"}
        of_run = rows(await vera.opens(f"{AUDIT}?run={second}", accept=JSON))
        assert {row["record"]["run_id"] for row in of_run} == {second}  # type: ignore[index]
        begun = rows(await vera.opens(f"{AUDIT}?kind=run_st*", accept=JSON))
        assert [row["record"]["run_id"] for row in begun] == [second, first]  # type: ignore[index]
        assert rows(await vera.opens(f"{AUDIT}?since=2h", accept=JSON)) == every
        assert rows(await vera.opens(f"{AUDIT}?until=2020-01-31", accept=JSON)) == []
        page = await vera.opens(f"{AUDIT}?since=yesterday")
        assert page.status == 400
        assert "write 24h" in page.text


async def test_pages_go_through_all_rows_once(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as ada:
        log = server.parts.event_log
        for number in range(120):
            log.append(EventRecord(run_id="run_long", seq=number, at=1_800_000_000.0 + number, kind="noted", data={}))
        await log.flush("run_long")
        page = await ada.signs_in(ADMIN, then=AUDIT)
        seen: list[str] = []
        while True:
            seen += [each.text() for each in page.tree.css("tbody th")]
            link = page.tree.css_first("a[rel=next]")
            if link is None:
                break
            page = await ada.opens(link.attributes["href"] or "")
        assert len(seen) == len(set(seen)) >= 120


async def test_what_a_person_did_in_the_console_is_two_clicks_away(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as ada:
        await ada.signs_in(ADMIN, then="/console/keys")
        await ada.sends(await ada.opens("/console/keys"), "add", name="laptop")
        page = await ada.opens(f"{AUDIT}?kind=console_act*")
        assert "/console/keys/add" in page.text
        assert "ada" in page.text
        page = await ada.opens(f"{AUDIT}?kind=console_act*&person=nobody")
        assert "No row matches." in page.text


async def test_a_viewer_of_a_tenant_sees_and_exports_only_its_rows(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vic:
        await runs(server, Principal(id="ann"), Principal(id="ben", tenant="acme"))
        await vic.signs_in(Principal(id="vic", role="viewer", tenant="acme"), then=AUDIT)
        assert {row["person"] for row in rows(await vic.opens(AUDIT, accept=JSON))} == {"ben"}
        assert rows(await vic.opens(f"{AUDIT}?person=ann", accept=JSON)) == []
        export = await vic.opens(f"{AUDIT}/export")
        assert {json.loads(line)["principal"] for line in export.html.splitlines()} == {"ben"}
        assert (await vic.opens(f"{AUDIT}/check")).status == 403


async def test_an_export_has_what_people_of_the_tenant_did_in_the_console_and_nothing_of_others(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as ada, browser(server) as olga:
        await ada.signs_in(ADMIN, then="/console/keys")
        await ada.sends(await ada.opens("/console/keys"), "add", name="laptop")
        page = await olga.signs_in(Principal(id="olga", role="operator", tenant="acme"), then="/console/playground")
        await olga.sends(page, "begin", message="which classes are there?")
        export = await olga.opens(f"{AUDIT}/export")
        lines = [json.loads(line) for line in export.html.splitlines()]
        assert {line["kind"] for line in lines} >= {"console_act", "console_act_ended"}
        assert {(line["principal"], line["tenant"]) for line in lines} == {("olga", "acme")}
        export = await ada.opens(f"{AUDIT}/export?kind=console_act*&person=ada")
        assert {json.loads(line)["principal"] for line in export.html.splitlines()} == {"ada"}
        assert "/console/keys/add" in export.html
        assert (await ada.opens(f"{AUDIT}/export?kind=console_act*&person=nobody")).html == ""


async def test_the_trail_is_downloaded_as_lines_of_json_and_as_ocsf_events(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as ada:
        [run_id] = await runs(server, Principal(id="ann"))
        await ada.signs_in(ADMIN, then=AUDIT)
        plain = await ada.opens(f"{AUDIT}/export?run={run_id}")
        lines = [json.loads(line) for line in plain.html.splitlines()]
        assert "attachment" in plain.headers["content-disposition"]
        assert [line["id"] for line in lines] == sorted(line["id"] for line in lines)
        assert {line["run_id"] for line in lines} == {run_id}
        events = await ada.opens(f"{AUDIT}/export?format=ocsf&kind=run_started")
        assert [json.loads(line)["class_uid"] for line in events.html.splitlines()] == [6003]


async def test_a_check_runs_aside_and_says_that_a_row_was_changed(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as ada:
        await runs(server, Principal(id="ann"))
        page = await ada.signs_in(ADMIN, then=f"{AUDIT}/check")
        page = await _checked(await ada.sends(page, "check"), ada)
        assert "Nobody changed it." in page.text
        with server.parts.database._engine.begin() as connection:
            connection.exec_driver_sql("UPDATE events SET kind = 'forged' WHERE id = 2")
        page = await _checked(await ada.sends(page, "check"), ada)
        assert "The trail is not as it was written." in page.text
        assert "Row 2" in page.text


async def _checked(page: Page, person: object) -> Page:
    while "progress" in page.html and page.tree.css_first("progress") is not None:
        page = await person.opens(f"{AUDIT}/check")  # type: ignore[attr-defined]
    return page
