"""Memory of the console: python -m benchmarks.console.page_views [--folder FOLDER] [--views 1000]

Starts `toolcaddie serve` over the large database of `database`, which is made if it is missing, in a process of its
own, and opens all pages of `addresses`, which are of all sections, one after another. Prints what that process
occupies after the first views, with which caches are filled, and after the others, and the time of a page on a connection that
stays open. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import psutil
from msgspec import Struct
from selectolax.lexbor import LexborHTMLParser

from benchmarks.console.addresses import PAGES
from benchmarks.console.database import RUNS, prepared, runs_in
from benchmarks.console.words import words_of
from tests.clients.server import toolcaddie_serve
from toolcaddie.app.build import assembled
from toolcaddie.app.settings import Settings
from toolcaddie.core.control import Principal

GROWTH_GOAL = 2_000_000
"""Bytes by which the process may be larger after a thousand views. A leak of 2 kB a view would be more."""
SECONDS_GOAL = 0.1
_WARM = 10
"""Number of times that every page is opened first."""
_SIGN_IN = "/console/sign-in"


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


async def measured(url: str, key: str, paths: Sequence[str], process: psutil.Process, views: int) -> Views:
    """Opens pages, and measures the process of the server."""
    async with aiohttp.ClientSession(base_url=url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as web:
        await sign_in(web, key)
        for path in itertools.chain.from_iterable(itertools.repeat(paths, _WARM)):
            await _seconds(web, path)
        before = process.memory_info().rss
        times = [await _seconds(web, path) for path in itertools.islice(itertools.cycle(paths), views)]
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


async def sign_in(web: aiohttp.ClientSession, key: str) -> None:
    """Signs in by the form."""
    async with web.get(_SIGN_IN) as answer:
        tree, origin = LexborHTMLParser(await answer.text()), f"{answer.url.scheme}://{answer.url.authority}"
    fields = {each.attributes["name"]: each.attributes.get("value") or "" for each in tree.css("form input")}
    async with web.post(_SIGN_IN, data={**fields, "key": key}, headers={"origin": origin}) as answer:
        assert answer.status == 200, await answer.text()


async def _seconds(web: aiohttp.ClientSession, path: str) -> float | None:
    """Returns the seconds until a page is there; None: it is not."""
    begun = time.perf_counter()
    async with web.get(path) as answer:
        await answer.read()
        return time.perf_counter() - begun if answer.status == 200 else None


async def key_and_paths(settings: Settings, runs: int) -> tuple[str, Sequence[str]]:
    """Returns the API key of an admin, and the addresses of the pages."""
    async with assembled(settings, create=False) as parts:
        words = await words_of(parts, runs)
        _, key = await parts.keys.add(f"views {secrets.token_hex(4)}", Principal(id="ada", role="admin"))
    return key, [page.format(**words) for page in PAGES]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/console"))
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of a folder that is made")
    parser.add_argument("--views", type=int, default=1000)
    options = parser.parse_args()
    folder = options.folder.resolve()
    settings = prepared(folder, options.runs)
    key, paths = asyncio.run(key_and_paths(settings, runs_in(folder)))
    with toolcaddie_serve(folder) as url:
        (process,) = psutil.Process().children()
        views = asyncio.run(measured(url, key, paths, process, options.views))
    print(
        f"{views.views} views of {views.pages} pages: {views.before / 1e6:.1f} MB before, {views.growth / 1e6:+.2f} MB after"
    )
    print(f"p95 of a page: {views.p95 * 1000:.1f} ms; failures: {views.failures}")
    return 0 if views.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
