"""Actions of those who run the server: policy, keys, sources, and the trail."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from playwright.sync_api import Page, expect


def tab(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Policy").get_by_role("link", name=name).click()


def test_the_policy_is_checked_and_a_decision_explained(people: Any) -> None:
    page = people.opens("policy", who="vera")
    tab(page, "Check")
    expect(page.get_by_role("status")).to_have_text("Nothing is wrong with the rules, and every name exists.")
    tab(page, "Explain a decision")
    page.get_by_label("Person").fill("ann")
    page.get_by_label("Tool", exact=True).fill("write_notes")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("alert")).to_contain_text("there is no tool 'write_notes'; did you mean write_note")
    page.get_by_label("Tool", exact=True).fill("write_note")
    page.get_by_label("Arguments, as a JSON object").fill('{"name": "x", "text": "y"}')
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("region", name="ann → write_note")).to_contain_text("ask")
    expect(page.get_by_role("link", name="Try other rules")).to_have_count(0)


def test_other_rules_are_tried_on_the_trail_and_change_nothing(people: Any) -> None:
    people.server.ask('call look_up {"word": "rules"}')
    page = people.opens("policy/try", who="otto")
    page.get_by_label("Text", exact=True).fill("forbid (principal, action == ")
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Text", exact=True)).to_have_value("forbid (principal, action == ")
    page.get_by_label("Text", exact=True).fill('forbid (principal, action, resource == Tool::"look_up");')
    page.get_by_role("button", name="Try it").click()
    row = page.get_by_role("region", name="recorded calls would be decided otherwise").locator("tbody tr").first
    expect(row).to_contain_text("look_up")
    expect(row).to_contain_text("hidden")
    page.goto("/console/policy")
    expect(page.get_by_role("main")).not_to_contain_text('Tool::"look_up"')


def test_a_key_is_made_limited_and_revoked(people: Any) -> None:
    page = people.opens("keys")
    page.get_by_label("Name").fill("robot")
    page.get_by_text("Limits", exact=True).last.click()
    page.get_by_label("Requests per day").fill("many")
    page.get_by_role("button", name="Make the key").click()
    expect(page.get_by_role("alert")).to_contain_text("No key was made:")
    expect(page.get_by_label("Name")).to_have_value("robot")
    page.get_by_label("Requests per day").fill("100")
    page.get_by_role("button", name="Make the key").click()
    expect(page.get_by_role("status")).to_contain_text("Copy it now")
    secret = page.locator("pre.code").inner_text().strip()
    assert answered(people, secret) == 200
    page.get_by_role("link", name="All keys").click()
    expect(page.get_by_role("main")).not_to_contain_text(secret)
    page.get_by_role("link", name="robot").click()
    page.get_by_label("Requests per day").fill("1")
    page.get_by_role("button", name="Change the limits").click()
    expect(page.get_by_role("status")).to_have_text("The limits have changed. The gateway has them within a second.")
    expect(page.get_by_label("Requests per day")).to_have_value("1")
    expect(page.get_by_role("region", name="About")).to_contain_text("1 request")
    page.get_by_role("button", name="Revoke this key").click()
    expect(page.get_by_role("status")).to_have_text("Revoked. The gateway refuses it within a second.")
    expect(page.get_by_role("button", name="Revoke this key")).to_have_count(0)
    page.goto("/console/keys")
    page.get_by_role("link", name="ada of the tests").click()
    expect(page.get_by_role("main")).to_contain_text("You have signed in with this key.")
    expect(page.get_by_role("button", name="Revoke this key")).to_have_count(0)


def test_a_definition_in_quarantine_is_accepted_and_then_offered(people: Any) -> None:
    page = people.opens("sources")
    expect(page.get_by_role("row").filter(has_text="growing")).to_contain_text("connected")
    page.get_by_role("link", name="growing").click()
    expect(page.get_by_role("region", name="In quarantine")).to_contain_text("Add a tool.")
    page.get_by_role("button", name="Accept this definition").click()
    expect(page.get_by_role("status")).to_have_text("Accepted. The next request offers it.")
    expect(page.get_by_role("button", name="Accept this definition")).to_have_count(0)
    people.server.ask("grow, please")
    offered = [tool["function"]["name"] for tool in people.server.upstream.bodies[-1]["tools"]]
    assert "growing__grow" in offered


def test_the_trail_is_checked_filtered_and_exported(people: Any) -> None:
    page = people.opens("audit")
    page.get_by_role("link", name="Check that nobody changed it").click()
    page.get_by_role("button", name="Check every row").click()
    expect(page.get_by_role("region", name="The last check")).to_contain_text("Started by")
    while page.get_by_role("link", name="Look again").count():
        page.get_by_role("link", name="Look again").click()
    expect(page.get_by_role("status")).to_contain_text("Nobody changed it.")
    page.get_by_role("link", name="All rows").click()
    page.get_by_label("Kind").fill("run_*")
    page.get_by_label("Person").fill("person1")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**person=person1**")
    assert {row.split()[-1] for row in page.locator("tbody td[data-label=Person]").all_inner_texts()} == {"person1"}
    for name, word in (("JSON", "jsonl"), ("OCSF", "ocsf")):
        with page.expect_download() as arriving:
            page.get_by_role("link", name=name, exact=True).click()
        download = arriving.value
        assert download.suggested_filename == f"trail-{word}.jsonl"
        lines = download.path().read_text(encoding="utf-8").splitlines()
        assert len(lines) >= 40
        assert all(isinstance(json.loads(line), dict) for line in lines)
    page.get_by_role("link", name="Older rows").click()
    expect(page.get_by_label("Person")).to_have_value("person1")


def test_what_people_did_in_the_console_is_in_the_trail_with_their_names(people: Any) -> None:
    page = people.opens("audit")
    page.get_by_role("link", name="What people did in the console").click()
    row = page.locator("tbody tr").filter(has_text="/console/keys/add").first
    expect(row).to_contain_text("ada")
    row.locator("summary").click()
    expect(row.locator("pre")).to_be_visible()
    expect(row.locator("pre")).not_to_contain_text("tc_")


def answered(people: Any, secret: str) -> int:
    """The status of the gateway's answer to a program with this key."""
    request = urllib.request.Request(f"{people.server.url}/v1/models", headers={"authorization": f"Bearer {secret}"})
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
