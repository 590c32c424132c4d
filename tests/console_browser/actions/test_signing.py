"""Signing in and out, the end of a session, languages, and what each level of people sees."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from playwright.sync_api import Page, expect

_READ = "Overview Runs Approvals Catalog Tools-by-bots Bots Costs Analytics Policy Audit Health"
_ACT = "Overview Runs Approvals Playground Catalog Tools-by-bots Bots Costs Analytics Evaluation Policy Audit Health"
_RULE = _ACT.replace("Policy", "Policy Sources Keys")
SECTIONS = {"ann": "Approvals Tools-by-bots", "vera": _READ, "otto": _ACT, "ada": _RULE}
"""The sections that each person sees, with `-` for a blank."""


def sections_of(page: Page) -> list[str]:
    return page.get_by_role("navigation", name="Sections").get_by_role("link").all_inner_texts()


@pytest.mark.parametrize("who", SECTIONS)
def test_each_person_sees_the_sections_of_their_level_and_no_others(people: Any, who: str) -> None:
    page = people.opens("", who=who)
    names = [each.replace("-", " ") for each in SECTIONS[who].split()]
    assert sections_of(page) == names
    for name in names:
        page.get_by_role("navigation", name="Sections").get_by_role("link", name=name, exact=True).click()
        expect(page.locator("nav.sections [aria-current=page]")).to_have_text(name)
        expect(page.get_by_role("heading", level=1)).not_to_have_text("Not allowed")


def test_a_page_above_the_level_of_a_person_says_what_is_needed(people: Any) -> None:
    page = people.opens("keys", who="vera")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not allowed")
    expect(page.get_by_role("main")).to_contain_text("This needs the level admin")


@pytest.mark.parametrize("script", [True, False])
def test_a_wrong_key_is_refused_and_the_right_one_opens_the_page_that_was_wanted(people: Any, script: bool) -> None:
    page = people.stranger(java_script_enabled=script)
    page.goto("/console/audit?kind=run_started")
    page.get_by_label("API key").fill("tc_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("This API key is unknown or revoked.")
    page.get_by_label("API key").fill(people.server.keys["vera"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Audit")
    expect(page.get_by_label("Kind")).to_have_value("run_started")


def test_a_person_signs_out_and_the_page_behind_is_closed(people: Any) -> None:
    page = signed_in(people, people.server.keys["vera"])
    page.goto("/console/runs")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.go_back()
    expect(page.get_by_label("API key")).to_be_visible()


def test_a_session_ends_with_its_key_also_in_the_middle_of_a_form(people: Any) -> None:
    ada = people.opens("keys")
    ada.get_by_label("Name").fill("passing")
    ada.get_by_role("combobox", name="Role").fill("operator")
    ada.get_by_role("button", name="Make the key").click()
    guest = signed_in(people, ada.locator("pre.code").inner_text().strip())
    guest.goto("/console/playground")
    ada.goto("/console/keys")
    ada.get_by_role("link", name="passing").click()
    ada.get_by_role("button", name="Revoke this key").click()
    expect(ada.get_by_role("status")).to_contain_text("Revoked.")
    guest.get_by_label("Message").fill("hello")
    guest.get_by_role("button", name="Send").click()
    expect(guest.get_by_role("heading", level=1)).to_have_text("Please sign in again")
    guest.goto("/console/runs")
    expect(guest.get_by_role("heading", level=1)).to_have_text("Sign in")


@pytest.mark.parametrize(
    ("language", "runs", "sign_out"),
    [("Español", "Ejecuciones", "Cerrar sesión"), ("Português", "Execuções", "Sair"), ("English", "Runs", "Sign out")],
)
def test_a_person_chooses_a_language_and_stays_on_the_page(
    people: Any, language: str, runs: str, sign_out: str
) -> None:
    page = signed_in(people, people.server.keys["vera"])
    page.goto("/console/runs?status=failed")
    page.get_by_role("link", name=language).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(runs)
    expect(page.get_by_role("button", name=sign_out)).to_be_visible()
    assert page.locator("html").get_attribute("lang") == {"Español": "es", "Português": "pt", "English": "en"}[language]
    assert page.url.endswith("/console/runs?status=failed")


def test_the_language_changes_on_a_page_that_a_form_brought_and_before_signing_in(people: Any) -> None:
    page = people.stranger()
    page.goto("/console/bots/helper/file?path=SOUL.md")
    page.get_by_role("link", name="Español").click()
    page.get_by_label("Clave de API").fill(people.server.keys["otto"])
    page.keyboard.press("Enter")
    expect(page.get_by_text("Be brief.").first).to_be_visible()
    page.goto(f"/console/runs/{people.server.ask('language')}")
    page.get_by_role("button", name="Elegir de nuevo").click()
    page.get_by_role("link", name="English").click()
    expect(page.get_by_role("heading", name="Tools: why in or out")).to_be_visible()


def test_the_language_of_the_browser_is_that_of_the_first_page(people: Any) -> None:
    page = people.stranger(locale="pt-BR")
    expect(page.get_by_role("button")).to_have_text("Entrar")


def signed_in(people: Any, key: str) -> Page:
    """A page in a browser of its own, in which somebody has signed in with this key."""
    page: Page = people.stranger()
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    return page
