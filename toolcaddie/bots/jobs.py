"""Runs the jobs of bots: it sends their messages, and lets bots follow their instructions."""

from __future__ import annotations

from dataclasses import dataclass

from toolcaddie.bots.working import Worker
from toolcaddie.core.bots import BotWork
from toolcaddie.core.jobs import Job, JobOutcome, Slot
from toolcaddie.ports import Messenger

_NOTE = 500
"""The largest number of characters of an outcome's note."""


_PATIENCE_SECONDS = 12 * 3_600.0
"""Time for which the message of a job is sent again while its channel cannot be reached."""
_LATER = "the channel {channel!r} cannot be reached; the message is sent as soon as it can, within 12 hours"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunner:
    """Runs slots of jobs. After a crash the same slot runs again: nothing is sent twice, and a bot's run goes on.

    A job whose chat may not be written to any more does not run, because its person may no longer talk to the bot. That is asked
    again before its answer is sent.
    """

    worker: Worker
    messenger: Messenger

    async def run(self, job: Job, slot: Slot) -> JobOutcome:
        if not await self._may_write(job):
            return _closed(job)
        if job.kind == "message":
            return await self._sent(job, job.text, slot.work_id)
        work = BotWork(
            id=slot.work_id,
            principal=job.owner,
            message=job.text,
            mode="autonomous",
            chat=job.chat,
            inherited=job.inherited,
            reply_to=job.reply_to,
        )
        answer = await self.worker.do(work)
        if answer.status == "pending":
            return JobOutcome(succeeded=True, note="it waits for a person, who is asked about a call")
        if answer.status == "failed":
            return JobOutcome(succeeded=False, note=answer.text[:_NOTE])
        if job.reply_to is None:
            return JobOutcome(succeeded=True, note=answer.text[:_NOTE])
        return await self._sent(job, answer.text, f"{answer.run_id}/reply")

    async def _sent(self, job: Job, text: str, key: str) -> JobOutcome:
        if job.reply_to is None:
            return JobOutcome(succeeded=False, note="it was made outside of a channel, so there is no chat to write to")
        if not await self._may_write(job):
            return _closed(job)
        is_sent = await self.messenger.send(
            job.reply_to, text, key=key, sender=job.owner.bot or "", patience=_PATIENCE_SECONDS
        )
        return JobOutcome(succeeded=True, note="" if is_sent else _LATER.format(channel=job.reply_to.channel))

    async def _may_write(self, job: Job) -> bool:
        return job.reply_to is None or await self.messenger.may_write(job.reply_to)


def _closed(job: Job) -> JobOutcome:
    channel, chat = ("", "") if job.reply_to is None else (job.reply_to.channel, job.reply_to.chat)
    return JobOutcome(
        succeeded=False,
        note=f"the channel {channel!r} may not write to the chat {chat[:64]!r} any more; pair the person again, with `toolcaddie "
        f"channels pair CODE`, or remove the job, with `toolcaddie jobs remove {job.id}`",
    )
