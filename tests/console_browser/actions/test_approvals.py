"""Questions about calls: answered with a script, without one, and by the keyboard; and the calls have their effect, or none."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from playwright.sync_api import Locator, Page, expect


def asked(people: Any, *notes: str) -> str:
    """Makes the model ask to write these notes in Ann's name, and returns the run."""
    lines = [f"call write_note {json.dumps({'name': name, 'text': f'text of {name}'})}" for name in notes]
    return str(people.server.ask("\n".join(lines)))


def question(page: Page, note: str) -> Locator:
    return page.get_by_role("article").filter(has_text=f'"name": "{note}"')


@pytest.mark.parametrize("script", [True, False])
def test_a_call_runs_after_its_approval_and_not_before(people: Any, script: bool) -> None:
    note = f"approved-{script}".lower()
    run = asked(people, note)
    page = people.opens("approvals", who="otto", script=script)
    question(page, note).get_by_role("link", name="write_note").click()
    expect(page.get_by_role("region", name="The call")).to_contain_text(f"text of {note}")
    page.get_by_label("Reason").fill("agreed by phone")
    assert people.server.note(note) is None
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status")).to_have_text("Approved. The call runs when its run goes on.")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Approved")
    expect(page.get_by_role("main")).to_contain_text("agreed by phone")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    people.server.go_on(run)
    assert people.server.note(note) == f"text of {note}"


@pytest.mark.parametrize("script", [True, False])
def test_a_call_that_is_refused_with_a_reason_never_runs_and_the_model_is_told_so(people: Any, script: bool) -> None:
    note = f"refused-{script}".lower()
    run = asked(people, note)
    page = people.opens("approvals", who="otto", script=script)
    question(page, note).get_by_role("link", name="write_note").click()
    page.get_by_label("Reason").fill("not on a Sunday")
    page.get_by_role("button", name="Refuse").click()
    expect(page.get_by_role("status")).to_have_text("Refused. The model is told so when its run goes on.")
    people.server.go_on(run)
    assert people.server.note(note) is None
    assert people.server.upstream.bodies[-1]["messages"][-1]["content"] == "A person did not approve this call."
    page.goto("/console/approvals?status=refused")
    expect(question(page, note)).to_contain_text("not on a Sunday")


@pytest.mark.parametrize("script", [True, False])
def test_several_questions_are_answered_at_once_and_the_others_stay(people: Any, script: bool) -> None:
    notes = [f"several-{number}-{script}".lower() for number in range(3)]
    asked(people, *notes)
    page = people.opens("approvals?tool=write_note", who="otto", script=script)
    for note in notes[:2]:
        question(page, note).get_by_label("Choose this question").check()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status")).to_contain_text("Approved.")
    expect(question(page, notes[2])).to_have_count(1)
    expect(question(page, notes[0])).to_have_count(0)
    question(page, notes[2]).get_by_label("Choose this question").check()
    page.get_by_role("button", name="Refuse").click()
    expect(page.get_by_role("status")).to_contain_text("Refused.")
    page.get_by_role("navigation", name="State").get_by_role("link", name="Approved", exact=True).click()
    expect(question(page, notes[1])).to_contain_text("answered by otto")


def test_the_keyboard_alone_chooses_and_approves_questions(people: Any) -> None:
    run = asked(people, "by-keyboard")
    page = people.opens("approvals", who="otto")
    tabbed_to(page, question(page, "by-keyboard").get_by_label("Choose this question"))
    page.keyboard.press("Space")
    tabbed_to(page, page.get_by_label("Reason"))
    page.keyboard.type("read it")
    tabbed_to(page, page.get_by_role("button", name="Approve"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Approved.")
    people.server.go_on(run)
    assert people.server.note("by-keyboard") == "text of by-keyboard"


def test_nothing_chosen_is_said_and_nothing_is_answered(people: Any) -> None:
    asked(people, "unchosen")
    page = people.opens("approvals", who="otto")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("main")).to_contain_text("No question is chosen; mark the boxes of those that you answer.")
    page.get_by_role("link", name="Go back").click()
    expect(question(page, "unchosen")).to_have_count(1)


def test_a_question_that_somebody_else_has_answered_meanwhile_is_not_answered_again(people: Any) -> None:
    asked(people, "twice")
    pages = [people.opens("approvals", who=who) for who in ("otto", "ada")]
    for page in pages:
        question(page, "twice").get_by_role("link", name="write_note").click()
        expect(page.get_by_role("button", name="Refuse")).to_be_visible()
    pages[0].get_by_role("button", name="Refuse").click()
    expect(pages[0].get_by_role("status")).to_contain_text("Refused.")
    pages[1].get_by_role("button", name="Approve").click()
    expect(pages[1].get_by_role("heading", level=1)).to_have_text("This has changed meanwhile")


def test_who_asked_may_refuse_but_not_approve(people: Any) -> None:
    asked(people, "own")
    page = people.opens("approvals", who="ann")
    expect(question(page, "own")).to_contain_text("nobody approves a call of their own")
    question(page, "own").get_by_role("link", name="write_note").click()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    page.get_by_role("button", name="Refuse").click()
    expect(page.get_by_role("status")).to_contain_text("Refused.")


def tabbed_to(page: Page, target: Locator) -> None:
    """Goes on with the key Tab until it reaches an element."""
    for _ in range(200):
        if target.evaluate("node => node === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("the key Tab does not reach it")
