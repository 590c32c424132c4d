"""The list of runs: filters, pages, what happens while it is open; and the page of a run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.console_browser.actions.filling import UNKNOWN_RUN

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from playwright.sync_api import Locator, Page, expect


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    """Programs that wait for answers while a test looks at a page."""
    with ThreadPoolExecutor() as pool:
        yield pool


def rows(page: Page) -> Locator:
    return page.locator("table.runs tbody tr")


def searched(page: Page, **fields: str) -> None:
    """Fills in the form and sends it by the keyboard."""
    for label, value in fields.items():
        field = page.get_by_label(label.replace("_", " "), exact=True)
        if label == "Status":
            field.select_option(value)
        else:
            field.fill(value)
    page.get_by_label("Text of the message").press("Enter")
    page.wait_for_url(lambda address: "?" in address)


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({"Text_of_the_message": "message 119"}, ["old message 119"]),
        ({"Tool_that_it_called": "look_up", "Text_of_the_message": "old"}, ["old message 7"]),
        ({"Person": "person1", "Bot": "clerk"}, [f"old message {number}" for number in (100, 70, 40, 10)]),
        ({"Status": "failed", "Text_of_the_message": "bill"}, ["pay the bill"]),
        ({"Text_of_the_message": "no such words"}, []),
    ],
)
def test_the_form_filters_the_list(people: Any, fields: dict[str, str], messages: list[str]) -> None:
    page = people.opens("runs", who="vera")
    searched(page, **fields)
    assert rows(page).locator("[data-field=message]").all_inner_texts() == messages
    expect(page.get_by_text("No run fits.")).to_have_count(0 if messages else 1)
    page.get_by_role("link", name="All runs").click()
    expect(page.get_by_label("Text of the message")).to_have_value("")


def test_the_form_filters_by_time_and_shows_what_was_asked(people: Any) -> None:
    page = people.opens("runs", who="vera")
    oldest = page.request.get("/console/runs?text=message 0", headers={"accept": "application/json"}).json()["runs"][0]
    until = page.evaluate("(seconds) => new Date(seconds * 1000 + 60000).toISOString().slice(0, 16)", oldest["started"])
    page.get_by_label("Until (UTC)").fill(until)
    searched(page, Text_of_the_message="old")
    expect(page.get_by_label("Until (UTC)")).to_have_value(until)
    assert 0 < rows(page).count() <= 60
    expect(page.get_by_text("Follow what happens")).to_have_count(0)


def test_a_person_goes_through_all_pages_and_back(people: Any) -> None:
    page = people.opens("runs?text=old", who="vera")
    seen = rows(page).locator("[data-field=message]").all_inner_texts()
    while page.get_by_role("link", name="Older").count():
        page.get_by_role("link", name="Older").click()
        expect(page.get_by_role("link", name="Newest")).to_be_visible()
        page.wait_for_load_state()
        seen += rows(page).locator("[data-field=message]").all_inner_texts()
    assert seen == [f"old message {number}" for number in range(119, -1, -1)]
    page.get_by_role("link", name="Newest").click()
    expect(page).to_have_url("/console/runs")


def test_a_new_run_appears_in_the_open_list_and_its_status_changes_without_a_reload(
    people: Any, aside: ThreadPoolExecutor
) -> None:
    page, gate = people.opens("runs", who="vera"), people.server.model.close()
    page.evaluate("document.body.dataset.same = 'yes'")
    answer = aside.submit(people.server.ask, "slowly and in the open list")
    row = rows(page).filter(has_text="slowly and in the open list")
    expect(row.locator(".badge")).to_have_text("running")
    gate.open(50)
    run_id = answer.result()
    expect(row.locator(".badge")).to_have_text("completed")
    expect(row.locator("[data-field=principal]")).to_have_text("ann")
    expect(page.locator("body")).to_have_attribute("data-same", "yes")
    row.get_by_role("link").click()
    page.wait_for_url(f"**/console/runs/{run_id}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("slowly and in the open list")


def test_a_run_that_arrives_in_the_open_list_has_its_tools_as_after_a_reload(people: Any) -> None:
    page = people.opens("runs?text=call", who="vera")
    people.server.ask('call look_up {"word": "arrives"}')
    row = rows(page).filter(has_text="arrives")
    expect(row.locator("[data-field=tools] code")).to_have_text(["look_up"])
    live = row.locator("[data-field=tools]").inner_text()
    page.reload()
    assert rows(page).filter(has_text="arrives").locator("[data-field=tools]").inner_text() == live


def test_a_reader_in_the_middle_of_the_list_is_told_of_new_runs_and_shown_them_on_demand(people: Any) -> None:
    page = people.opens("runs?text=note", who="vera")
    people.server.ask("note the first")
    row = rows(page).filter(has_text="note the first")
    row.get_by_role("link").focus()
    people.server.ask("note the second")
    more = page.get_by_role("button", name="1 new: show")
    expect(more).to_be_visible()
    expect(rows(page).filter(has_text="note the second")).to_have_count(0)
    more.press("Enter")
    expect(rows(page).first).to_contain_text("note the second")
    expect(page.locator("[data-live-more]")).to_be_hidden()


def test_a_list_that_nobody_follows_stays_and_a_filtered_one_takes_only_what_fits(people: Any) -> None:
    page, other = people.opens("runs", who="vera"), people.opens("runs?principal=otto", who="vera")
    page.get_by_label("Follow what happens").uncheck()
    first = rows(page).first.inner_text()
    people.server.ask("by ann, unseen")
    people.server.ask("by otto, seen", who="otto")
    expect(rows(other).first).to_contain_text("by otto, seen")
    expect(rows(other).filter(has_text="by ann, unseen")).to_have_count(0)
    assert rows(page).first.inner_text() == first
    page.get_by_label("Follow what happens").check()
    expect(rows(page).first).to_contain_text("by otto, seen")
    expect(rows(page).filter(has_text="by ann, unseen")).to_have_count(1)


@pytest.mark.parametrize("script", [True, False])
def test_a_run_shows_its_course_and_chooses_again_under_another_preset(people: Any, script: bool) -> None:
    run_id = people.server.ask('call look_up {"word": "stamp"}')
    page = people.opens("runs", who="otto", script=script)
    rows(page).filter(has_text="call look_up").first.get_by_role("link").click()
    page.wait_for_url(f"**/console/runs/{run_id}")
    picture = page.get_by_role("region", name="Course").locator("svg")
    expect(picture).to_be_visible()
    assert picture.locator("rect").count() >= 3
    expect(page.get_by_role("region", name="Calls", exact=True)).to_contain_text('{"word": "stamp"}')
    page.get_by_label("Why was this tool in or out?").fill("look_up")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("status")).to_contain_text("look_up: in")
    page.get_by_label("Choose again under another preset").select_option("keyword")
    page.get_by_role("button", name="Choose again").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Chosen again: keyword")
    page.get_by_role("link", name="Back to the run").click()
    page.wait_for_url(f"**/console/runs/{run_id}")


def test_an_operator_says_what_became_of_a_call_and_a_viewer_cannot(people: Any) -> None:
    page = people.opens(f"runs/{UNKNOWN_RUN}", who="vera")
    expect(page.get_by_role("region", name="Calls", exact=True)).to_contain_text("unknown")
    expect(page.get_by_text("Say what became of")).to_have_count(0)
    page = people.opens(f"runs/{UNKNOWN_RUN}", who="otto")
    page.get_by_text("Say what became of").click()
    page.get_by_label("How you know").fill("it is on the statement")
    page.get_by_role("button", name="It took effect").click()
    expect(page.get_by_role("status")).to_have_text("It is recorded what became of the call.")
    expect(page.get_by_role("main")).to_contain_text("settled by otto: it is on the statement")
