"""Bots: versions of their files, jobs, proposals, and the memory of a person."""

from __future__ import annotations

from typing import Any

import pytest

from tests.console_browser.actions.filling import SOUL

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from playwright.sync_api import Page, expect


def of_helper(people: Any, tab: str, *, who: str = "otto") -> Page:
    page: Page = people.opens("bots", who=who)
    page.get_by_role("link", name="helper", exact=True).click()
    page.get_by_role("navigation", name="Pages of this bot").get_by_role("link", name=tab).click()
    return page


def says(page: Page, text: str) -> None:
    expect(page.get_by_role("status")).to_have_text(text)


def test_an_earlier_version_of_a_file_is_compared_and_comes_back_as_a_new_one(people: Any) -> None:
    page = of_helper(people, "Files")
    page.get_by_role("link", name="SOUL.md", exact=True).click()
    expect(page.locator(".diff .added").filter(has_text="Be brief.")).to_be_visible()
    page.get_by_role("button", name="Back to 1").click()
    says(page, "The earlier version is back.")
    expect(page.locator("#text")).to_contain_text("Version 3")
    assert page.locator("pre.written").inner_text().strip() == SOUL[0].strip()
    page.get_by_label("From version", exact=True).select_option("2")
    page.get_by_label("To version", exact=True).select_option("3")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".diff .removed").filter(has_text="Be brief.")).to_be_visible()
    expect(page.get_by_role("region", name="Versions")).to_contain_text("default/otto")


def test_a_job_is_paused_resumed_and_run(people: Any) -> None:
    page = of_helper(people, "Jobs")
    page.get_by_role("link", name="flowers").click()
    page.get_by_role("button", name="Pause").click()
    says(page, "The job is paused.")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    page.get_by_role("button", name="Resume").click()
    says(page, "The job follows its schedule again.")
    page.get_by_role("button", name="Run now").click()
    says(page, "The job is asked to run.")
    expect(page.get_by_role("region", name="Last runs")).to_contain_text("asked for")


def test_a_proposal_is_applied_and_another_one_rejected(people: Any) -> None:
    page = of_helper(people, "Proposals")
    page.get_by_role("link", name="improve_1").or_(page.get_by_role("link", name="soul")).first.click()
    first = page.url
    page.goto("/console/bots/helper/proposal?proposal=improve_1")
    expect(page.locator(".diff .added").filter(has_text="Notes are good.")).to_be_visible()
    page.get_by_role("button", name="Apply exactly this").click()
    says(page, "Applied. Each file has a new version.")
    page.goto("/console/bots/helper/proposal?proposal=improve_2")
    page.get_by_label("Why not").fill("too loud")
    page.get_by_role("button", name="Reject").click()
    says(page, "Rejected. No file has changed.")
    expect(page.get_by_role("main")).to_contain_text("too loud")
    assert "proposal=" in first


def test_a_viewer_reads_and_changes_nothing(people: Any) -> None:
    for path in ("file?path=SOUL.md", "jobs", "proposal?proposal=improve_1"):
        page = people.opens(f"bots/helper/{path}", who="vera")
        expect(page.get_by_role("main").locator("form[method=post]")).to_have_count(0)


def test_an_admin_finds_what_is_stored_about_a_person_and_has_it_erased(people: Any) -> None:
    page = of_helper(people, "Memory", who="ada")
    expect(page.get_by_text("Ann likes green tea.")).to_be_visible()
    page.get_by_label("Person").fill("default/ann")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("Ann likes green tea.")).to_be_visible()
    page.get_by_role("link", name="All that is stored about a person").click()
    expect(page.get_by_label("Person, as tenant/id")).to_have_value("default/ann")
    button = page.get_by_role("button", name="Forget this person")
    button.click()
    assert page.get_by_label("Erase all of this, for good").evaluate("node => node.validity.valueMissing")
    page.get_by_label("Erase all of this, for good").check()
    button.click()
    says(page, "Everything that the bot had stored about this person is erased.")
    page.goto("/console/bots/helper/memory?day=2026-05-03")
    expect(page.get_by_text("Ann likes green tea.")).to_have_count(0)
    page.goto("/console/bots/helper/chats")
    expect(page.get_by_role("link", name="telegram:42")).to_have_count(0)
