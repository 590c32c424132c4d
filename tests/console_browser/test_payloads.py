"""The payloads and those who watch for them are alive: on a page that escapes nothing, scripts run, and are noticed."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console_browser.conftest import HostileServer
from tests.console_browser.payloads import BY_PLACE, PAYLOADS

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from playwright.sync_api import BrowserContext

from tests.console_browser.browser import opened
from tests.console_browser.watching import Watched, watched

pytestmark = pytest.mark.timeout(600)

CARELESS = """<!doctype html><html lang=en><head><title>x</title><script>var hits = 0; function hit() { hits += 1; }</script>
<style>b { left: 0; %s }</style></head><body><p>%s</p>
<input value="%s"><input value='%s'><a id=link href="%s">x</a><script>var text = "%s"; var other = '%s'; %s</script>
<svg><text>%s</text></svg></body></html>"""
"""A page that prints a text into every place as it is."""
TRIES = Path(__file__).with_name("careless.js").read_text("utf-8")


@pytest.fixture
def context(chromium: str, hostile_server: HostileServer) -> Iterator[BrowserContext]:
    """A browser that reaches nothing but the careless page. It starts after the server: Playwright holds the event loop."""
    with opened(chromium) as browser:
        context = browser.new_context()
        context.route("**/*", lambda route: route.abort())
        yield context


def test_there_are_three_hundred_payloads_of_every_place() -> None:
    assert len(set(PAYLOADS)) >= 300
    assert set(BY_PLACE) == {"text", "attribute", "url", "style", "script", "svg", "template"}
    assert all(len(texts) >= 40 for texts in BY_PLACE.values())


def test_most_payloads_run_where_nothing_is_escaped(context: BrowserContext) -> None:
    watch = _opened(context, "<!doctype html><title>x</title><p>", {})
    ran = {place: sum(watch.page.evaluate(TRIES, [CARELESS, list(texts)])) for place, texts in BY_PLACE.items()}
    print(ran)
    assert sum(ran.values()) >= 90  # the others wait for a mouse, an older browser or a framework
    assert all(ran[place] >= 5 for place in ("text", "attribute", "url", "script", "svg"))


def test_the_policy_of_the_console_stops_them_and_the_watch_reports_it(
    context: BrowserContext, hostile_server: HostileServer
) -> None:
    with urllib.request.urlopen(f"{hostile_server.url}/console/sign-in") as answer:
        policy = answer.headers["content-security-policy"]
    for text in (
        "<script>hit()</script>",
        "<img src=x onerror=hit()>",
        "<svg onload=hit()>",
        "<b style='color:red'>x</b>",
    ):
        watch = _opened(context, f"<!doctype html><title>x</title><p>{text}", {"content-security-policy": policy})
        reports = watch.take()
        assert not any("a script ran" in each for each in reports)
        assert any("-src" in each for each in reports), text


def _opened(context: BrowserContext, html: str, headers: dict[str, str]) -> Watched:
    """Opens a page that is this HTML."""
    watch = watched(context)
    answer = {"content-type": "text/html; charset=utf-8", **headers}
    watch.page.route("https://careless.example/", lambda route: route.fulfill(body=html, headers=answer))
    watch.page.goto("https://careless.example/", wait_until="domcontentloaded")
    return watch
