"""The settings of `[jobs]`, from the file to the tool `cron` and to the jobs that a server runs."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.databases import database_url
from toolcaddie.app.build import Assembled, assembled
from toolcaddie.app.settings import Settings, load_settings
from toolcaddie.core.control import Principal
from toolcaddie.core.jobs import Every, NewJob
from toolcaddie.core.tool import ToolResult
from toolcaddie.jobs.desk import JobDesk
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio

ANN, BOB, EVE = (Principal(id=name, bot="desk") for name in ("ann", "bob", "eve"))
HOUR = 3_600
DAY = 24 * HOUR


def settings_of(folder: Path, jobs: str) -> Settings:
    (folder / "toolcaddie.toml").write_text(
        f'database_url = "{database_url(folder / "data.sqlite")}"\ndefault_bot = "desk"\n'
        f'[bots.desk]\n[[source]]\ntype = "cron"\n[jobs]\n{jobs}\n'
    )
    return load_settings(folder / "toolcaddie.toml", environ={})


async def added(parts: Assembled, by: Principal, **arguments: Any) -> ToolResult:
    return await parts.runtime.call(
        "cron", {"action": "add", "kind": "instruction", "text": "Drink water", **arguments}, principal=by
    )


async def test_jobs_have_the_zone_and_the_limits_of_the_settings(tmp_path: Path) -> None:
    limits = 'zone = "Asia/Tokyo"\nper_bot = 3\nper_person = 2\nleast_seconds = 600\ntext_characters = 20'
    async with assembled(settings_of(tmp_path, limits)) as parts:
        daily = {"schedule": {"kind": "cron", "expr": "0 9 * * *"}}
        assert "09:00:00+09:00 (Asia/Tokyo)" in (await added(parts, ANN, **daily)).text
        assert "is not between 600,000 ms" in (await added(parts, ANN, everyMs=599_000)).text
        assert "more than 20" in (await added(parts, ANN, text="x" * 21, **daily)).text
        assert not (await added(parts, ANN, **daily)).is_error
        assert "there are 2 jobs of this person, or 3 of the bot" in (await added(parts, ANN, **daily)).text
        assert not (await added(parts, BOB, **daily)).is_error
        assert "which is the limit; remove one first" in (await added(parts, EVE, **daily)).text


@pytest.mark.parametrize(("rule", "hours"), [("last", 23), ("skip", None), ("all", 0)])
async def test_a_server_catches_up_as_the_settings_say(tmp_path: Path, rule: str, hours: int | None) -> None:
    """The job was made a day and a half hour ago. `hours`: how many after its first slot the one is that runs first."""
    async with Database(database_url(tmp_path / "data.sqlite")) as database:
        long_ago = time.time() - DAY - HOUR / 2
        desk = JobDesk(rows=database.jobs, store=database.store, zone="UTC", clock=lambda: long_ago)
        job = await desk.add(NewJob(text="Drink water", schedule=Every(every_ms=HOUR * 1000), owner=ANN))
    assert job.next is not None
    async with assembled(settings_of(tmp_path, f'catch_up = "{rule}"')) as parts, parts.work.serving():
        async with asyncio.timeout(20):
            while (await parts.database.jobs.earliest()) == job.next:  # noqa: ASYNC110  the database sets no event
                await asyncio.sleep(0.02)
        slots = await parts.database.jobs.slots(job.id, most=100)
    assert [slot.at - job.next for slot in slots] == ([] if hours is None else [hours * HOUR])
