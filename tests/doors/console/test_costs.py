"""Overview and costs: what was used today, by whom, and which tool costs most."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.doors.console.browser import browser
from tests.doors.console.full import ADMIN, NOBODY, VIEWER, Server, console
from toolcaddie.core.control import Principal
from toolcaddie.core.storage import EventRecord

pytestmark = pytest.mark.anyio

OVERVIEW, COSTS = "/console/overview", "/console/costs"
ACME = Principal(id="vic", role="viewer", tenant="acme")
HOSTILE = "<img src=x onerror=alert(1)>\"'`{{7*7}}</svg><script>"


async def records(server: Server, *tools: str, tenant: str = "default", tokens: int = 1_000) -> None:
    """Writes a run of now into the trail, which called these tools."""
    now = time.time()
    calls = [{"id": "c", "name": name, "arguments": "{}"} for name in tools]
    rows = [
        ("run_started", {"principal": {"id": "ann", "tenant": tenant, "bot": "desk"}, "message": "hi", "preset": "x"}),
        ("model_answered", {"model": "gpt-5.4", "usage": {"input": tokens, "output": 5}, "calls": calls}),
        *(("call_finished", {"id": "c", "name": name, "error": "no"}) for name in tools),
        ("run_finished", {"status": "completed"}),
    ]
    for seq, (kind, data) in enumerate(rows, start=1):
        log = server.parts.event_log
        log.append(EventRecord(run_id=f"run_{tenant}_{tools}", seq=seq, at=now, kind=kind, data=data))
    await server.parts.event_log.flush()


async def test_the_overview_is_the_first_page_and_shows_what_happened_today(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        await server.parts.runtime.run("freeze John's membership")
        await server.counts()
        await person.signs_in(VIEWER, then=OVERVIEW)
        page = await person.opens("/console/")
        assert page.path == OVERVIEW
        assert "Requests today 1" in page.text
        assert "freeze_membership: 1" in page.text
        assert len(page.tree.css("svg[role=img]")) == 3
        assert page.tree.css("svg rect title")[0].text().endswith("succeeded: 1")
        assert "style=" not in page.html


async def test_which_tool_costs_most_is_answered_by_the_first_page_of_costs(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        await records(server, "cheap", tokens=1_000)
        await records(server, "dear", tokens=900_000)
        await server.counts()
        page = await person.signs_in(VIEWER, then=COSTS)
        assert "The tool that costs most dear" in page.text
        rows = [row.text(strip=True) for row in page.tree.css("section[aria-labelledby=by-tool] tbody th")]
        assert rows == ["dear", "cheap"]
        one = await person.opens(page.tree.css("section[aria-labelledby=by-tool] tbody a")[0].attributes["href"] or "")
        assert "By day: dear" in one.text
        for period in ("day", "month", "all"):
            assert "dear" in (await person.opens(f"{COSTS}?period={period}")).text


async def test_figures_are_those_of_the_persons_tenant(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person, browser(server) as admin:
        await records(server, "own_tool", tenant="acme")
        await records(server, "foreign_tool", tenant="other")
        await server.counts()
        await person.signs_in(ACME, then=COSTS)
        for path in (OVERVIEW, COSTS, f"{COSTS}?tool=foreign_tool"):
            page = await person.opens(path)
            assert "own_tool" in page.text
            rows = [row.text(strip=True) for row in page.tree.css("tbody th, ol li")]
            assert not any("foreign_tool" in row for row in rows)
            assert not [title for title in page.tree.css("svg title") if title.text().endswith(": 2")]
        assert "foreign_tool" in (await admin.signs_in(ADMIN, then=COSTS)).text


async def test_the_use_of_each_key_is_listed_for_its_tenant(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person, browser(server) as other:
        key = await server.key(VIEWER)
        await _asks(server, key)
        await server.parts.meter.close()
        await server.counts()  # the same writer, so the use of the key is on disk before
        page = await person.signs_in(key=key, then=COSTS)
        assert "vera of default" in page.tree.css_first("section[aria-labelledby=by-key]").text()
        page = await other.signs_in(ACME, then=COSTS)
        assert "No API key was used" in page.text


async def test_hostile_names_are_shown_and_do_nothing(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        await records(server, HOSTILE)
        await server.counts()
        await person.signs_in(VIEWER, then=COSTS)
        for path in (OVERVIEW, COSTS, f"{COSTS}?tool=%3Cscript%3Ealert(1)%3C/script%3E"):
            page = await person.opens(path)
            assert page.status == 200
            assert not page.tree.css("img[src=x]")
            assert [each.attributes.get("src", "")[:16] for each in page.tree.css("script")] == ["/console/static/"]
            assert "49" not in [node.text() for node in page.tree.css("th")]


async def test_a_program_gets_the_figures_as_json_and_who_has_no_level_gets_none(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as web:
        await records(server, "dear")
        await server.counts()
        headers = {"authorization": f"Bearer {await server.key(VIEWER)}", "accept": "application/json"}
        async with web.web.get(f"{server.url}{COSTS}", headers=headers) as answer:
            data = await answer.json()
        assert [(tool["name"], tool["number"], tool["failed"]) for tool in data["tools"]] == [("dear", 1, 1)]
        async with web.web.get(f"{server.url}{OVERVIEW}", headers=headers) as answer:
            assert (await answer.json())["today"]["number"] == 1
        headers["authorization"] = f"Bearer {await server.key(NOBODY)}"
        for path in (OVERVIEW, COSTS):
            async with web.web.get(f"{server.url}{path}", headers=headers) as answer:
                assert answer.status == 403


async def _asks(server: Server, key: str) -> None:
    body = {"model": "practice", "messages": [{"role": "user", "content": "hello"}]}
    async with browser(server) as web:
        headers = {"authorization": f"Bearer {key}"}
        async with web.web.post(f"{server.url}/v1/chat/completions", json=body, headers=headers) as answer:
            assert answer.status == 200


async def test_overview_and_costs_are_whole_in_each_language(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        await person.signs_in(VIEWER, then=COSTS)
        for language, heading in (("es", "Costes"), ("pt", "Custos")):
            page = await person.opens(COSTS, **{"accept-language": language})
            assert page.tree.css_first("h1").text() == heading
            assert "in this period" not in page.text
