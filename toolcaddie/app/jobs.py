"""The desk of jobs of this host, with the settings of `[jobs]`."""

from __future__ import annotations

from toolcaddie.app.settings import Settings
from toolcaddie.jobs.desk import JobDesk
from toolcaddie.ports import Store
from toolcaddie.ports.jobs import JobStore
from toolcaddie.util.zones import machine_zone


def desk_of(settings: Settings, rows: JobStore, store: Store) -> JobDesk:
    """Returns what makes, lists and changes jobs."""
    jobs = settings.jobs
    return JobDesk(rows=rows, store=store, limits=jobs.limits, zone=jobs.zone or machine_zone(), jitter=jobs.jitter)
