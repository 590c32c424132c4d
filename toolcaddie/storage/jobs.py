"""Jobs and their slots in the database.

A slot is a row under (job, slot), so it exists once. It is added in the transaction that moves the job's `next` behind it, by an
update that only fits the job as it was read; so of several processes one begins it. As long as its owner (see `leases`) is alive,
nobody else touches it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import Connection, bindparam, case, delete, func, insert, or_, select, update

from toolcaddie.core.jobs import Job, JobOutcome, Slot, milliseconds
from toolcaddie.ports.jobs import Claim
from toolcaddie.storage.job_rows import ending_values, job_of, job_row, moment_ms, slot_of, slot_row, stored_note
from toolcaddie.storage.leases import DatabaseLeases
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.tables import job_slots, jobs, owners
from toolcaddie.storage.writer import Writer, outcome

T = TypeVar("T")

_job, _slot = jobs.c, job_slots.c
_CAN_BEGIN = (_job.enabled == 1) & _job.current.is_(None)
_ONE = (_slot.job == bindparam("of_job")) & (_slot.slot == bindparam("of_slot"))
# The statements are built once, because building one costs more than running it.
_DUE = select(jobs).where(_CAN_BEGIN, _job.next <= bindparam("now")).order_by(_job.next).limit(bindparam("most"))
_EARLIEST = select(func.min(_job.next)).where(_CAN_BEGIN)
_GET = select(jobs).where(_job.id == bindparam("of_job"))
_CLAIM = (
    update(jobs)
    .where(_job.id == bindparam("of_job"), _job.next == bindparam("was"), _CAN_BEGIN)
    .values(next=bindparam("then"), current=bindparam("of_slot"))
)
_REQUEST = (
    update(jobs).where(_job.id == bindparam("of_job"), _job.current.is_(None)).values(current=bindparam("of_slot"))
)
_BEGIN = (
    update(job_slots)
    .where(_ONE, _slot.ended.is_(None))
    .values(status="running", lease=bindparam("by"), began=bindparam("now"), starts=_slot.starts + 1)
    .returning(job_slots)
)
_END_SLOT = (
    update(job_slots)
    .where(_ONE, _slot.ended.is_(None))
    .values(status=bindparam("outcome"), ended=bindparam("now"), note=bindparam("because"))
)
_END_OWN_SLOT = _END_SLOT.where(_slot.lease == bindparam("by"))
_END_JOB = (
    update(jobs)
    .where(_job.id == bindparam("of_job"), _job.current == bindparam("of_slot"))
    .values(
        current=None,
        last=bindparam("of_slot"),
        status=bindparam("outcome"),
        note=bindparam("because"),
        failures=case((bindparam("counts") == 0, 0), else_=_job.failures + bindparam("more")),
        next=case((_job.next < bindparam("floor"), bindparam("floor")), else_=_job.next),
        enabled=_job.enabled * bindparam("goes_on"),
    )
)
_IS_ORPHAN = _slot.ended.is_(None) & or_(_slot.lease.is_(None), _slot.lease.not_in(select(owners.c.number)))
_OPEN = select(_slot.status, func.count().label("slots")).where(_slot.ended.is_(None)).group_by(_slot.status)
_ORPHANS = select(_slot.job, _slot.slot).where(_IS_ORPHAN).limit(bindparam("most"))
_ADOPT = update(job_slots).where(_ONE, _IS_ORPHAN).values(status="waiting", lease=bindparam("by")).returning(job_slots)


class DatabaseJobs:
    """Implements `ports.JobStore` on a database."""

    def __init__(self, writer: Writer, reader: Reader, leases: DatabaseLeases) -> None:
        self._writer = writer
        self._reader = reader
        self._leases = leases

    async def add(self, job: Job, *, most: int, most_of_owner: int | None = None) -> bool:
        row = job_row(job)
        of_bot = (_job.tenant == row["tenant"]) & (_job.bot == row["bot"])
        limits = [(of_bot, most)]
        if most_of_owner is not None:
            limits.append((of_bot & (_job.owner == row["owner"]), most_of_owner))

        def work(connection: Connection) -> bool:
            if connection.dialect.name == "postgresql":  # lets one process at a time count the jobs of a bot
                name = f"jobs\0{row['tenant']}\0{row['bot']}".replace("\0", "/")
                connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))
            for owned, largest in limits:
                if connection.execute(select(func.count()).select_from(jobs).where(owned)).scalar_one() >= largest:
                    return False
            connection.execute(insert(jobs), row)
            return True

        return await self._write(work)

    async def get(self, job_id: str) -> Job | None:
        rows = await self._reader.all(_GET, of_job=job_id)
        return job_of(rows[0]) if rows else None

    async def list(
        self, *, tenant: str | None = None, bot: str | None = None, owner: str | None = None
    ) -> Sequence[Job]:
        statement = select(jobs).order_by(_job.enabled.desc(), _job.next, _job.id)
        for column, value in ((_job.tenant, tenant), (_job.bot, bot), (_job.owner, owner)):
            if value is not None:
                statement = statement.where(column == value)
        return [job_of(row) for row in await self._reader.all(statement)]

    async def remove(self, job_id: str) -> bool:
        return await self._write(lambda connection: _remove(connection, job_id))

    async def switch(self, job_id: str, *, enabled: bool, next_slot: float | None) -> bool:
        statement = (
            update(jobs).where(_job.id == job_id).values(enabled=int(enabled), next=moment_ms(next_slot), failures=0)
        )
        return await self._write(lambda connection: connection.execute(statement).rowcount > 0)

    async def disable(self, job_id: str, *, note: str) -> None:
        values = {"enabled": 0, "next": None, "status": "failed", "note": stored_note(note)}
        statement = update(jobs).where(_job.id == job_id).values(values)
        await self._write(lambda connection: connection.execute(statement))

    async def request(self, job_id: str, slot: float) -> bool:
        at = milliseconds(slot)
        names = {"of_job": job_id, "of_slot": at}

        def work(connection: Connection) -> bool:
            if not connection.execute(_REQUEST, names).rowcount:
                return False
            connection.execute(insert(job_slots), slot_row(job_id, at, lease=None, manual=True))
            return True

        return await self._write(work)

    async def due(self, now: float, *, most: int) -> Sequence[Job]:
        return [job_of(row) for row in await self._reader.all(_DUE, now=milliseconds(now), most=most)]

    async def earliest(self) -> float | None:
        ((first,),) = await self._reader.all(_EARLIEST)
        return None if first is None else first / 1000

    async def claim(self, claims: Sequence[Claim], *, lease: int) -> Sequence[Slot]:
        # Always in this order, so that two processes do not wait for each other.
        wishes = sorted(claims, key=lambda claim: claim.job.id)

        def work(connection: Connection) -> list[Slot]:
            self._leases.require(connection, lease)
            begun = []
            for job, slot, following in wishes:
                moments = {"was": moment_ms(job.next), "of_slot": milliseconds(slot), "then": moment_ms(following)}
                if connection.execute(_CLAIM, {"of_job": job.id, **moments}).rowcount:
                    begun.append((job.id, milliseconds(slot)))
            if begun:
                connection.execute(insert(job_slots), [slot_row(job_id, slot, lease=lease) for job_id, slot in begun])
            return [Slot(job=job_id, at=slot / 1000) for job_id, slot in begun]

        return await self._write(work)

    async def adopt(self, *, lease: int, most: int) -> Sequence[Slot]:
        orphans = await self._reader.all(_ORPHANS, most=most)
        names = sorted((row.job, row.slot) for row in orphans)
        if not names:
            return []

        def work(connection: Connection) -> list[Slot]:
            self._leases.require(connection, lease)
            rows = [
                row
                for job_id, slot in names
                for row in connection.execute(_ADOPT, {"of_job": job_id, "of_slot": slot, "by": lease})
            ]
            return [slot_of(row) for row in rows]

        return await self._write(work)

    async def begin(self, job_id: str, slot: float, *, lease: int, now: float) -> tuple[Job, Slot] | None:
        names = {"of_job": job_id, "of_slot": milliseconds(slot), "by": lease, "now": now}

        def work(connection: Connection) -> tuple[Job, Slot] | None:
            self._leases.require(connection, lease)
            row = connection.execute(_BEGIN, names).first()
            job = None if row is None else connection.execute(_GET, {"of_job": job_id}).first()
            return None if row is None or job is None else (job_of(job), slot_of(row))

        return await self._write(work)

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
        values = ending_values(slot, outcome, now) | {"by": lease}
        change = values | {"floor": moment_ms(not_before) or 0, "goes_on": int(not stop)}

        def work(connection: Connection) -> bool:
            self._leases.require(connection, lease)
            if not connection.execute(_END_OWN_SLOT, values).rowcount:
                return False
            if delete:
                _remove(connection, slot.job)
            else:
                connection.execute(_END_JOB, change)
            return True

        return await self._write(work)

    async def fail(self, slots: Sequence[Slot], *, note: str, now: float) -> None:
        def work(connection: Connection) -> None:
            for slot in sorted(slots, key=lambda slot: (slot.job, slot.at)):
                values = ending_values(slot, JobOutcome(succeeded=False, note=note), now)
                if connection.execute(_END_SLOT, values).rowcount:
                    connection.execute(_END_JOB, values | {"floor": 0, "goes_on": 1})

        await self._write(work)

    async def slots(self, job_id: str, *, most: int) -> Sequence[Slot]:
        statement = select(job_slots).where(_slot.job == job_id).order_by(_slot.slot.desc()).limit(most)
        return [slot_of(row) for row in await self._reader.all(statement)]

    async def unfinished(self, *, before: float) -> Sequence[Slot]:
        statement = select(job_slots).where(_slot.ended.is_(None), _slot.slot < milliseconds(before))
        return [slot_of(row) for row in await self._reader.all(statement)]

    async def open_slots(self) -> Mapping[str, int]:
        """Returns the number of slots that have not ended, by status."""
        return {row.status: row.slots for row in await self._reader.all(_OPEN)}

    async def forget(self, *, before: float) -> int:
        statement = delete(job_slots).where(_slot.ended < before)
        return await self._write(lambda connection: connection.execute(statement).rowcount)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        return await outcome(self._writer.submit(work))


def _remove(connection: Connection, job_id: str) -> bool:
    connection.execute(delete(job_slots).where(_slot.job == job_id))
    return connection.execute(delete(jobs).where(_job.id == job_id)).rowcount > 0
