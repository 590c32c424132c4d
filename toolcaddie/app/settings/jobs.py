"""The settings of jobs: what bots do at times that were set before.

[jobs]
zone = "Europe/Madrid"
catch_up = "skip"
per_person = 10
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from toolcaddie.core.jobs import CatchUp, JobLimits
from toolcaddie.core.numbers import Positive


class JobSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules for the times of jobs, and limits on their number."""

    zone: str | None = None
    """The zone (IANA name) of times that name none; None: the zone of the machine."""
    catch_up: CatchUp = "last"
    """The slots that run of those that passed while no server ran: none that is late ("skip"), the last one, or all."""
    catch_up_most: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """The number of slots of a job, the newest, that `catch_up = "all"` runs."""
    per_bot: Positive = 50
    """The largest number of jobs of a bot."""
    per_person: Positive | None = None
    """The largest number of jobs that one person may have with a bot; None: as many as the bot."""
    least_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    """The shortest time between two slots of a job."""
    text_characters: Annotated[int, Meta(ge=1, le=100_000)] = 10_000
    """The largest number of characters of a message or instruction."""
    jitter: Annotated[float, Meta(ge=0, le=3_600)] = 0.0
    """Each job runs up to so many seconds later than its schedule says, always by the same delay, so that the jobs of many people
    do not all run at nine sharp."""
    at_once: Annotated[int, Meta(ge=1, le=1_000)] = 100
    """The largest number of slots that one process runs at the same time."""
    tenant_at_once: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """The largest number of slots of one tenant that all servers together run at the same time. The same for requests handed in
    (`Prefer: respond-async`, background responses), and for evaluations."""
    tenant_waiting: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_000
    """The largest number of such requests, and of evaluations, of one tenant that wait; more are refused."""

    @property
    def limits(self) -> JobLimits:
        return JobLimits(
            jobs=self.per_bot,
            jobs_of_person=self.per_person,
            least_seconds=self.least_seconds,
            text=self.text_characters,
        )
