"""Conversations in the playground: with a script an answer is shown while it is written, without one the page comes with it."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.console_browser.actions.office import DOOR

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from playwright.sync_api import Page, expect


def sends(page: Page, message: str) -> None:
    page.get_by_label("Message", exact=True).fill(message)
    page.get_by_role("button", name="Send").click()


def has_ended(page: Page) -> None:
    """Waits until the page of the conversation has taken the place of the one with the form."""
    page.wait_for_url("**/console/playground/*#last")
    expect(page.get_by_role("heading", name="Next message")).to_be_visible()


def test_an_answer_is_shown_while_it_is_written(people: Any) -> None:
    page, gate = people.opens("playground", who="otto"), people.server.model.close()
    sends(page, "slowly One two three four five six.")
    live = page.locator(".live")
    expect(live.locator("[data-message]")).to_have_text("slowly One two three four five six.")
    expect(live.locator("[data-tools]")).to_contain_text("look_up")
    expect(live.get_by_role("status")).to_have_text("The model is writing")
    gate.open(2)  # the beginning of the answer, and the first piece of its text
    expect(live.locator("[data-answer]")).to_contain_text("One")
    expect(live.locator("[data-answer]")).not_to_contain_text("six.")
    assert page.url.endswith("/console/playground")
    gate.open(50)
    has_ended(page)
    expect(page.locator("#last .answer")).to_have_text("One two three four five six.")


def test_tools_are_shown_as_they_are_chosen_and_called(people: Any) -> None:
    page = people.opens("playground", who="otto")
    door = people.server.folder / DOOR
    os.mkfifo(door)
    sends(page, 'call wait_at_door {"word": "stamp"}')
    expect(page.locator(".live [data-tools]")).to_contain_text("wait_at_door")
    expect(page.locator(".live [data-steps]")).to_contain_text("wait_at_door called")
    door.write_text("it is open", encoding="utf-8")
    has_ended(page)
    expect(page.locator("#last .steps li")).to_contain_text("wait_at_door done")
    expect(page.locator("#last .steps li")).to_contain_text('{"word": "stamp"}')
    expect(page.locator("#last .answer")).to_have_text("Done: it is open")
    page.get_by_text("Tools sent:").first.click()
    expect(page.locator("#last details")).to_contain_text("wait_at_door")
    page.locator("#last").get_by_role("link", name="run_").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("call wait_at_door")


@pytest.mark.parametrize("script", [True, False])
def test_a_conversation_goes_on_is_listed_and_is_deleted(people: Any, script: bool) -> None:
    page = people.opens("playground", who="otto", script=script)
    sends(page, f"first of {script}")
    has_ended(page)
    expect(page.locator("#last .answer")).to_have_text(f"You wrote: first of {script}")
    sends(page, "and the second")
    expect(page.locator(".turn")).to_have_count(2)
    expect(page.locator("#last .answer")).to_have_text("You wrote: and the second")
    texts = [each["content"] for each in people.server.upstream.bodies[-1]["messages"]]
    assert f"You wrote: first of {script}" in texts
    page.get_by_role("link", name="All conversations").click()
    page.get_by_role("link", name=f"first of {script}").click()
    page.get_by_role("button", name="Delete this conversation").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Playground")
    expect(page.get_by_role("link", name=f"first of {script}")).to_have_count(0)


def test_the_keyboard_sends_a_message(people: Any) -> None:
    page = people.opens("playground", who="otto")
    page.get_by_label("Message", exact=True).focus()
    page.keyboard.type("line one")
    page.keyboard.press("Enter")
    page.keyboard.type("line two")
    page.keyboard.press("Control+Enter")
    has_ended(page)
    expect(page.locator("#last .said")).to_have_text("line oneline two")


def test_a_bot_a_model_and_a_preset_are_chosen(people: Any) -> None:
    page = people.opens("playground", who="otto")
    page.get_by_label("Bot").select_option("clerk")
    page.get_by_label("Model").fill("gpt-other")
    page.get_by_label("Preset").select_option("keyword")
    sends(page, "who are you?")
    has_ended(page)
    facts = page.locator("main > dl")
    for text in ("clerk", "gpt-other", "keyword"):
        expect(facts).to_contain_text(text)
    assert people.server.upstream.bodies[-1]["model"] == "gpt-other"
    run = page.locator("#last").get_by_role("link", name="run_")
    data = page.request.get(str(run.get_attribute("href")), headers={"accept": "application/json"}).json()
    assert (data["run"]["bot"], data["run"]["preset"]) == ("clerk", "keyword")


@pytest.mark.parametrize("script", [True, False])
def test_a_question_is_refused_inline_and_the_answer_goes_on(people: Any, script: bool) -> None:
    note = f"play-refused-{script}".lower()
    page = people.opens("playground", who="otto", script=script)
    sends(page, asking(note))
    has_ended(page)
    expect(page.locator("#last")).to_contain_text("waits for a person")
    expect(page.locator("#last pre").first).to_contain_text(f'"name": "{note}"')
    page.get_by_label("Reason").fill("rather not")
    page.get_by_role("button", name="Refuse").click()
    expect(page.locator("#last .answer")).to_have_text("Done: A person did not approve this call.")
    assert people.server.note(note) is None


@pytest.mark.parametrize("script", [True, False])
def test_a_question_that_somebody_else_approves_lets_the_call_run(people: Any, script: bool) -> None:
    note = f"play-approved-{script}".lower()
    page = people.opens("playground", who="otto", script=script)
    sends(page, asking(note))
    has_ended(page)
    expect(page.get_by_role("button", name="Go on with the answer")).to_have_count(0)
    boss = people.opens("approvals", who="ada", script=script)
    boss.get_by_role("article").filter(has_text=f'"name": "{note}"').get_by_label("Choose this question").check()
    boss.get_by_role("button", name="Approve").click()
    expect(boss.get_by_role("status")).to_contain_text("Approved.")
    page.reload()
    assert people.server.note(note) is None
    page.get_by_role("button", name="Go on with the answer").click()
    expect(page.locator("#last .answer")).to_have_text(f"Done: wrote {note}")
    assert people.server.note(note) == "hello"


def test_a_call_that_is_refused_before_it_runs_is_shown_too(people: Any) -> None:
    page = people.opens("playground", who="otto")
    sends(page, 'call no_such_tool {}\ncall write_note {"name": "no text"}\ncall look_up {"word": "stamp"}')
    has_ended(page)
    steps = page.locator("#last .steps li").all_inner_texts()
    assert sorted(step.split("\n")[0].rsplit(" ", 2)[0] for step in steps if "failed" in step) == [
        "no_such_tool",
        "write_note",
    ], steps
    assert sum("It was refused before anything ran" in step for step in steps) == 2
    assert any("look_up done" in step for step in steps)


def test_an_answer_is_stopped_in_the_middle(people: Any) -> None:
    page, gate = people.opens("playground", who="otto"), people.server.model.close()
    sends(page, "slowly One two three four five six seven.")
    gate.open(2)
    expect(page.locator("[data-answer]")).to_contain_text("One")
    page.get_by_role("button", name="Stop").click()
    has_ended(page)
    page.reload()
    expect(page.locator("#last")).to_contain_text("It was stopped.")
    gate.open(50)


@pytest.mark.parametrize("script", [True, False])
def test_a_failed_answer_says_why(people: Any, script: bool) -> None:
    page = people.opens("playground", who="otto", script=script)
    sends(page, "fail because of the weather")
    has_ended(page)
    expect(page.locator("#last")).to_contain_text("The answer failed:")
    expect(page.locator("#last")).to_contain_text("because of the weather")


def asking(note: str) -> str:
    return f"call write_note {json.dumps({'name': note, 'text': 'hello'})}"
