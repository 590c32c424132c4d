"""A browser that runs no script: everything can still be read and decided."""

from __future__ import annotations

import pytest

from tests.console_browser.conftest import HostileServer

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from tests.console_browser.browser import links, opened, signed_in

pytestmark = pytest.mark.timeout(120)


def test_a_person_approves_and_revokes_a_tool(chromium: str, hostile_server: HostileServer) -> None:
    with (
        opened(chromium) as browser,
        signed_in(browser, hostile_server.url, hostile_server.key, java_script_enabled=False) as context,
    ):
        page = context.new_page()
        page.goto("/console/authored?status=pending")
        first = next(each for each in links(page) if each.startswith("/console/authored/tool_"))
        page.goto(first)
        page.get_by_role("button", name="Approve exactly this").click()
        assert "Approved." in page.get_by_role("status").inner_text()
        page.goto(first)
        page.get_by_role("button", name="Revoke the approval").click()
        assert "Revoked." in page.get_by_role("status").inner_text()


def test_a_keyboard_alone_signs_in_and_out(chromium: str, hostile_server: HostileServer) -> None:
    with opened(chromium) as browser:
        page = browser.new_page(base_url=hostile_server.url, locale="en")
        page.goto("/console/")
        page.keyboard.type(hostile_server.key)
        page.keyboard.press("Enter")
        page.wait_for_url(lambda address: "sign-in" not in address)
        page.get_by_role("button", name="Sign out").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/sign-in*")
