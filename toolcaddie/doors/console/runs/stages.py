"""Sentences for people about the stages of the selection that leave a tool out."""

from __future__ import annotations

from collections.abc import Mapping

from toolcaddie.core.selection import DropStage

STAGES: Mapping[DropStage, str] = {
    "hidden": "This person may not see it.",
    "floor": "Its score is too low.",
    "no_match": "Nothing in the request fits it.",
    "max_tools": "Other tools have higher scores, and the number of tools is limited. Tools that are always sent do not count.",
    "quota": "Other tools of its category have higher scores, and each category has a share.",
    "provider_cap": "Other tools have higher scores, and the provider takes no more.",
    "max_tokens": "Other tools have higher scores, and their number of tokens is limited.",
}
"""Sentences about what left a tool out, by the stage of the selection."""
