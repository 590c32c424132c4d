"""The catalog: search, the page of a tool, and calls with the form that is made from its schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from playwright.sync_api import Page, expect


def calls(page: Page) -> None:
    page.get_by_role("region", name="Try it").get_by_role("button", name="Call the tool").first.click()


def test_a_search_shows_what_a_request_would_be_sent(people: Any) -> None:
    page = people.opens("catalog", who="vera")
    page.get_by_label("Words of a request").fill("count the chairs in the store room")
    page.get_by_label("Words of a request").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Search of the catalog")
    first = page.get_by_role("region", name="Tools that fit").locator("tbody tr").first
    expect(first).to_contain_text("count_chairs")
    expect(first).to_contain_text("yes")
    page.get_by_label("As bot").select_option("clerk")
    page.get_by_label("Preset").select_option("keyword")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_label("As bot")).to_have_value("clerk")
    expect(page.get_by_label("Preset")).to_have_value("keyword")
    page.get_by_role("link", name="count_chairs").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("count_chairs")


def test_the_list_is_filtered_by_source(people: Any) -> None:
    page = people.opens("catalog", who="vera")
    page.get_by_label("Source", exact=True).select_option("office")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**source=office**")
    names = page.locator("tbody th a").all_inner_texts()
    assert "describe_order" in names
    assert not any("cron" in name for name in names)


def test_the_page_of_a_tool_has_its_schema_and_who_sees_it_but_no_form_for_a_viewer(people: Any) -> None:
    page = people.opens("catalog/describe_order", who="vera")
    parameters = page.get_by_role("region", name="Parameters").locator("tbody tr")
    assert [each.split()[0] for each in parameters.locator("th").all_inner_texts()] == [
        *("customer", "count", "price", "urgent", "size", "tags", "address")
    ]
    page.get_by_text("Schema", exact=True).click()
    expect(page.get_by_role("region", name="Parameters").locator("pre").first).to_contain_text('"minimum": 1')
    expect(page.get_by_role("region", name="Who may see it")).to_contain_text("you")
    expect(page.get_by_role("button", name="Call the tool")).to_have_count(0)


@pytest.mark.parametrize("script", [True, False])
def test_a_form_with_every_kind_of_field_calls_the_tool(people: Any, script: bool) -> None:
    page = people.opens("catalog/describe_order", who="otto", script=script)
    form = page.locator("#try form").first
    form.get_by_label("customer").fill("Ann & sons")
    form.get_by_label("count").fill("3")
    form.get_by_label("price").fill("2.5")
    form.get_by_label("urgent").select_option("yes")
    form.get_by_label("size").select_option("large")
    form.get_by_label("tags").fill('["new", "glass"]')
    form.get_by_label("address").fill('{"town": "Köln"}')
    calls(page)
    expect(page.get_by_role("status")).to_have_text("The tool has answered.")
    assert json.loads(page.locator("pre.result").inner_text()) == {
        "customer": "Ann & sons",
        "count": 3,
        "price": 2.5,
        "urgent": True,
        "size": "large",
        "tags": ["new", "glass"],
        "address": {"town": "Köln"},
    }
    expect(form.get_by_label("customer")).to_have_value("Ann & sons")
    expect(form.get_by_label("urgent")).to_have_value("true")
    expect(form.get_by_label("address")).to_have_value('{"town":"Köln"}')


@pytest.mark.parametrize(
    ("field", "text", "problem"),
    [
        ("count", "many", "count"),
        ("count", "0", "count"),
        ("tags", "new, glass", "'tags' is not JSON"),
        ("tags", "7", "tags"),
        ("address", "{}", "town"),
    ],
)
def test_a_wrong_argument_is_named_with_what_to_do_and_the_form_is_not_lost(
    people: Any, field: str, text: str, problem: str
) -> None:
    page = people.opens("catalog/describe_order", who="otto")
    page.locator("#try").get_by_label("customer").fill("Ann")
    page.locator("#try").get_by_label(field).fill(text)
    calls(page)
    expect(page.get_by_role("status").or_(page.get_by_role("alert"))).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text(problem)
    expect(page.locator("#try").get_by_label("customer")).to_have_value("Ann")
    expect(page.locator("#try").get_by_label(field)).to_have_value(text)


def test_arguments_are_also_written_as_json(people: Any) -> None:
    page = people.opens("catalog/look_up", who="otto")
    page.get_by_text("Write all arguments as JSON").click()
    page.get_by_label("Arguments", exact=True).fill("{word: stamp}")
    page.get_by_role("button", name="Call the tool").last.click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was called: the arguments must be a JSON object")
    expect(page.get_by_label("Arguments", exact=True)).to_have_value("{word: stamp}")
    page.get_by_label("Arguments", exact=True).fill('{"word": "stamp"}')
    page.get_by_role("button", name="Call the tool").last.click()
    expect(page.locator("pre.result")).to_contain_text('{"word": "stamp"}')


@pytest.mark.parametrize("script", [True, False])
def test_a_tool_that_may_destroy_asks_and_runs_after_an_approval(people: Any, script: bool) -> None:
    note = f"tried-{script}".lower()
    page = people.opens("catalog/write_note", who="otto", script=script)
    expect(page.get_by_role("heading", level=1)).to_contain_text("may destroy")

    def tries() -> None:
        page.locator("#try").get_by_label("name").fill(note)
        page.locator("#try").get_by_label("text").fill("first line\nsecond line")
        calls(page)

    tries()
    expect(page.get_by_role("status")).to_contain_text("The call waits for a person's answer, and nothing was done.")
    assert people.server.note(note) is None
    boss = people.opens("approvals", who="ada", script=script)
    boss.get_by_role("article").filter(has_text=f'"name": "{note}"').get_by_label("Choose this question").check()
    boss.get_by_role("button", name="Approve").click()
    expect(boss.get_by_role("status")).to_contain_text("Approved.")
    tries()
    expect(page.get_by_role("status")).to_have_text("The tool has answered.")
    assert people.server.note(note) == "first line\nsecond line"


def test_a_tool_is_called_as_a_bot(people: Any) -> None:
    page = people.opens("catalog/look_up", who="otto")
    page.locator("#try").get_by_label("As bot").first.select_option("clerk")
    page.locator("#try").get_by_label("word").fill("stamp")
    calls(page)
    expect(page.get_by_role("status")).to_have_text("The tool has answered.")
    expect(page.locator("#try").get_by_label("As bot").first).to_have_value("clerk")
    page.locator("#result").get_by_role("link", name="run_").click()
    expect(page.get_by_role("region", name="Summary")).to_contain_text("clerk")
