"""Evaluations in the console: a person begins one, follows it, reads its figures, compares, and cancels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from tests.doors.console.browser import Browser, Page, browser
from tests.doors.console.full import ADMIN, OPERATOR, VIEWER, console
from toolcaddie.app.evaluation_values import Evaluation
from toolcaddie.core.control import Principal

pytestmark = pytest.mark.anyio

PATH = "/console/evaluation"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e"
REQUESTS = "\n".join(
    json.dumps({"query": query, "gold": [tool]})
    for query, tool in (
        ("register a new client named Ann", "create_client"),
        (f"{HOSTILE} qwerty", "convert_currency"),
        ("switch the app to dark mode", "change_theme"),
        ("list the branches of the gym", "get_branches_info"),
    )
)


def check_page(page: Page) -> None:
    """Checks what holds for every page: hostile text is text, fields have labels, and there is one heading."""
    assert page.status == 200, page.text
    assert not page.tree.css("main script, img[onerror], [style], style")
    assert "\u202e" not in page.html
    labels = {label.attributes["for"] for label in page.tree.css("label")}
    assert {each.attributes["id"] for each in page.tree.css("textarea, select, input:not([type=hidden])")} == labels
    assert len(page.tree.css("h1")) == 1
    assert all(each.attributes.get("scope") for each in page.tree.css("th"))
    assert all(page.tree.css(f"#{each.attributes['aria-labelledby']}") for each in page.tree.css("[aria-labelledby]"))


async def ended(person: Browser, page: Page) -> Page:
    """The page of an evaluation after its end."""
    with anyio.fail_after(60):
        while page.tree.css("[data-follows]"):
            await anyio.sleep(0.2)
            page = await person.opens(page.path)
    return page


async def data_of(person: Browser, path: str) -> Mapping[str, Any]:
    """The JSON of a page."""
    page = await person.opens(path, accept="application/json")
    data: Mapping[str, Any] = json.loads(page.html)
    return data


async def test_two_configurations_are_compared_on_a_given_list(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        page = await otto.signs_in(OPERATOR, then=PATH)
        check_page(page)
        page = await otto.sends(
            page,
            "begin",
            source="list",
            requests=REQUESTS,
            compare="yes",
            second_preset="keyword",
            second_max_tools="3",
        )
        check_page(page)
        page = await ended(otto, page)
        check_page(page)
        assert "keyword, 3 tools" in page.text
        assert len(page.tree.css("svg")) == 2
        assert "convert_currency not found" in page.text
        evaluation = (await data_of(otto, page.path))["evaluation"]
        assert (evaluation["status"], evaluation["by"]) == ("done", "default/otto")
        record = evaluation["outcome"]["record"]
        assert record["requests"]["all"] == 4
        low, high = record["intervals"]["metrics"]["recall@5"]
        assert low <= record["metrics"]["recall@5"] <= high
        assert {each["than"] for each in record["comparisons"]} == {"default"}
        listed = await otto.opens(PATH)
        check_page(listed)
        assert "default / keyword, 3 tools" in listed.text


async def test_the_trail_of_the_own_tenant_is_measured_and_misses_name_their_runs(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        for tenant in ("default", "other"):
            principal = Principal(id="ann", tenant=tenant)
            for message in ("who came today?", "freeze John's membership"):
                await server.parts.runtime.run(message, principal=principal)
        page = await otto.signs_in(OPERATOR, then=PATH)
        page = await ended(otto, await otto.sends(page, "begin", source="trail"))
        evaluation = (await data_of(otto, page.path))["evaluation"]
        assert evaluation["error"] == ""
        assert evaluation["outcome"]["record"]["requests"]["all"] == 2


async def test_there_is_one_evaluation_at_a_time_and_it_can_be_cancelled(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        listed = await otto.signs_in(OPERATOR, then=PATH)
        lines = "\n".join([REQUESTS] * 200)
        page = await otto.sends(listed, "begin", source="list", requests=lines)
        second = await otto.sends(listed, "begin", source="list", requests=REQUESTS)
        assert second.status == 409
        assert "one at a time" in second.text
        page = await ended(otto, await otto.sends(page, "cancel"))
        assert (await data_of(otto, page.path))["evaluation"]["status"] == "cancelled"
        again = await ended(otto, await otto.sends(listed, "begin", source="list", requests=REQUESTS))
        assert (await data_of(otto, again.path))["evaluation"]["status"] == "done"
        token = listed.forms()["begin"]
        assert (await otto.posts(f"{again.path}/cancel", token)).status == 409


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"requests": "nonsense"}, "he list, line 1"),
        ({"requests": ""}, "no request with a right tool"),
        ({"requests": '{"query": "a", "gold": []}'}, "no request with a right tool"),
        ({"requests": REQUESTS, "first_preset": "nothing"}, "irst_preset is one of"),
        ({"requests": REQUESTS, "first_max_tools": "-1"}, "ax_tools must be a number"),
        ({"requests": REQUESTS, "compare": "yes"}, "compared with itself"),
        ({"requests": "\n".join([REQUESTS] * 501)}, "more than 2,000"),
        ({"requests": '{"query": "' + "a" * 300_000 + '", "gold": ["x"]}'}, "bytes, more than"),
    ],
)
async def test_what_cannot_be_measured_is_refused_at_once(
    tmp_path: Path, fields: Mapping[str, str], words: str
) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        page = await otto.signs_in(OPERATOR, then=PATH)
        refused = await otto.sends(page, "begin", source="list", **fields)
        assert refused.status == 400
        assert words in refused.text
        assert not (await data_of(otto, PATH))["evaluations"]


async def test_a_failure_of_the_measurement_is_shown(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        page = await otto.signs_in(OPERATOR, then=PATH)
        unknown = '{"query": "a", "gold": ["no_such_tool"]}'
        page = await ended(otto, await otto.sends(page, "begin", source="list", requests=unknown))
        assert "the catalog has none of the right tools" in page.text
        check_page(page)


async def test_an_evaluation_outlives_a_restart_and_one_whose_server_died_is_lost(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        page = await otto.signs_in(OPERATOR, then=PATH)
        page = await ended(otto, await otto.sends(page, "begin", source="list", requests=REQUESTS))
        store = server.parts.documents
        began = Evaluation(
            id="e1",
            tenant="default",
            by="default/otto",
            source="list",
            configurations=("default",),
            began=1.0,
            beat=1.0,
        )
        await store.put("console-evaluation", "default\0e1", msgspec.json.encode(began))
        key = await server.key(ADMIN)
    async with console(tmp_path) as server, browser(server) as ada:
        shown = await ada.signs_in(key=key, then=page.path)
        assert len(shown.tree.css("svg")) == 2
        lost = await ada.opens(f"{PATH}/e1")
        check_page(lost)
        assert "Begin it again" in lost.text
        assert not lost.tree.css("[data-follows]")


async def test_pages_are_answered_while_an_evaluation_computes_and_show_how_far_it_is(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as otto:
        page = await otto.signs_in(OPERATOR, then=PATH)
        page = await otto.sends(page, "begin", source="list", requests="\n".join([REQUESTS] * 300))
        between: set[int] = set()
        while page.tree.css("[data-follows]"):
            evaluation = (await data_of(otto, page.path))["evaluation"]
            if evaluation["stage"] == "default" and 0 < evaluation["completed"] < evaluation["total"] == 1_200:
                between.add(evaluation["completed"])
            await anyio.sleep(0.1)
            page = await otto.opens(page.path)
        assert between


async def test_only_operators_of_the_server_evaluate(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera, browser(server) as eve, browser(server) as ada:
        assert (await vera.signs_in(VIEWER, then=PATH)).status == 403
        assert (await eve.signs_in(Principal(id="eve", tenant="other", role="admin"), then=PATH)).status == 403
        assert (await ada.signs_in(ADMIN, then=PATH)).status == 200
        assert (await ada.opens(f"{PATH}/nothing")).status == 404
