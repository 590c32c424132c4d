"""Analytics: which tools are used, which are not, what was asked for in vain, and what to change."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.doors.console.browser import Page, browser
from tests.doors.console.full import ADMIN, NOBODY, VIEWER, Server, console
from toolcaddie.app.settings import PartSettings
from toolcaddie.app.settings.model import GatewaySettings
from toolcaddie.core.control import Principal
from toolcaddie.core.storage import EventRecord
from toolcaddie.testing import ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio

ANALYTICS = "/console/analytics"
ACME = Principal(id="vic", role="viewer", tenant="acme")
HOSTILE = "<img src=x onerror=alert(1337)>\"'`{{7*7}}</svg></pre><script>\u202e"


def sent(*tools: str, times: int = 1) -> list[tuple[str, Mapping[str, Any]]]:
    return [("tools_delivered", {"tools": tools})] * times


def called(name: str, *, times: int = 1, error: str = "") -> list[tuple[str, Mapping[str, Any]]]:
    return [("call_finished", {"id": "c", "name": name, "arguments": "{}", "error": error})] * times


def searched(words: str, *, times: int = 1) -> list[tuple[str, Mapping[str, Any]]]:
    data = {"name": "search_tools", "arguments": json.dumps({"query": words}), "content": '{"total": 0}'}
    return [("meta_called", data)] * times


async def records(server: Server, *rows: list[tuple[str, Mapping[str, Any]]], tenant: str = "default") -> None:
    """Writes a run into the trail, and counts it."""
    start = ("run_started", {"principal": {"id": "ann", "tenant": tenant}, "message": "hi", "preset": "x"})
    whole = [start, *(row for group in rows for row in group), ("run_finished", {"status": "completed"})]
    name = f"run_{tenant}_{time.monotonic_ns()}"
    for seq, (kind, data) in enumerate(whole, start=1):
        server.parts.event_log.append(EventRecord(run_id=name, seq=seq, at=time.time(), kind=kind, data=data))
    await server.counts()


async def data_of(server: Server, person: Principal = ADMIN, path: str = "") -> Any:
    """The data of a page, as a program gets it."""
    _, key = await server.parts.keys.add(f"program {time.monotonic_ns()}", person)
    headers = {"authorization": f"Bearer {key}", "accept": "application/json"}
    async with browser(server) as web, web.web.get(f"{server.url}{ANALYTICS}{path}", headers=headers) as answer:
        assert answer.status == 200
        return await answer.json()


def rows(page: Page, name: str) -> list[list[str]]:
    """The cells of a table."""
    lines = page.tree.css(f"section#{name} tbody tr")
    return [[cell.text(strip=True) for cell in line.css("th, td")] for line in lines]


def links(page: Page, name: str) -> list[str]:
    return [link.attributes["href"] or "" for link in page.tree.css(f"section#{name} a")]


async def test_categories_are_ordered_by_use_with_their_shares_in_a_table_and_a_chart(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        array = sent("delete_client", "freeze_membership", "own_tool_of_a_client", "get_client_details")
        matched = [("tools_selected", {"categories": ["memberships"], "matched": ["memberships"]})]
        await records(server, array, matched, called("freeze_membership", times=3), called("delete_client"))
        page = await person.signs_in(VIEWER, then=ANALYTICS)
        assert [(row[0], *row[2:]) for row in rows(page, "categories")] == [
            ("memberships", "1", "25%", "75%", "3"),
            ("clients", "0", "50%", "25%", "1"),
            ("without a category", "0", "25%", "0%", "0"),
        ]
        titles = [title.text() for title in page.tree.css("section#categories svg title")]
        assert "memberships, Share of calls: 75.0 %" in titles
        assert "clients, Share of sent tools: 50.0 %" in titles


async def test_tools_that_were_sent_in_vain_and_those_never_sent_lead_to_the_catalog(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        await records(
            server, sent("delete_client", "freeze_membership", times=2), sent("gone"), called("freeze_membership")
        )
        page = await person.signs_in(VIEWER, then=ANALYTICS)
        assert [(row[0], row[2]) for row in rows(page, "idle")] == [("delete_client", "2"), ("gone", "1")]
        assert links(page, "idle") == ["/console/catalog/delete_client"]
        whole = await data_of(server, VIEWER, "/unsent?period=all")
        names = [tool["name"] for tool in whole["rows"]]
        assert whole["total"] == len(server.parts.runtime.source.snapshot()) - 2
        assert not {"delete_client", "freeze_membership"} & set(names)
        tool = await person.opens(next(link for link in links(page, "unsent") if "/catalog/" in link))
        assert tool.status == 200


async def test_what_was_asked_for_in_vain_leads_to_the_runs_and_to_the_search(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        await records(
            server,
            searched("sauna & steam", times=2),
            called("order_pizza", error="unknown_tool"),
            called("delete_client", error="unknown_tool", times=4),
        )
        page = await person.signs_in(VIEWER, then=ANALYTICS)
        assert rows(page, "searches") == [["sauna & steam", "2"]]
        assert links(page, "searches")[-1] == "/console/catalog?q=sauna%20%26%20steam"
        assert [row[:2] for row in rows(page, "unknown")] == [
            ["delete_clientin the catalog", "4"],
            ["order_pizza", "1"],
        ]
        runs = await person.opens("/console/runs?tool=order_pizza")
        assert "/console/runs?tool=order_pizza" in links(page, "unknown")
        assert len(runs.tree.css("tbody tr")) == 1
        assert len((await person.opens(links(page, "searches")[1])).tree.css("tbody tr")) == 1


async def test_failures_are_listed_with_their_share_and_lead_to_the_runs_of_the_tool(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        await records(server, called("delete_client", error="failed"), called("delete_client", times=3), called("fine"))
        page = await person.signs_in(VIEWER, then=ANALYTICS)
        assert [row[:4] for row in rows(page, "failing")] == [["delete_client", "1", "4", "25%"]]
        assert "/console/runs?tool=delete_client" in links(page, "failing")
        assert "20%" in page.tree.css("dl.tiles dd")[3].text()


async def test_suggestions_have_the_lines_that_change_the_settings(tmp_path: Path) -> None:
    policy = PartSettings(type="cedar", config={"deny": ["drop_*"]})
    gateway = GatewaySettings(pinned=("crm_*",))
    async with console(tmp_path, policy=policy, gateway=gateway) as server, browser(server) as person:
        for _ in range(50):
            await records(server, sent("delete_client", "freeze_membership"), called("freeze_membership"))
        page = await person.signs_in(ADMIN, then=ANALYTICS)
        blocks = [tomllib.loads(block.text()) for block in page.tree.css(".suggestions pre")]
        assert blocks == [
            {"gateway": {"pinned": ["crm_*", "freeze_membership"]}},
            {"policy": {"deny": ["drop_*", "delete_client"]}},
        ]
        assert "50 calls in 50 requests" in page.text
        assert "toolcaddie.toml" in page.tree.css_first(".suggestions").text()
        assert "/console/catalog/delete_client" in links(page, "suggestions")


async def test_the_suggested_line_hides_the_tool(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        await records(server, sent("delete_client", times=50), called("get_client_details"))
        page = await person.signs_in(ADMIN, then=ANALYTICS)
        (block,) = page.tree.css(".suggestions pre")
    policy = PartSettings(type="cedar", config=tomllib.loads(block.text())["policy"])
    async with console(tmp_path, policy=policy) as server, browser(server) as person:
        page = await person.signs_in(VIEWER, then="/console/catalog/get_client_details")
        assert page.status == 200
        assert (await person.opens("/console/catalog/delete_client")).status == 404


async def test_a_category_that_nobody_calls_is_switched_off_by_a_line(tmp_path: Path) -> None:
    tools = [{"name": f"{each}_tool", "category": each, "parameters": {}} for each in ("gold", "iron", "tin")]
    catalog = tmp_path / "tools.jsonl"
    catalog.write_text("\n".join(map(json.dumps, tools)))
    async with console(tmp_path, catalog=str(catalog)) as server, browser(server) as person:
        await records(server, sent("gold_tool", "iron_tool", times=50), called("gold_tool"))
        page = await person.signs_in(ADMIN, then=ANALYTICS)
        (block,) = page.tree.css(".suggestions pre")
        assert tomllib.loads(block.text()) == {"catalog": {"categories": ["gold", "tin"]}}
        assert "/console/catalog?category=iron" in links(page, "suggestions")


async def test_names_and_words_that_a_tool_lacks_become_hints(tmp_path: Path) -> None:
    async with console(tmp_path) as server:
        await records(
            server,
            sent("delete_client", times=60),
            called("erase_client", error="unknown_tool", times=3),
            called("delete_client", error="unknown_tool", times=3),
            searched("quantum chromodynamics", times=3),
            called("get_client_details", error="failed", times=10),
        )
        by_kind = {each["kind"]: each for each in (await data_of(server))["suggestions"]}
        assert set(by_kind) == {"failing", "hidden", "misnamed", "searched"}
        hints = [msgspec.json.decode(line) for line in by_kind["misnamed"]["lines"].splitlines()]
        assert by_kind["misnamed"]["names"][0] == "delete_client"
        assert hints[0] == {"name": "delete_client", "hints": ["erase"]}
        assert (by_kind["searched"]["names"], by_kind["searched"]["lines"]) == ([], "")
        assert (by_kind["failing"]["number"], by_kind["failing"]["of"]) == (10, 10)


async def test_few_events_suggest_nothing(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        await records(
            server,
            sent("delete_client", times=49),
            called("erase_client", error="unknown_tool", times=2),
            searched("sauna", times=2),
            called("get_client_details", error="failed", times=9),
        )
        assert (await data_of(server))["suggestions"] == []
        assert "suggest nothing" in (await person.signs_in(ADMIN, then=ANALYTICS)).text


async def test_who_does_not_see_all_tenants_gets_no_lines_of_the_settings(tmp_path: Path) -> None:
    policy = PartSettings(type="cedar", config={"deny": ["secret_plan_*"]})
    async with console(tmp_path, policy=policy) as server, browser(server) as person:
        await records(server, sent("delete_client", times=50), called("get_client_details"))
        page = await person.signs_in(VIEWER, then=ANALYTICS)
        assert "Tools that no model called: delete_client" in page.text
        assert "An admin of the server sees the lines" in page.text
        assert "secret_plan" not in page.html
        assert not page.tree.css(".suggestions pre")


async def test_each_tenant_sees_its_own_use(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person, browser(server) as admin:
        for tenant in ("acme", "other"):
            await records(
                server,
                sent(f"{tenant}_idle"),
                called(f"{tenant}_bad", error="no"),
                called(f"{tenant}_unknown", error="unknown_tool", times=3),
                searched(f"{tenant} words", times=3),
                [("tools_selected", {"categories": [f"{tenant}_category"], "matched": [f"{tenant}_category"]})],
                tenant=tenant,
            )
        pages = [await person.signs_in(ACME, then=ANALYTICS)]
        lists = ("categories", "idle", "unsent", "searches", "unknown", "failing", "newest")
        pages += [await person.opens(f"{ANALYTICS}/{name}?period=all") for name in lists]
        assert all(
            page.status == 200 and "other_" not in page.html and "other words" not in page.html for page in pages
        )
        assert "acme_idle" in pages[0].text
        assert "other_idle" in (await admin.signs_in(ADMIN, then=ANALYTICS)).text


async def test_hostile_names_are_shown_and_do_nothing(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        await records(
            server,
            sent(HOSTILE, times=60),
            called(HOSTILE, error="no", times=20),
            called(f"x{HOSTILE}", error="unknown_tool", times=5),
            searched(HOSTILE, times=5),
            [("tools_selected", {"categories": [HOSTILE], "matched": [HOSTILE]})],
        )
        await person.signs_in(ADMIN, then=ANALYTICS)
        for path in ("", "/categories", "/idle", "/searches", "/unknown", "/failing", "/newest"):
            page = await person.opens(f"{ANALYTICS}{path}")
            assert page.status == 200
            assert not page.tree.css("img[src=x], [onerror], [style]")
            assert len(page.tree.css("script")) == 1
            assert "\u202e" not in page.html
            assert "49" not in [node.text() for node in page.tree.css("th")]


async def test_long_lists_have_pages(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        names = [f"tool_{number:03}" for number in range(150)]
        await records(server, sent(*names))
        first = await person.signs_in(VIEWER, then=ANALYTICS)
        assert len(rows(first, "idle")) == 10
        page, shown = await person.opens(f"{ANALYTICS}/idle?period=month"), []
        while True:
            shown += [row.text(strip=True) for row in page.tree.css("tbody th")]
            following = page.tree.css("nav.pages a[rel=next]")
            if not following:
                break
            page = await person.opens(following[0].attributes["href"] or "")
        assert shown == names
        assert f"{ANALYTICS}/idle?period=month" in [link.attributes["href"] for link in first.tree.css("#idle a")]
        assert (await person.opens(f"{ANALYTICS}/nothing")).status == 404


async def test_the_newest_runs_suggest_hints_for_tools_that_were_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    script = []
    for _ in range(3):
        script += [call("get_attendance_today", {}), say("Done.")]
    async with ScriptedUpstream(script) as upstream, console(tmp_path, upstream=upstream) as server:
        for name in ("Ann", "Ben", "Eve"):
            await server.parts.runtime.run(f"freeze the membership of {name} by turnstile")
        async with browser(server) as person:
            page = await person.signs_in(VIEWER, then=f"{ANALYTICS}/newest")
        assert page.status == 200
        proposals = (await data_of(server, VIEWER, "/newest"))["proposals"]
        assert (proposals["runs"], proposals["with_calls"]) == (3, 3)
        (hint,) = proposals["hints"]
        assert (hint["tool"], hint["missed"]) == ("get_attendance_today", 3)
        assert "turnstile" in msgspec.json.decode(hint["line"])["hints"]


async def test_a_program_gets_the_figures_and_who_has_no_level_gets_none(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as web:
        await records(server, sent("delete_client"), called("freeze_membership", error="no"))
        data = await data_of(server)
        assert (data["requests"], data["sent"], data["calls"], data["failed"]) == (1, 1, 1, 1)
        assert data["period"]["word"] == "month"
        assert data["totals"]["idle"] == 1
        assert data["idle"] == [
            {"name": "delete_client", "category": "clients", "sent": 1, "calls": 0, "failed": 0, "known": True}
        ]
        headers = {"authorization": f"Bearer {await server.key(NOBODY)}", "accept": "application/json"}
        for path in ("", "/idle", "/newest"):
            async with web.web.get(f"{server.url}{ANALYTICS}{path}", headers=headers) as answer:
                assert answer.status == 403


async def test_analytics_is_whole_in_each_language(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as person:
        await records(server, called("delete_client", error="no", times=20))
        await person.signs_in(VIEWER, then=ANALYTICS)
        for language, heading, advice in (("es", "Análisis", "Más de la mitad"), ("pt", "Análise", "Mais da metade")):
            page = await person.opens(ANALYTICS, **{"accept-language": language})
            assert page.tree.css_first("h1").text() == heading
            assert advice in page.text
            assert "More than half" not in page.text
