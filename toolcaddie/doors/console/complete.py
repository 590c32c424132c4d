"""Makes the console of a server, with all its sections in the order of the navigation."""

from __future__ import annotations

from collections.abc import Iterator

from toolcaddie.app.build import Assembled
from toolcaddie.audit.trail import Trail
from toolcaddie.doors.console.analytics import analytics_section
from toolcaddie.doors.console.app import Console
from toolcaddie.doors.console.approvals import approvals_section
from toolcaddie.doors.console.audit import audit_section
from toolcaddie.doors.console.authored import authored_section
from toolcaddie.doors.console.bots import bots_section
from toolcaddie.doors.console.catalog import catalog_section
from toolcaddie.doors.console.costs import costs_section
from toolcaddie.doors.console.evaluation import evaluation_section
from toolcaddie.doors.console.health import health_section
from toolcaddie.doors.console.keys import KeyParts, keys_section
from toolcaddie.doors.console.live import LiveRuns
from toolcaddie.doors.console.overview import overview_section
from toolcaddie.doors.console.playground import playground_section
from toolcaddie.doors.console.policy import policy_section
from toolcaddie.doors.console.runs.section import RunsParts, runs_section
from toolcaddie.doors.console.sections import Section
from toolcaddie.doors.console.sources import sources_section
from toolcaddie.doors.gateway.traffic import Traffic
from toolcaddie.doors.reviewing import Reviews
from toolcaddie.runtime.settling import Settling
from toolcaddie.storage.runs import StoredRuns


def console_of(parts: Assembled, reviews: Reviews | None, traffic: Traffic | None = None) -> Console | None:
    """Returns the console; None: the settings turn it off. `reviews`: None if bots may write no tools. `traffic` admits the
    requests of this process; None: nothing does."""
    if not parts.settings.console.enabled:
        return None
    return Console(
        tuple(_sections(parts, reviews, traffic)),
        parts.documents,
        parts.keys,
        parts.event_log,
        identified=parts.runtime.identified,
        holding=parts.runtime.holding,
        settings=parts.settings.console,
    )


def _sections(parts: Assembled, reviews: Reviews | None, traffic: Traffic | None) -> Iterator[Section]:
    yield overview_section(parts)
    yield runs_section(_runs_parts(parts))
    yield approvals_section(parts.runtime.approvals)
    yield playground_section(parts)
    yield catalog_section(parts)
    if reviews is not None:
        yield authored_section(reviews)
    if parts.settings.bots:
        yield bots_section(parts)
    yield costs_section(parts)
    yield analytics_section(parts)
    yield evaluation_section(parts)
    yield policy_section(parts)
    yield sources_section(parts)
    yield keys_section(_key_parts(parts))
    yield audit_section(parts.database.audits)
    yield health_section(parts, traffic)


def _runs_parts(parts: Assembled) -> RunsParts:
    lists = parts.database.run_lists
    return RunsParts(
        lists=lists,
        runtime=parts.runtime,
        settling=Settling(parts.event_log, StoredRuns(parts.documents), Trail(parts.event_log).emit),
        live=LiveRuns(lists, is_stopping=lambda: parts.runtime.stopping),
    )


def _key_parts(parts: Assembled) -> KeyParts:
    return KeyParts(
        keys=parts.keys,
        meter=parts.meter,
        figures=parts.database.figures,
        settings=parts.settings,
        limits=parts.key_limits,
    )
