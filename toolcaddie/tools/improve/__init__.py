"""The source `improve`: a reviewer edits a copy of the bot's own files, and a person decides about the difference.

[[source]]
type = "improve"
allowed_focus = ["memory", "soul"]      # default: all

[source.reviewer]
name = "command"                        # default: a run of the bot's own model

[source.reviewer.options]
argv = ["my-agent", "--print", "{{instructions}}"]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from toolcaddie.core.errors import ConfigError
from toolcaddie.parts import Parts
from toolcaddie.ports import Reviewer
from toolcaddie.ports.reviewing import Focus
from toolcaddie.registry import Registry
from toolcaddie.tools.improve.focuses import FOCUSES
from toolcaddie.tools.improve.proposals import Proposals
from toolcaddie.tools.improve.source import ImproveSource

MOST_SECONDS = 300

ReviewSeconds = Annotated[float, Meta(gt=0, le=MOST_SECONDS)]
OutputCharacters = Annotated[int, Meta(ge=200, le=1_000_000)]


class ReviewerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who reviews."""

    name: str
    """The name of a reviewer (`toolcaddie plugins` lists them)."""
    options: Mapping[str, Any] = {}
    """Its settings."""


def improve(
    *,
    allowed_focus: tuple[Focus, ...] = FOCUSES,
    timeout: ReviewSeconds = 120.0,
    max_output: OutputCharacters = 15_000,
    reviewer: ReviewerSettings | None = None,
    parts: Parts,
    registry: Registry | None = None,
) -> ImproveSource:
    """Returns the source. `timeout`: seconds for one review. `max_output`: characters of the difference that the model reads.
    `reviewer` None: the one of the host. `registry`: knows the reviewers; None: the installed ones. Raises `ConfigError`."""
    if not allowed_focus:
        raise ConfigError(
            f"source improve: allowed_focus is empty; name some of {', '.join(FOCUSES)}, or drop the source"
        )
    made: Reviewer | None = parts.reviewer
    if reviewer is not None:
        made = (registry or Registry()).make("reviewer", reviewer.name, reviewer.options, parts)
    return ImproveSource(
        made, proposals_of(parts), allowed=allowed_focus, seconds=timeout, max_output=max_output, clock=parts.clock
    )


def proposals_of(parts: Parts) -> Proposals:
    """Returns the service that lists, shows and decides about proposals, without a runtime. Raises `ConfigError`."""
    if parts.store is None or parts.personas is None:
        raise ConfigError(
            "source improve: proposals need a store; pass one, as in Parts(store=store, personas=personas)"
        )
    return Proposals(parts.store, parts.personas, clock=parts.clock)


__all__ = ["ImproveSource", "Proposals", "improve", "proposals_of"]
