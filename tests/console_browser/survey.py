"""Opens every page of the console once, and writes down what is wrong with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import BrowserContext, Error, Page

from tests.console_browser import axe, keyboard
from tests.console_browser.browser import links, opened, signed_in
from tests.console_browser.crawling import HOME, crawled
from tests.console_browser.payloads import EVALUATED
from tests.console_browser.watching import Watched, watched

WIDTHS = (1440, 768, 360)
_HEIGHT = 900
_LAYOUT = Path(__file__).with_name("layout.js").read_text("utf-8")
_DETAILED = 2
"""Number of pages of one kind that axe-core and the keyboard try."""
_LEAST_SHARE = 0.95
"""Least share of the words of a page that it has without its script too: times and numbers may have changed meanwhile."""
_STRANGE = (f"{HOME}no-such-page", f"{HOME}%3Cscript%3Ehit()%3C%2Fscript%3E", f"{HOME}authored/%3Cimg%20src%3Dx%3E")
"""Pages without links to them: those of errors."""


@dataclass(slots=True)
class Survey:
    """Faults by the thing that was looked at. Each line begins with the address of the page."""

    problems: MutableMapping[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    pages: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    """Addresses that are files to keep, not pages."""

    def add(self, thing: str, path: str, problems: Sequence[str]) -> None:
        self.problems[thing] += [f"{path}: {each}" for each in problems]


def surveyed(program: str, url: str, key: str) -> Survey:
    """Returns what is wrong with the pages of the server at `url`."""
    survey = Survey()
    with opened(program) as browser:
        stranger = browser.new_context(base_url=url)
        _look(survey, watched(stranger), f"{HOME}sign-in", is_detailed=True)
        stranger.close()
        with (
            signed_in(browser, url, key) as context,
            signed_in(browser, url, key, java_script_enabled=False) as plain,
        ):
            _crawl(survey, context, plain)
    return survey


def _crawl(survey: Survey, context: BrowserContext, plain: BrowserContext) -> None:
    watch, plain_page = watched(context), plain.new_page()

    def links_of(path: str) -> Sequence[str]:
        return links(watch.page) if path in survey.pages else ()

    for path, number in crawled([HOME, *_STRANGE], links_of):
        is_detailed = number <= _DETAILED
        if _look(survey, watch, path, is_detailed=is_detailed) and is_detailed:
            survey.add("script", path, _missing_words(watch.page, plain_page, path))


def _look(survey: Survey, watch: Watched, path: str, *, is_detailed: bool) -> bool:
    """Opens a page, and tries everything there. Returns False if it is a file."""
    page = watch.page
    page.set_viewport_size({"width": WIDTHS[0], "height": _HEIGHT})
    try:
        answer = page.goto(path, wait_until="load")
    except Error as error:
        if "Download is starting" not in str(error):
            raise
        survey.files.append(path)
        return False
    assert answer is not None
    if not (answer.headers.get("content-type") or "").startswith("text/html"):
        survey.files.append(path)
        return False
    survey.pages.append(path)
    if answer.status >= 500:
        survey.add("status", path, [f"status {answer.status}"])
    if EVALUATED in page.content():
        survey.add("payloads", path, ["a payload was taken for a template"])
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": _HEIGHT})
        survey.add("layout", path, [f"{width}px: {each}" for each in page.evaluate(_LAYOUT)])
    survey.add("payloads", path, watch.take())
    page.set_viewport_size({"width": WIDTHS[0], "height": _HEIGHT})
    if is_detailed:
        for scheme in ("light", "dark"):
            problems = axe.violations(page, dark=scheme == "dark")
            survey.add("axe", path, [f"{scheme}: {each}" for each in problems])
        survey.add("keyboard", path, keyboard.unreachable(page))
        survey.add("payloads", path, watch.take())
    return True


def _missing_words(page: Page, plain_page: Page, path: str) -> Sequence[str]:
    """Returns what a page lacks without its script."""
    for each in (page, plain_page):
        each.goto(path, wait_until="load")
    words, plain_words = (set(each.locator("body").inner_text().split()) for each in (page, plain_page))
    missing = words - plain_words
    if len(words) - len(missing) < _LEAST_SHARE * len(words):
        return [f"without script it lacks {' '.join(sorted(missing))[:300]}"]
    return []
