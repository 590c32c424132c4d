"""Interfaces (sockets) for jobs: the rows of jobs and slots, and the service that tools and commands use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from toolcaddie.core.control import Principal
from toolcaddie.core.jobs import Job, JobOutcome, NewJob, Slot
from toolcaddie.ports.bots import WorkQueue


class Claim(NamedTuple):
    """The wish to begin a slot of a job: the job as it was read, the slot, and the next one after it."""

    job: Job
    slot: float
    next: float | None


class JobStore(Protocol):
    """The rows of jobs and slots, which all processes share. Every method is one transaction.

    `lease`: the number of the lease of this process; the write happens only while it is held, otherwise `StorageError`.
    """

    async def add(self, job: Job, *, most: int, most_of_owner: int | None = None) -> bool:
        """Adds a job. Returns False, and adds nothing, if its bot has `most` jobs already, or its owner `most_of_owner` with that
        bot."""
        ...

    async def get(self, job_id: str) -> Job | None: ...

    async def list(
        self, *, tenant: str | None = None, bot: str | None = None, owner: str | None = None
    ) -> Sequence[Job]:
        """Returns jobs in the order of their next slots. None: of all."""
        ...

    async def remove(self, job_id: str) -> bool:
        """Removes a job and its slots. Returns False if there was none."""
        ...

    async def switch(self, job_id: str, *, enabled: bool, next_slot: float | None) -> bool:
        """Enables or disables a job. Returns False if there is none."""
        ...

    async def disable(self, job_id: str, *, note: str) -> None:
        """Disables a job that cannot run any more, as failed for that reason."""
        ...

    async def request(self, job_id: str, slot: float) -> bool:
        """Adds a manual slot, which any process takes. Returns False if a slot of the job has not ended."""
        ...

    async def due(self, now: float, *, most: int) -> Sequence[Job]:
        """Returns enabled jobs whose next slot has come and that have no slot in progress, the latest first."""
        ...

    async def earliest(self) -> float | None:
        """Returns the next slot of all jobs that could begin; None: there is none."""
        ...

    async def claim(self, claims: Sequence[Claim], *, lease: int) -> Sequence[Slot]:
        """Adds the slots whose jobs are still as they were read, and returns these. Of several processes, one gets a slot."""
        ...

    async def adopt(self, *, lease: int, most: int) -> Sequence[Slot]:
        """Takes over, and returns, slots that nobody takes care of: their process is dead, or a person asked for them."""
        ...

    async def begin(self, job_id: str, slot: float, *, lease: int, now: float) -> tuple[Job, Slot] | None:
        """Marks a slot as running in this process. Returns None if it has ended or its job is gone."""
        ...

    async def end(
        self,
        slot: Slot,
        outcome: JobOutcome,
        *,
        lease: int,
        now: float,
        not_before: float | None,
        stop: bool,
        delete: bool,
    ) -> bool:
        """Ends a slot. `not_before`: the next slot of the job is not earlier. `stop`: the job is disabled; `delete`: it is
        removed. Returns False if another process has taken the slot over."""
        ...

    async def fail(self, slots: Sequence[Slot], *, note: str, now: float) -> None:
        """Ends unfinished slots as failed, whoever runs them, because their work was given up."""
        ...

    async def slots(self, job_id: str, *, most: int) -> Sequence[Slot]:
        """Returns the newest slots of a job, the newest first."""
        ...

    async def unfinished(self, *, before: float) -> Sequence[Slot]:
        """Returns slots that were due before a moment and have not ended."""
        ...

    async def forget(self, *, before: float) -> int:
        """Removes slots that ended before a moment. Returns their number."""
        ...


class SlotQueue(WorkQueue, Protocol):
    """A queue that takes many pieces of work at once, and tells which were given up."""

    async def put_many(self, kind: str, work: Sequence[tuple[str, bytes]], *, tenant: str | None = None) -> None:
        """Puts pieces of work of one tenant by id and payload, in one transaction. Far cheaper than the same number of `put`."""
        ...

    async def given_up(self, work_ids: Sequence[str]) -> Sequence[str]:
        """Returns those ids whose work is over, in whatever way: it will not be begun again."""
        ...


class Jobs(Protocol):
    """Jobs as tools and commands see them. `by`: only jobs that this person made with this bot exist; None: all do.

    Raises `RequestError` for a wrong schedule, an unknown job, too many jobs, and a new job that nothing would run.
    """

    def check(self, new: NewJob) -> Job:
        """Returns the job that would be added, and adds nothing."""
        ...

    async def add(self, new: NewJob) -> Job: ...

    async def get(self, job_id: str, *, by: Principal | None = None) -> Job: ...

    async def list(
        self, *, by: Principal | None = None, tenant: str | None = None, bot: str | None = None
    ) -> Sequence[Job]: ...

    async def remove(self, job_id: str, *, by: Principal | None = None) -> Job: ...

    async def run(self, job_id: str, *, by: Principal | None = None) -> Slot:
        """Asks for a run now, beside the schedule. It begins in any process that runs jobs."""
        ...

    async def switch(self, job_id: str, *, enabled: bool, by: Principal | None = None) -> Job:
        """Pauses or resumes a job. A resumed one continues with the next slot from now on."""
        ...

    async def slots(self, job_id: str, *, most: int = 10) -> Sequence[Slot]: ...

    def next_times(self, job: Job, *, most: int = 3) -> Sequence[float]:
        """Returns the next slots of a job."""
        ...

    async def is_served(self) -> bool:
        """Returns True if a living process runs jobs."""
        ...
