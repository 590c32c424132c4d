"""Takes the pictures of the console for the docs: each page light, dark, and as on a telephone.

    make console-pictures        # into docs/pictures/console; `make docs` names another folder

A server with the gym sample and the practice model gets some believable work first, through the parts of the product: requests of
three people, copied to the days before, questions that wait, a bot with files, memory and jobs, a tool that it wrote, and API
keys. The pages are found by following the navigation.
"""

from __future__ import annotations

import asyncio
import io
import os
import random
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page

from tests.clients.server import toolcaddie_serve
from tests.console_browser.browser import links, opened, signed_in
from tests.console_browser.crawling import HOME
from toolcaddie.app.authoring import authorship_of
from toolcaddie.app.build import Assembled, assembled
from toolcaddie.app.jobs import desk_of
from toolcaddie.app.runtimes import host_parts
from toolcaddie.app.settings import Settings, load_settings
from toolcaddie.core.control import Principal
from toolcaddie.core.jobs import Every, NewJob
from toolcaddie.core.personas import Author as FileAuthor
from toolcaddie.core.personas import PersonaKey
from toolcaddie.core.run import RunResult
from toolcaddie.tools.authored.values import Author, Definition
from toolcaddie.util.replacing import replace

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "pictures" / "console"
SETTINGS = """
catalogs = ["gym"]
default_bot = "front-desk"

[[source]]
type = "authored"

[[source]]
type = "cron"

[[capabilities]]
pattern = "practice"
prices = { input = 1.25, cached = 0.125, output = 10.0 }

[sandbox]
type = "plain"

[policy]
ask = ["freeze_membership"]

[bots.front-desk]
description = "Answers members and keeps their contracts."
skills = ["memberships", "classes"]

[bots.trainer]
description = "Plans the training of members."
skills = ["training plans", "equipment"]
"""
REQUESTS = (
    ("maria", "which classes are there this week?"),
    ("maria", "freeze John's membership"),
    ("tom", "list the equipment that needs maintenance"),
    ("tom", "find the member John"),
    ("lena", "freeze membership of Maria"),
    ("lena", "show the revenue report of last month"),
    ("lena", "which trainers are free tomorrow?"),
)
SOURCE = """def run(weight_kg, height_m):
    index = weight_kg / height_m**2
    return round(index, 1)
"""
NUMBER = {"type": "number"}
SIZES = {"light": (1280, 800), "dark": (1280, 800), "phone": (390, 844)}
FILES = {
    "SOUL.md": "You are friendly and brief. You never promise a discount.",
    "GOALS.md": "# Goals\n\n- Every question of a member is answered the same day.\n- Few members leave in winter.",
    "memory/2026-11-20.md": "- John prefers to be called in the evening.\n- Maria trains for the half marathon in May.",
}
JOBS = (
    ("morning report", "Send the numbers of yesterday to Lena.", 1),
    ("machines", "Ask Tom if a machine is broken.", 7),
)
DAYS = 30
DAY = 86_400
COLOURS = 160
"""Number of colours of a picture: enough for text and flat areas, and half of the bytes."""


def main(target: Path = TARGET) -> int:
    """Takes the pictures. What was in the folder `target` is removed."""
    program = shutil.which("chromium")
    if program is None:
        print("chromium is missing; sh packaging/browser.sh installs it", file=sys.stderr)
        return 1
    with TemporaryDirectory() as name:
        folder, target = Path(name), target.resolve()
        (folder / "toolcaddie.toml").write_text(SETTINGS)
        os.chdir(folder)
        key = asyncio.run(_work(folder / "toolcaddie.toml"))
        os.environ["PYTHONPATH"] = str(ROOT)
        with toolcaddie_serve(folder) as url:
            _take_pictures(program, url, key, target)
    return 0


