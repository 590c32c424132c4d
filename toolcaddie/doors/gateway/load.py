"""The load of one process at one moment, for people who look at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLoad:
    """The requests of one tenant."""

    tenant: str
    at_work: int
    """Requests that have a place."""
    waiting: int
    weight: int
    """Its share of the turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The requests of one process, and the most that it takes."""

    places: int
    at_work: int
    """Requests that have a place."""
    waiting: int
    most_waiting: int
    per_tenant: int
    """Places of one tenant, as soon as there are several."""
    tenants: Sequence[TenantLoad]
    """Tenants that have requests now, those with the most first."""
