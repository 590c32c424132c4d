"""A source's judgement of one call by its arguments, before the policy decides (`ports.AssessingSource`)."""

from __future__ import annotations

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
    """The reason why a person must be asked about the call, also where the policy would allow it. Empty: the policy decides."""
    refusal: str = ""
    """The reason why the source will not run the call, whatever a person says. Empty: it will."""


NOTHING = Assessment()
"""The judgement of a call about which its source knows no more than the tool says."""
