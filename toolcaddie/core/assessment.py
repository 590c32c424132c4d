"""A source's judgement of one call by its arguments, before the policy decides (`ports.AssessingSource`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolcaddie.core.tool import ToolAnnotations


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What a source knows about a call before it runs."""

    annotations: ToolAnnotations | None = None
    """The behaviour of exactly this call, which the policy reads in place of the tool's: `ls` of a tool that runs commands only
    reads. None: the call may do whatever the tool may do."""
    preview: str = ""
    """What the call would do, such as the diff of an edit. A person who is asked about the call sees it. An approval counts only
    as long as the preview stays the same."""
    question: str = ""
    """The reason why a person is asked about this call even where the policy allows it, such as "removes all flows of br0".
    Empty: the policy alone decides."""
    effects: tuple[str, ...] = ()
    """The effects of this call on the world, each a kind and a target: `systemd.restart nginx.service`. Two tools, or a tool and
    a command, that do the same have the same effect, so that one rule of the policy holds for both."""
    refusal: str = ""
    """The reason why the source will not run the call, whatever a person says. Empty: it will."""


def effect_names(effects: Iterable[str]) -> frozenset[str]:
    """Returns the names by which rules know some effects: of each its whole text and its kind, which is the first word."""
    return frozenset(name for effect in effects for name in (effect, effect.partition(" ")[0]))


NOTHING = Assessment()
"""The judgement of a call about which its source knows no more than the tool says."""
