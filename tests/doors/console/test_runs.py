"""The pages of runs: the list with its filters, and everything about one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.doors.console.browser import browser
from tests.doors.console.full import NOBODY, OPERATOR, VIEWER, Server, console
from toolcaddie.core.control import Principal
from toolcaddie.core.storage import EventRecord
from toolcaddie.testing import ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio

RUNS = "/console/runs"
HOSTILE = "<img src=x onerror=alert(1)>\u202e\"'{{7*7}}</svg><script>x</script>"


def started(server: Server, run_id: str, at: float = 1_000.0, *, message: str = "hi", **principal: Any) -> None:
    """Records the start of a run."""
    append(
        server,
        run_id,
        (
            "run_started",
            {"message": message, "principal": {"id": "ann", **principal}, "preset": "default", "catalog_size": 3},
        ),
        at=at,
    )


def append(server: Server, run_id: str, *facts: tuple[str, dict[str, Any]], at: float = 1_000.0, seq: int = 1) -> None:
    for number, (kind, data) in enumerate(facts):
        server.parts.event_log.append(
            EventRecord(run_id=run_id, seq=seq + number, at=at + number, kind=kind, data=data)
        )


async def asked(server: Server, key: str, text: str) -> str:
    """The id of the run that answers a message."""
    headers = {"authorization": f"Bearer {key}"}
    body = {"model": "gpt-test", "messages": [{"role": "user", "content": text}]}
    async with (
        aiohttp.ClientSession() as web,
        web.post(f"{server.url}/v1/chat/completions", json=body, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return answer.headers["x-toolcaddie-run"]


async def test_a_run_shows_what_it_did_and_why_each_tool_was_in_or_out(tmp_path: Path) -> None:
    script = [call("freeze_membership", {"client_id": 7}), say("It is frozen.")]
    async with (
        ScriptedUpstream(script, api_key=None) as upstream,
        console(tmp_path, upstream=upstream) as server,
        browser(server) as vera,
    ):
        run_id = await asked(server, await server.key(Principal(id="ann")), "freeze the membership of John")
        page = await vera.signs_in(VIEWER, then=RUNS)
        (link,) = page.tree.css("tbody th a")
        assert link.text() == "freeze the membership of John"
        assert "freeze_membership" in page.text
        page = await vera.opens(link.attributes["href"] or "")
        assert page.path == f"{RUNS}/{run_id}"
        for text in (
            "freeze the membership of John completed",
            "It is frozen.",
            "Delivery",
            "gpt-test",
            "run_finished",
        ):
            assert text in page.text
        spans = page.tree.css("svg.waterfall title")
        assert [span.text().partition(",")[0] for span in spans] == [
            "choice of tools",
            "round 1: gpt-test",
            "freeze_membership",
            "round 2: gpt-test",
        ]
        rows = {row.css("th")[0].text(): row.text(separator=" ") for row in page.tree.css("#tools ~ .scroll tbody tr")}
        assert " in " in rows["freeze_membership"]
        (explain,) = [form for form in page.tree.css("form") if form.css("#tool")]
        # The answer is far below the top of the page.
        assert explain.attributes["action"] == f"{RUNS}/{run_id}#tools"
        page = await vera.opens(f"{RUNS}/{run_id}?tool=no_such_tool")
        assert "no_such_tool : out, not listed" in page.text
        data = {"name": "freeze_membership", "stage": "max_tools", "detail": "max_tools is 24", "score": 0.1}
        started(server, "run_limited")
        append(server, "run_limited", ("tools_selected", {"tools": [], "dropped": [data]}), seq=2)
        page = await vera.opens(f"{RUNS}/run_limited?tool=freeze_membership")
        assert "Other tools have higher scores, and the number of tools is limited." in page.text


async def test_the_same_data_is_json_for_a_program(tmp_path: Path) -> None:
    async with console(tmp_path) as server, aiohttp.ClientSession(base_url=server.url) as web:
        run_id = await asked(server, await server.key(Principal(id="ann")), "freeze the membership of John")
        headers = {"authorization": f"Bearer {await server.key(VIEWER)}", "accept": "application/json"}
        async with web.get(f"{RUNS}?principal=ann", headers=headers) as answer:
            (run,) = (await answer.json())["runs"]
        async with web.get(f"{RUNS}/{run_id}", headers=headers) as answer:
            data = await answer.json()
        assert run["run_id"] == data["run"]["run_id"] == run_id
        assert data["selection"]["tools"]
        assert data["events"][0]["kind"] == "run_started"
        async with web.get(f"{RUNS}?principal=ben", headers=headers) as answer:
            assert (await answer.json())["runs"] == []


async def test_the_list_is_filtered_and_goes_on_page_by_page(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera:
        for number in range(120):
            started(server, f"run_{number:03}", number, message=f"message {number}", bot="desk" if number % 2 else None)
        append(server, "run_007", ("call_finished", {"id": "1", "name": "lock_doors"}), seq=2)
        await vera.signs_in(VIEWER, then=RUNS)
        seen, path = [], f"{RUNS}?bot=desk"
        while path:
            page = await vera.opens(path)
            seen += [link.text() for link in page.tree.css("tbody th a")]
            path = next((link.attributes["href"] or "" for link in page.tree.css("a[rel=next]")), "")
        assert seen == [f"message {number}" for number in range(119, 0, -2)]
        page = await vera.opens(f"{RUNS}?tool=lock_doors&since=1970-01-01T00:00&until=1970-01-01T00:01")
        assert [link.text() for link in page.tree.css("tbody th a")] == ["message 7"]
        for wrong in ("status=odd", "since=noon", "before=x", "text=" + "x" * 201):
            assert (await vera.opens(f"{RUNS}?{wrong}")).status == 400


async def test_nobody_sees_the_runs_of_another_tenant(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as other:
        started(server, "run_theirs", tenant="acme", message="a secret")
        page = await other.signs_in(OPERATOR, then=RUNS)
        assert "a secret" not in page.html
        for path in ("", "/events"):
            page = await other.opens(f"{RUNS}/run_theirs{path}")
            assert (page.status, "a secret" in page.html) == (404, False)
        token = (await other.opens(RUNS)).forms()["sign-out"]["token"]
        for word, fields in (("settle", {"outcome": "done", "call": "1"}), ("select", {"preset": "default"})):
            answer = await other.posts(f"{RUNS}/run_theirs/{word}", {"token": token, **fields})
            assert (answer.status, "a secret" in answer.html) == (404, False)


async def test_who_has_no_level_sees_no_runs_and_a_viewer_changes_nothing(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as nina, browser(server) as vera:
        started(server, "run_a")
        page = await nina.signs_in(NOBODY, then=RUNS)
        assert page.status == 403
        page = await vera.signs_in(VIEWER, then=f"{RUNS}/run_a")
        assert page.status == 200
        token = page.forms()["sign-out"]["token"]
        for word in ("settle", "select"):
            assert (await vera.posts(f"{RUNS}/run_a/{word}", {"token": token})).status == 403


async def test_an_operator_says_what_became_of_a_call_whose_outcome_is_unknown(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        one = {"id": "call_1", "name": "pay", "arguments": "{}"}
        started(server, "run_a")
        end = ("run_failed", {"status": "failed", "error": "gone", "kind": "Lost"})
        append(server, "run_a", ("call_intended", one), ("call_unknown", {**one, "reason": "killed"}), end, seq=2)
        page = await otto.signs_in(OPERATOR, then=f"{RUNS}/run_a")
        page = await otto.sends(page, "settle", reason="on the statement")
        assert page.status == 400
        assert "Nothing was changed: say whether the call took effect" in page.text
        assert page.tree.css_first("input[name=reason]").attributes["value"] == "on the statement"
        page = await otto.sends(page, "settle", outcome="done", reason="on the statement")
        assert (page.status, page.path) == (200, f"{RUNS}/run_a")
        assert "It is recorded what became of the call." in page.text
        assert "settled by otto: on the statement" in page.text
        assert "settle" not in page.forms()


async def test_an_operator_chooses_again_under_another_preset_and_nothing_is_called(tmp_path: Path) -> None:
    script = [call("freeze_membership", {"client_id": 7}), say("It is frozen.")]
    async with (
        ScriptedUpstream(script, api_key=None) as upstream,
        console(tmp_path, upstream=upstream) as server,
        browser(server) as otto,
    ):
        run_id = await asked(server, await server.key(Principal(id="ann")), "freeze the membership of John")
        page = await otto.signs_in(OPERATOR, then=f"{RUNS}/{run_id}")
        page = await otto.sends(page, "select", preset="budget")
        assert (page.status, "Chosen again: budget" in page.text) == (200, True)
        assert "freeze_membership" in page.text
        assert len(upstream.bodies) == 2
        assert (await otto.posts(page.path, {"token": page.forms()["sign-out"]["token"], "preset": "no"})).status == 400


async def test_hostile_texts_are_only_texts(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera:
        started(server, "run_a", message=HOSTILE, bot=HOSTILE, id=HOSTILE)
        one = {"id": HOSTILE, "name": HOSTILE, "arguments": json.dumps({"a": HOSTILE})}
        tool = {"name": HOSTILE, "category": HOSTILE, "score": 1.0, "reasons": [HOSTILE]}
        selection = {
            "tools": [tool],
            "dropped": [],
            "dropped_by_stage": {HOSTILE: 1},
            "counts": {"catalog": 1, "selected": 1},
        }
        end = {"status": "completed", "text": HOSTILE, "calls": 1, "rounds": 1, "seconds": 1.0}
        facts = [("tools_selected", selection), ("call_intended", one), ("call_unknown", {**one, "reason": HOSTILE})]
        answers = [{**one, "approval": each, "status": each, "by": HOSTILE} for each in ("approved", HOSTILE)]
        facts += [("approval_closed", {**answer, "reason": HOSTILE}) for answer in answers]
        append(server, "run_a", *facts, ("run_finished", end), seq=2)
        await vera.signs_in(VIEWER, then=RUNS)
        for path in (
            RUNS,
            f"{RUNS}/run_a",
            f"{RUNS}/run_a?tool=%3Cscript%3E",
            f"{RUNS}/run_a/events",
            f"{RUNS}?text=%22%3E",
        ):
            page = await vera.opens(path)
            assert page.status == 200
            assert [each.attributes.get("src", "")[:16] for each in page.tree.css("script")] == ["/console/static/"]
            assert not page.tree.css("main img, [onerror], [style]")
            assert "\u202e" not in page.html
            assert "49" not in page.text.replace("1970-01-01", "")


async def test_the_events_of_a_long_run_are_on_several_pages(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera:
        started(server, "run_a")
        append(
            server, "run_a", *[("limit_reached", {"limit": "x", "detail": f"number {n}"}) for n in range(250)], seq=2
        )
        await vera.signs_in(VIEWER, then=RUNS)
        seen, path = [], f"{RUNS}/run_a/events"
        while path:
            page = await vera.opens(path)
            seen += [row.text() for row in page.tree.css("tbody th")]
            path = next((link.attributes["href"] or "" for link in page.tree.css("a[rel=next]")), "")
        assert seen == [str(number) for number in range(1, 252)]


async def test_a_row_of_another_form_does_not_hide_the_rest(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera:
        started(server, "run_a", message="still there")
        facts: list[tuple[str, dict[str, Any]]] = [
            ("tools_delivered", {}),
            ("call_finished", {}),
            ("model_answered", {}),
        ]
        append(server, "run_a", *facts, ("unheard_of", {}), seq=2)
        page = await vera.signs_in(VIEWER, then=f"{RUNS}/run_a")
        assert (page.status, "still there" in page.text, "unheard_of" in page.text) == (200, True, True)
