"""Decides which slots of a job run of those that passed while they could not begin."""

from __future__ import annotations

from dataclasses import dataclass

from toolcaddie.core.jobs import CatchUp, Job
from toolcaddie.jobs.desk import following_slot

_GRACE_SECONDS = 60.0
"""A slot that is later counts as missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpRule:
    """Decides about slots that passed while they could not begin. `most`: of `all`, only so many run, the newest."""

    policy: CatchUp = "last"
    most: int = 100

    def claim(self, job: Job, now: float) -> tuple[float | None, float | None, int]:
        """Returns the slot of a due job that is to begin, the next one after it, and the number of slots that are left out. No
        slot: all are left out."""
        first = job.next or now
        following = following_slot(job, after=first)
        if following is None or following > now:
            late = self.policy == "skip" and now - first > _GRACE_SECONDS
            return (None if late else first), following, int(late)
        if self.policy == "all":
            return self._of_all(job, first, now)
        last, left_out = first, 0
        while following is not None and following <= now and left_out < self.most:
            last, following, left_out = following, following_slot(job, after=following), left_out + 1
        if following is not None and following <= now:  # too many to count
            last, following = now, following_slot(job, after=now)
        late = self.policy == "skip" and now - last > _GRACE_SECONDS
        return (None if late else last), following, left_out + int(late)

    def _of_all(self, job: Job, first: float, now: float) -> tuple[float, float | None, int]:
        missed = [first]
        while len(missed) <= self.most and (slot := following_slot(job, after=missed[-1])) is not None and slot <= now:
            missed.append(slot)
        if len(missed) <= self.most:
            return first, following_slot(job, after=first), 0
        return missed[-1], following_slot(job, after=missed[-1]), len(missed) - 1
