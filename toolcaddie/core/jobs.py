"""Jobs are messages that are sent, and instructions that a bot follows, at moments of a schedule. A slot is one such moment."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from toolcaddie.core.bots import NOTHING_INHERITED, ChatAddress, Inherited
from toolcaddie.core.control import Principal

JobKind = Literal["message", "instruction"]
"""`message`: the text is sent to the chat of the job; `instruction`: the bot of the job follows the text."""

CatchUp = Literal["skip", "last", "all"]
"""Which slots run of those that passed while they could not: none, the last one, or all up to a limit."""

SlotStatus = Literal["waiting", "running", "done", "failed"]


class At(Struct, frozen=True, kw_only=True, tag_field="kind", tag="at"):
    """Runs once."""

    at: str
    """ISO 8601. Without an offset it is a wall-clock time in the zone of the job."""


class Every(Struct, frozen=True, kw_only=True, tag_field="kind", tag="every", rename="camel"):
    """Runs at equal distances, counted from the moment at which the job was made."""

    every_ms: int


class Cron(Struct, frozen=True, kw_only=True, tag_field="kind", tag="cron"):
    """Runs at wall-clock times in a zone."""

    expr: str
    """Five fields: minute, hour, day of the month, month, day of the week."""
    tz: str | None = None
    """IANA name of a zone; None: the zone of the job."""


Schedule = At | Every | Cron


class NewJob(Struct, frozen=True, kw_only=True):
    """What is needed to make a job."""

    text: str
    schedule: Schedule
    owner: Principal
    """The person who made it; `bot` names the bot that made it and follows its instruction."""
    name: str = ""
    kind: JobKind = "message"
    delete_after_run: bool = False
    """True: a job that runs once is deleted after it succeeded; otherwise it is disabled."""
    inherited: Inherited = NOTHING_INHERITED
    """The limits of its runs, so that a job never has more permissions than the run that made it."""
    reply_to: ChatAddress | None = None
    """The chat for its message or answer; None: nobody gets it."""
    chat: str = ""
    """Name of the chat whose history the bot reads; empty: there is none."""


class Job(Struct, frozen=True, kw_only=True):
    """A stored job."""

    id: str
    name: str
    kind: JobKind
    text: str
    schedule: Schedule
    zone: str
    owner: Principal
    created: float
    """Seconds since the epoch, as all moments of a job."""
    delete_after_run: bool = False
    inherited: Inherited = NOTHING_INHERITED
    reply_to: ChatAddress | None = None
    chat: str = ""
    jitter: float = 0.0
    """Seconds by which each of its slots is later than its schedule says, so that many jobs do not run at the same moment."""
    enabled: bool = True
    next: float | None = None
    """The next slot; None: there is none, or the job is disabled."""
    current: float | None = None
    """The slot that was begun and has not ended. A job never runs twice at the same time."""
    last: float | None = None
    """The last slot that ended."""
    status: Literal["", "done", "failed"] = ""
    """The outcome of that slot; empty: none has ended."""
    note: str = ""
    """The reason of a failure, or what the outcome says."""
    failures: int = 0
    """Failures in a row."""

    @property
    def taint(self) -> tuple[str, ...]:
        """Tools whose untrusted results the run that made the job had read, so that its text may come from a stranger."""
        return self.inherited.taint

    @property
    def is_once(self) -> bool:
        return isinstance(self.schedule, At)


class Slot(Struct, frozen=True, kw_only=True):
    """One run of a job. There is never a second slot of the same job at the same moment."""

    job: str
    at: float
    """The moment at which it was due, with a precision of milliseconds."""
    manual: bool = False
    """True: a person or a bot asked for it, beside the schedule."""
    status: SlotStatus = "waiting"
    began: float | None = None
    ended: float | None = None
    note: str = ""
    starts: int = 0
    """How often it was begun: more than once if a process died meanwhile."""

    @property
    def milliseconds(self) -> int:
        return milliseconds(self.at)

    @property
    def work_id(self) -> str:
        """The id of its work, which is the same in every process and at every repetition."""
        return f"job:{self.job}:{self.milliseconds}"


class JobOutcome(Struct, frozen=True, kw_only=True):
    """The end of one run of a job."""

    succeeded: bool
    note: str = ""
    """A sentence for people, such as the reason of a failure."""


class JobLimits(Struct, frozen=True, kw_only=True):
    """Limits of all jobs."""

    jobs: int = 50
    """The largest number of jobs of one bot."""
    jobs_of_person: int | None = None
    """The largest number of jobs that one person has with a bot; None: as many as the bot."""
    least_seconds: float = 60.0
    """The shortest time between two slots of a job."""
    text: int = 10_000
    """The largest number of characters of a text."""


def milliseconds(moment: float) -> int:
    return round(moment * 1000)
