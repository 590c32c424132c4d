"""Hostile texts that arrive over the live streams of open pages: no script runs, and nothing is refused by the policy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.console_browser.actions.filling import STRANGER
from tests.console_browser.payloads import BY_PLACE, PAYLOADS

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from playwright.sync_api import Page, expect

_BATCH = 30
_LONGEST_NAME = 200
BATCHES = [PAYLOADS[start : start + _BATCH] for start in range(0, len(PAYLOADS), _BATCH)]


def hits_of(page: Page) -> list[str]:
    """Returns a list that gets the address of the page whenever a script of a payload runs, also right before the page goes."""
    hits: list[str] = []
    page.expose_function("noteHit", lambda: hits.append(page.url))
    page.add_init_script("window.hit = () => { window.noteHit(); };")
    page.reload()
    return hits


def test_a_script_that_runs_is_noticed(people: Any) -> None:
    page = people.opens("runs", who="vera")
    hits = hits_of(page)
    page.evaluate("hit()")
    assert len(hits) == 1


def test_hostile_messages_of_a_hostile_person_arrive_in_the_open_list(people: Any) -> None:
    page = people.opens("runs", who="vera")
    hits = hits_of(page)
    with ThreadPoolExecutor(max_workers=4) as programs:
        list(programs.map(lambda message: people.server.ask(message, who=STRANGER), PAYLOADS))
    people.server.ask("the last of them")
    rows = page.locator("table.runs tbody tr")
    expect(rows.filter(has_text="the last of them")).to_have_count(1)
    assert rows.count() >= 150
    shown = rows.locator("[data-field=message]").all_text_contents()
    assert any(text in shown for text in BY_PLACE["text"] + BY_PLACE["svg"] + BY_PLACE["template"])
    assert set(rows.filter(has_text="hit()").locator("[data-field=principal]").all_text_contents()) == {STRANGER}
    assert page.locator("main img, main script, main svg").count() == 0
    assert hits == []


def test_hostile_arguments_and_results_arrive_in_the_open_playground(people: Any) -> None:
    page = people.opens("playground", who="otto")
    hits = hits_of(page)
    for payloads in BATCHES:
        sends(page, "\n".join(f"call look_up {json.dumps({'word': each})}" for each in payloads))
        if payloads is BATCHES[0]:
            assert payloads[0] in page.locator("#last .steps").inner_text()
    assert hits == []


def test_hostile_names_of_tools_arrive_in_the_open_playground(people: Any) -> None:
    page = people.opens("playground", who="otto")
    hits = hits_of(page)
    names = ["".join(each.split())[:_LONGEST_NAME] for each in PAYLOADS]
    for start in range(0, len(names), _BATCH):
        sends(page, "\n".join(f"call {each} {{}}" for each in names[start : start + _BATCH]))
        expect(page.locator("#last .steps li").first).to_contain_text("failed")
    assert hits == []


def test_hostile_answers_and_errors_arrive_in_the_open_playground(people: Any) -> None:
    page = people.opens("playground", who="otto")
    hits = hits_of(page)
    for payloads in BATCHES:
        sends(page, "\n".join(payloads))
        expect(page.locator("#last .answer")).to_contain_text("You wrote: ")
    sends(page, f"fail {' '.join(PAYLOADS[:_BATCH])}")
    expect(page.locator("#last .callout.bad")).to_contain_text("<script>hit()</script>")
    gate = people.server.model.close()
    page.get_by_label("Message", exact=True).fill(f"slowly {' '.join(text_payloads())}")
    page.get_by_role("button", name="Send").click()
    gate.open(3)
    expect(page.locator(".live [data-answer]")).to_contain_text("<script>hit()</script>")
    assert page.locator("main img, main script, main svg").count() == 0
    gate.open(50)
    expect(page.locator("#last .answer")).to_contain_text("<script>hit()</script>")
    assert hits == []


def text_payloads() -> Sequence[str]:
    return BY_PLACE["text"]


def sends(page: Page, message: str) -> None:
    """Sends a message, and waits until the page with the whole answer has come."""
    turns = page.locator(".turn").count()
    page.get_by_label("Message", exact=True).fill(message)
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".turn")).to_have_count(turns + 1)
    expect(page.locator(".live")).to_be_hidden()
