"""Tools that bots wrote: approved, rejected, revoked, rolled back, renamed, given to a bot, and deleted."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from playwright.sync_api import Page, expect


def of_tool(people: Any, name: str, *, script: bool = True) -> Page:
    """The page of a tool, opened from the list."""
    page: Page = people.opens("authored", who="otto", script=script)
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    return page


def says(page: Page, text: str) -> None:
    expect(page.get_by_role("status")).to_contain_text(text)


def test_an_approved_tool_is_offered_with_the_next_request(people: Any) -> None:
    page = of_tool(people, "to_approve")
    expect(page.get_by_role("group", name="Source")).to_contain_text("return len(text.split())")
    page.get_by_label("Note", exact=True).fill("read it")
    page.get_by_role("button", name="Approve exactly this").click()
    says(page, "Approved. The next request offers it.")
    expect(page.get_by_role("region", name="History")).to_contain_text("read it")
    people.server.ask("count the words of a text, to_approve")
    offered = [tool["function"]["name"] for tool in people.server.upstream.bodies[-1]["tools"]]
    assert "to_approve" in offered


def test_a_tool_is_rejected_without_a_script(people: Any) -> None:
    page = of_tool(people, "to_reject", script=False)
    page.get_by_label("Why not").fill("too short")
    page.get_by_role("button", name="Reject").click()
    says(page, "Rejected.")
    page.goto("/console/authored?status=rejected")
    expect(page.get_by_role("link", name="to_reject", exact=True)).to_be_visible()


def test_a_revoked_tool_is_offered_no_more(people: Any) -> None:
    page = of_tool(people, "to_revoke")
    page.get_by_label("Why").fill("no longer needed")
    page.get_by_role("button", name="Revoke the approval").click()
    says(page, "Revoked. No call of it runs any more.")
    people.server.ask("count the words of a text, to_revoke")
    offered = [tool["function"]["name"] for tool in people.server.upstream.bodies[-1]["tools"]]
    assert "to_revoke" not in offered


def test_a_changed_tool_goes_back_to_the_version_that_was_approved(people: Any) -> None:
    page = of_tool(people, "to_roll_back")
    page.get_by_role("link", name="See what changed.").click()
    expect(page.locator(".diff .removed").filter(has_text="split")).to_be_visible()
    page.get_by_role("button", name="Back to 1").click()
    says(page, "The earlier version is back, and approved.")
    expect(page.get_by_role("group", name="Source")).to_contain_text("return len(text.split())")


def test_a_tool_is_renamed_and_given_to_one_bot(people: Any) -> None:
    page = of_tool(people, "to_rename")
    page.get_by_text("Change name or bots").click()
    page.get_by_label("Name", exact=True).fill("Bad name!")
    page.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was changed")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Bad name!")
    page.get_by_label("Name", exact=True).fill("renamed")
    page.get_by_role("button", name="Rename").click()
    says(page, "Changed. It waits for an approval now.")
    expect(page.get_by_role("heading", level=1)).to_contain_text("renamed")
    page.get_by_text("Change name or bots").click()
    page.get_by_label("For bots").fill("clerk")
    page.get_by_role("button", name="Change", exact=True).click()
    says(page, "Changed. It waits for an approval now.")
    expect(page.get_by_role("region", name="About")).to_contain_text("clerk")


def test_a_tool_is_deleted(people: Any) -> None:
    page = of_tool(people, "to_delete")
    page.get_by_text("Delete", exact=True).click()
    page.get_by_role("button", name="Delete this tool").click()
    says(page, "The tool was deleted.")
    expect(page.get_by_role("link", name="to_delete", exact=True)).to_have_count(0)


def test_what_changed_after_the_page_was_opened_is_not_approved(people: Any) -> None:
    page, other = of_tool(people, "renamed"), of_tool(people, "renamed")
    other.get_by_text("Change name or bots").click()
    other.get_by_label("For bots").fill("helper")
    other.get_by_role("button", name="Change", exact=True).click()
    says(other, "Changed.")
    page.get_by_role("button", name="Approve exactly this").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("This has changed meanwhile")
