"""Figures: the overview and costs by period, evaluations of tools, and the checkup of the server."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from playwright.sync_api import Page, expect

LIST = "\n".join(
    json.dumps({"query": f"count the {thing} in the store room", "gold": [f"count_{thing}"]})
    for thing in ("pens", "chairs", "tables", "lamps", "no_such_things")
)
_LONG_MS = 60_000
_MOST_LOOKS = 100


def tile(page: Page, name: str) -> str:
    return str(page.locator(".tile").filter(has=page.get_by_text(name, exact=True)).locator("dd").inner_text())


def test_the_overview_counts_requests_and_leads_to_what_is_behind(people: Any) -> None:
    page = people.opens("overview", who="vera")
    before = int(tile(page, "Requests today").replace(",", ""))
    people.server.ask('call look_up {"word": "overview"}')
    for _ in range(_MOST_LOOKS):  # the figures are counted aside
        page.reload()
        if int(tile(page, "Requests today").replace(",", "")) > before:
            break
    else:
        raise AssertionError("the request is not counted")
    expect(page.get_by_role("region", name="Most called tools today")).to_contain_text("look_up")
    expect(page.locator("figure svg, .plot svg").first).to_be_visible()
    page.locator(".tile").filter(has_text="Failed today").get_by_role("link").click()
    expect(page.get_by_label("Status")).to_have_value("failed")
    page.go_back()
    page.locator(".tile").filter(has_text="Requests that wait for a person").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Approvals")


@pytest.mark.parametrize("section", ["costs", "analytics"])
def test_figures_are_shown_by_period(people: Any, section: str) -> None:
    page = people.opens(section, who="vera")
    for name, word in (("Today", "day"), ("This month", "month"), ("All time", "all")):
        page.get_by_role("navigation", name="Period").get_by_role("link", name=name).click()
        page.wait_for_url(f"**period={word}")
        expect(page.get_by_role("navigation", name="Period").locator("[aria-current=true]")).to_have_text(name)


def test_costs_are_shown_by_tool_and_by_key(people: Any) -> None:
    people.server.ask('call look_up {"word": "costs"}')
    page = people.opens("costs?period=all", who="vera")
    region = page.get_by_role("region", name="By tool")
    for _ in range(_MOST_LOOKS):  # the figures are counted aside
        if region.get_by_role("link", name="look_up").count():
            break
        page.reload()
    page.get_by_role("region", name="By tool").get_by_role("link", name="look_up").click()
    expect(page.get_by_role("heading", name="By day: look_up")).to_be_visible()
    expect(page.locator("#one svg").first).to_be_visible()
    expect(page.get_by_role("region", name="By API key")).to_contain_text("ann of the tests")


def test_a_list_from_a_file_is_measured_with_two_configurations(people: Any) -> None:
    page = people.opens("evaluation", who="otto")
    file = {"name": "requests.jsonl", "mimeType": "application/jsonl", "buffer": LIST.encode()}
    page.get_by_label("Or read a file into the list").set_input_files(files=[file])
    expect(page.get_by_label("List, one JSON object a line")).to_have_value(LIST)
    expect(page.get_by_label("Taken from")).to_have_value("list")
    page.get_by_label("Compare with a second configuration").check()
    page.locator("#second_preset").select_option("keyword")
    page.locator("#second_max_tools").fill("3")
    page.get_by_role("button", name="Begin").click()
    page.wait_for_url("**/console/evaluation/*")
    expect(page.get_by_role("region", name="Compared")).to_be_visible(
        timeout=_LONG_MS
    )  # the script loads the page again
    expect(page.get_by_role("heading", level=1)).to_contain_text("keyword, 3 tools")
    expect(page.get_by_role("region", name="Figures").locator("svg")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("count_no_such_things")
    page.get_by_role("link", name="All evaluations").click()
    expect(page.get_by_role("region", name="Evaluations of the last 30 days")).to_contain_text("keyword, 3 tools")


def test_the_trail_is_measured_without_a_script(people: Any) -> None:
    people.server.ask('call count_cups {"word": "how many cups are there?"}')
    page = people.opens("evaluation", who="otto", script=False)
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    while page.get_by_role("link", name="Look again").count():
        page.get_by_role("link", name="Look again").click()
    expect(page.get_by_role("region", name="Figures")).to_be_visible()
    expect(page.get_by_text("of the trail")).to_be_visible()


def test_a_wrong_form_is_explained_and_not_lost(people: Any) -> None:
    page = people.opens("evaluation", who="otto")
    page.get_by_label("Taken from").select_option("list")
    page.get_by_label("List, one JSON object a line").fill("count the pens")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was begun:")
    expect(page.get_by_label("List, one JSON object a line")).to_have_value("count the pens")
    expect(page.get_by_label("Taken from")).to_have_value("list")
    page.get_by_label("List, one JSON object a line").fill(LIST)
    page.get_by_label("Compare with a second configuration").check()
    page.locator("#second_max_tools").fill("")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("alert")).to_contain_text("would be compared with itself")
    expect(page.get_by_label("List, one JSON object a line")).to_have_value(LIST)
    expect(page.get_by_label("Compare with a second configuration")).to_be_checked()


def test_an_evaluation_is_cancelled(people: Any) -> None:
    page = people.opens("evaluation", who="otto", script=False)
    page.get_by_label("Taken from").select_option("list")
    page.get_by_label("List, one JSON object a line").fill("\n".join([LIST] * 300))
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    while page.get_by_role("link", name="Look again").count():
        page.get_by_role("link", name="Look again").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")


def test_the_checkup_looks_at_the_models_the_sandbox_and_the_machine(people: Any) -> None:
    page = people.opens("health")
    expect(page.get_by_role("heading", level=1)).to_contain_text("ready")
    page.get_by_role("link", name="Ask it for its models").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("works")
    expect(page.get_by_role("region", name="Models")).to_contain_text("gpt-test")
    page.get_by_role("link", name="Health").last.click()
    page.get_by_role("link", name="Try to get out of the sandbox").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Sandbox")
    page.get_by_role("link", name="Health").last.click()
    page.get_by_role("link", name="Look at the parts of this machine").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Parts of this machine")
    page = people.opens("health", who="vera")
    expect(page.get_by_role("link", name="Ask it for its models")).to_have_count(0)
