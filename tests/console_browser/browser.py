"""Debian's chromium, driven by Playwright, in the hands of a person who has signed in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.console_browser.crawling import HOME


@contextmanager
def opened(program: str) -> Iterator[Browser]:
    """Starts a browser. Its own sandbox does not work for root."""
    with sync_playwright() as playwright:
        options = {"args": ["--no-sandbox"]} if os.geteuid() == 0 else {}
        browser = playwright.chromium.launch(executable_path=program, **options)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def signed_in(browser: Browser, url: str, key: str, **options: Any) -> Iterator[BrowserContext]:
    """Opens the console, and signs in by the form."""
    context = browser.new_context(base_url=url, locale="en", **options)
    try:
        page = context.new_page()
        page.goto(HOME)
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(lambda address: "sign-in" not in address)
        page.close()
        yield context
    finally:
        context.close()


def links(page: Page) -> list[str]:
    """Returns the addresses of all links of a page, without those of other sites."""
    found: list[str] = page.locator("a[href]").evaluate_all(
        "nodes => nodes.map((node) => node.href.startsWith(location.origin) ? node.href.slice(location.origin.length) : '')"
    )
    return [each for each in found if each]