async def _work(file: Path) -> str:
    """Fills the database, and returns the API key of an admin."""
    settings = load_settings(file)
    async with assembled(settings) as parts:
        await _ask(parts)
        await _fill_bot(settings, parts)
        service = authorship_of(settings, host_parts(settings, parts.documents))
        definition = Definition(
            name="body_mass_index",
            description="Computes the body mass index of a member.",
            type="python",
            source=SOURCE,
            parameters={"type": "object", "properties": {"weight_kg": NUMBER, "height_m": NUMBER}},
            scope="all",
        )
        author = Principal(id="maria", bot="front-desk", channel="gateway")
        await service.create(definition, Author(principal=author, run_id=""))
        for person, role in (("maria", "operator"), ("tom", "viewer"), ("website", "user")):
            limits = {"requests_per_day": 500.0}
            await parts.keys.add(person, Principal(id=person, role=role, bot="front-desk"), limits=limits)
        return (await parts.keys.add("ada", Principal(id="ada", role="admin")))[1]


async def _ask(parts: Assembled) -> None:
    """Makes the requests, copies those that end to the days before, and makes them again."""
    chance = random.Random(1)
    records = [await parts.event_log.events(each.run_id) for each in await _runs(parts) if each.status == "completed"]
    for day in range(DAYS, 0, -1):
        is_weekend = time.gmtime(time.time() - day * DAY).tm_wday > 4
        for number, events in enumerate(chance.choices(records, k=chance.randrange(4, 9) if is_weekend else 12)):
            run_id, shift = f"run_{day:016x}{number:016x}", day * DAY + chance.randrange(36_000)
            for event in events:
                parts.event_log.append(replace(event, run_id=run_id, at=event.at - shift))
    await _runs(parts)


async def _runs(parts: Assembled) -> Sequence[RunResult]:
    people = [(Principal(id=person, role="operator", channel="gateway"), text) for person, text in REQUESTS]
    return [await parts.runtime.run(text, principal=person) for person, text in people]


async def _fill_bot(settings: Settings, parts: Assembled) -> None:
    """Gives the bot its files, its memory and its jobs."""
    personas = host_parts(settings, parts.documents).personas
    assert personas is not None
    key, lena = PersonaKey(tenant="default", bot="front-desk"), Principal(id="lena", bot="front-desk")
    for path, text in FILES.items():
        await personas.write(key, path, text, author=FileAuthor(who="lena", taint=()), expected=0)
    desk = desk_of(settings, parts.database.jobs, parts.documents)
    for name, text, days in JOBS:
        new = NewJob(text=text, name=name, schedule=Every(every_ms=days * DAY * 1_000), owner=lena, kind="message")
        await parts.database.jobs.add(desk.check(new), most=len(JOBS))


def _take_pictures(program: str, url: str, key: str, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with opened(program) as browser:
        page = browser.new_page(base_url=url, locale="en")
        _pictures(page, f"{HOME}sign-in", target / "sign-in")
        page.close()
        with signed_in(browser, url, key) as context:
            page = context.new_page()
            _use(page)
            page.goto(HOME)
            sections = list(dict.fromkeys(each.partition("?")[0] for each in _navigation(page)))
            for section in sections:
                name = section.removeprefix(HOME).strip("/").replace("/", "-") or "overview"
                _pictures(page, section, target / name)
                if inner := _first_inside(page, section, sections):
                    _pictures(page, inner, target / f"{name}-one")


def _use(page: Page) -> None:
    """Has a conversation in the playground, and begins an evaluation on the trail."""
    page.goto(f"{HOME}playground")
    page.get_by_label("Message").fill(REQUESTS[-1][1])
    page.get_by_role("button", name="Send").click()
    page.locator(".answer").filter(has_text="practice model").wait_for()
    page.goto(f"{HOME}evaluation")
    page.get_by_role("button", name="Begin").click()
    page.locator("table.list").first.wait_for()


def _navigation(page: Page) -> list[str]:
    paths: list[str] = page.locator("nav.sections a").evaluate_all("nodes => nodes.map((node) => node.pathname)")
    return paths


def _first_inside(page: Page, section: str, sections: list[str]) -> str | None:
    """Returns the first page below a section to which the section links."""
    inside = [each.partition("#")[0] for each in links(page) if each.startswith(f"{section.rstrip('/')}/")]
    return next((each for each in inside if each not in sections and not re.search(r"export|download", each)), None)


def _pictures(page: Page, path: str, place: Path) -> None:
    for look, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if look == "dark" else "light", reduced_motion="reduce")
        page.goto(path, wait_until="load")
        picture = Image.open(io.BytesIO(page.screenshot()))
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        small.save(place.with_name(f"{place.name}-{look}.png"), optimize=True)


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:2])))
