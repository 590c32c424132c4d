"""Memory of the console: python -m benchmarks.console_page_views [--views 1000]

Starts `toolcaddie serve` with the gym sample in a process of its own, and opens all pages of the console to which links lead from
the navigation, one after another. Prints what that process occupies after the first views, with which caches are filled, and
after the others, and the time of a page on a connection that stays open. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import psutil
from msgspec import Struct
from selectolax.lexbor import LexborHTMLParser

from tests.clients.server import toolcaddie_serve
from tests.console_browser.crawling import HOME, crawled
from toolcaddie.app.build import assembled
from toolcaddie.app.settings import load_settings
from toolcaddie.core.control import Principal

GROWTH_GOAL = 4_000_000
"""Bytes by which the process may be larger after a thousand views. A leak of 4 kB a view would be more."""
SECONDS_GOAL = 0.1
_WARM = 300
_REQUESTS = ("freeze John's membership", "which classes are there this week?", "find the member John")
_SETTINGS = """
catalogs = ["gym"]

[[source]]
type = "authored"

[sandbox]
type = "plain"

[policy]
ask = ["freeze_membership"]
"""


class Views(Struct, frozen=True, kw_only=True):
    pages: int
    """Number of different pages."""
    views: int
    before: int
    """Bytes of the process after the first views."""
    after: int
    p95: float
    """Seconds of a page."""
    failures: int

    @property
    def growth(self) -> int:
        return self.after - self.before

    @property
    def is_right(self) -> bool:
        return not self.failures and self.growth < GROWTH_GOAL and self.p95 < SECONDS_GOAL


async def measured(url: str, key: str, process: psutil.Process, views: int) -> Views:
    """Opens pages, and measures the process of the server."""
    async with aiohttp.ClientSession(base_url=url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as web:
        first = await _sign_in(web, key)
        paths = await _paths(web, first)
        pages = itertools.cycle(paths)
        for _ in range(_WARM):
            await _seconds(web, next(pages))
        before = process.memory_info().rss
        times = [await _seconds(web, next(pages)) for _ in range(views)]
        after = process.memory_info().rss
    right = sorted(each for each in times if each is not None)
    return Views(
        pages=len(paths),
        views=views,
        before=before,
        after=after,
        p95=right[int(len(right) * 0.95)] if right else float("inf"),
        failures=len(times) - len(right),
    )


async def _sign_in(web: aiohttp.ClientSession, key: str) -> str:
    """Signs in by the form, and returns the path of the page after it."""
    async with web.get(f"{HOME}sign-in") as answer:
        tree, origin = LexborHTMLParser(await answer.text()), f"{answer.url.scheme}://{answer.url.authority}"
    fields = {each.attributes["name"]: each.attributes.get("value") or "" for each in tree.css("form input")}
    headers = {"origin": origin}
    async with web.post(f"{HOME}sign-in", data={**fields, "key": key}, headers=headers) as answer:
        return answer.url.path


async def _paths(web: aiohttp.ClientSession, first: str) -> Sequence[str]:
    links: dict[str, Sequence[str]] = {}
    paths = []
    for path, _ in crawled([first], lambda path: links.get(path, ())):
        async with web.get(path) as answer:
            if answer.content_type == "text/html" and answer.status == 200:
                paths.append(path)
                links[path] = _links(await answer.text())
    return paths


def _links(html: str) -> Sequence[str]:
    return [each.attributes.get("href") or "" for each in LexborHTMLParser(html).css("a[href]")]


async def _seconds(web: aiohttp.ClientSession, path: str) -> float | None:
    """Returns the seconds until a page is there; None: it is not."""
    begun = time.perf_counter()
    async with web.get(path) as answer:
        await answer.read()
        return time.perf_counter() - begun if answer.status == 200 else None


async def _work(file: Path) -> str:
    """Makes some runs and questions, and returns the API key of an admin."""
    async with assembled(load_settings(file)) as parts:
        for text in _REQUESTS:
            await parts.runtime.run(text, principal=Principal(id="maria"))
        return (await parts.keys.add("ada", Principal(id="ada", role="admin")))[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--views", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "toolcaddie.toml"
        file.write_text(f'database_url = "sqlite:///{name}/console.sqlite"\n{_SETTINGS}')
        key = asyncio.run(_work(file))
        with toolcaddie_serve(Path(name)) as url:
            (process,) = psutil.Process().children()
            views = asyncio.run(measured(url, key, process, options.views))
    print(
        f"{views.views} views of {views.pages} pages: {views.before / 1e6:.1f} MB before, {views.growth / 1e6:+.2f} MB after"
    )
    print(f"p95 of a page: {views.p95 * 1000:.1f} ms; failures: {views.failures}")
    return 0 if views.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
