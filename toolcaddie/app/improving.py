"""The proposals of the source `improve`, with the settings of the bots."""

from __future__ import annotations

from toolcaddie.app.models import PRACTICE, asked_of
from toolcaddie.app.runtimes import capabilities_of, host_parts
from toolcaddie.app.settings import Settings
from toolcaddie.bots.reviewing import RunReviewer
from toolcaddie.ports import EventSink, KeyMeter, Provider, Reviewer, Store
from toolcaddie.registry import Registry
from toolcaddie.tools.improve import Proposals, proposals_of


def stored_proposals(settings: Settings, store: Store) -> Proposals:
    """Returns the proposals in a store, and the files of the bots that they change."""
    return proposals_of(host_parts(settings, store))


def reviewer_of(
    settings: Settings,
    provider: Provider,
    registry: Registry | None = None,
    trail: EventSink | None = None,
    meter: KeyMeter | None = None,
) -> Reviewer:
    """Returns the reviewer of this host (`Parts.reviewer`): runs of the bots' own models, which are recorded in the trail.
    `meter`: counts them against the budgets of the bots."""
    model = asked_of(settings, registry)[1] or (PRACTICE if provider.name == PRACTICE else "")
    return RunReviewer(
        provider=provider,
        model=model,
        bots=settings.bots,
        trail=trail,
        meter=meter,
        capabilities=capabilities_of(settings),
    )
