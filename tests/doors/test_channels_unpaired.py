"""Whoever may no longer talk to a bot gets nothing from it either, not even what was arranged before."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.doors.commandline import CommandLine
from tests.doors.talking import eventually, url_at
from tests.doors.test_channels_bots import house, texts
from tests.jobs.rig import running
from toolcaddie.bots.jobs import JobRunner
from toolcaddie.core.bots import ChatAddress
from toolcaddie.core.control import Principal
from toolcaddie.core.jobs import Every, Job, JobKind, NewJob
from toolcaddie.jobs.desk import JobDesk
from toolcaddie.testing import call, say
from toolcaddie.testing.telegram import ScriptedTelegram

pytestmark = pytest.mark.anyio

EVE = Principal(id="tg:42", bot="anna", channel="tg")


async def line(folder: Path, *arguments: str) -> str:
    return await asyncio.to_thread(CommandLine(folder).ok, *arguments, "--database-url", url_at(folder))


async def paired(server: ScriptedTelegram, folder: Path) -> None:
    server.write("Hello", person=42)
    (offer,) = await server.answers(1)
    await line(folder, "channels", "pair", re.findall(r"code is (\w{8})", offer["text"])[0])


def new(kind: JobKind) -> NewJob:
    address = ChatAddress(channel="tg", chat="42")
    return NewJob(text="Drink water", kind=kind, schedule=Every(every_ms=3_600_000), owner=EVE, reply_to=address)


async def run(desk: JobDesk, job: Job) -> Job:
    slot = await desk.run(job.id)
    async with asyncio.timeout(15):
        while (now := await desk.get(job.id)).last != slot.at:  # noqa: ASYNC110  the database sets no event
            await asyncio.sleep(0.02)
    return now


@pytest.mark.parametrize("kind", ["message", "instruction"])
async def test_a_job_of_an_unpaired_person_does_not_run_until_the_person_is_paired_again(
    tmp_path: Path, kind: JobKind
) -> None:
    async with house(tmp_path, lambda _: say("Water!"), pairing=True) as (server, _, bots, provider):
        await paired(server, tmp_path)
        assert bots.continuing.messenger is not None
        runner = JobRunner(worker=bots.worker, messenger=bots.continuing.messenger)
        async with running(url_at(tmp_path), runner.run) as (desk, _, _):
            job = await desk.add(new(kind))
            assert (await run(desk, job)).status == "done"
            requests, sent = len(provider.requests), len(server.sent)
            await line(tmp_path, "channels", "unpair", "tg", "42")
            failed = await run(desk, job)
    assert failed.status == "failed"
    assert "toolcaddie channels pair CODE" in failed.note
    assert f"toolcaddie jobs remove {job.id}" in failed.note
    assert (len(provider.requests), len(server.sent)) == (requests, sent)


async def test_a_person_who_is_unpaired_during_the_run_of_a_job_does_not_get_its_answer(tmp_path: Path) -> None:
    async def script(_: object) -> object:
        await line(tmp_path, "channels", "unpair", "tg", "42")
        return say("Water!")

    async with house(tmp_path, script, pairing=True) as (server, _, bots, _):
        await paired(server, tmp_path)
        assert bots.continuing.messenger is not None
        runner = JobRunner(worker=bots.worker, messenger=bots.continuing.messenger)
        async with running(url_at(tmp_path), runner.run) as (desk, _, _):
            failed = await run(desk, await desk.add(new("instruction")))
    assert "pair the person again" in failed.note
    assert not any("Water!" in text for text in texts(server, 42))


async def test_a_call_of_a_job_that_is_approved_after_its_person_was_unpaired_is_not_made(tmp_path: Path) -> None:
    script = [call("delete_client", {"name": "John"}), say("John is deleted.")]
    async with house(tmp_path, script, pairing=True) as (server, runtime, bots, provider):
        await paired(server, tmp_path)
        assert bots.continuing.messenger is not None
        runner = JobRunner(worker=bots.worker, messenger=bots.continuing.messenger)
        async with running(url_at(tmp_path), runner.run) as (desk, _, _):
            await run(desk, await desk.add(new("instruction")))
        (question,) = await runtime.approvals.list("default", status="open", limit=10)
        await line(tmp_path, "channels", "unpair", "tg", "42")
        await bots.talk.decide(question.id, approve=True, by=Principal(id="boss"))
        waiting = bots.continuing.waiting
        while await waiting.all():
            await bots.continuing.look()
    await eventually(lambda: len(provider.requests) == 1)
    assert not any("deleted" in text for text in texts(server, 42))
