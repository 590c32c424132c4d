"""A reminder arrives, also if its channel cannot be reached when it is due."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.doors.talking import talking, telegram_station, url_at
from tests.doors.test_channels_unpaired import line, new, paired, run
from tests.jobs.rig import running
from toolcaddie.bots.jobs import JobRunner
from toolcaddie.doors.channels.channels import Channels
from toolcaddie.doors.channels.journal import Journal
from toolcaddie.storage.database import Database
from toolcaddie.testing.telegram import Fault, ScriptedTelegram

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("unpaired", [False, True], ids=["paired", "unpaired"])
async def test_a_reminder_whose_channel_is_down_is_sent_when_it_is_reached_again(
    tmp_path: Path, unpaired: bool
) -> None:
    """`unpaired`: meanwhile the person may no longer talk to the bot, and gets nothing."""
    async with (
        ScriptedTelegram() as server,
        talking() as talk,
        Database(url_at(tmp_path), lease=0.5) as database,
        Channels(
            [telegram_station(server, pairing=True, bot="anna")],
            talk,
            database.store,
            look_seconds=0.05,
            waits=(0.01, 0.02),
            longest_wait=0.1,
        ) as channels,
    ):
        await channels.until_leading()
        await paired(server, tmp_path)
        runner = JobRunner(worker=None, messenger=channels)  # type: ignore[arg-type]  # a message needs none
        async with running(url_at(tmp_path), runner.run) as (desk, _, _):
            server.faults["sendMessage"] = [Fault()] * 100_000
            job = await run(desk, await desk.add(new("message")))
        assert "the channel 'tg' cannot be reached; the message is sent as soon as it can" in job.note
        if unpaired:
            await line(tmp_path, "channels", "unpair", "tg", "42")
        else:
            server.faults["sendMessage"].clear()
        async with asyncio.timeout(10):
            while await Journal(database.store, time.time).unfinished("tg"):  # noqa: ASYNC110  the database sets no event
                await asyncio.sleep(0.02)
    assert [each["text"] for each in server.sent[1:]] == ([] if unpaired else ["Drink water"])
