"""What a model reads about `improve`."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.bots import BEGINS_RUNS
from toolcaddie.core.catalog import Category
from toolcaddie.core.tool import Tool, ToolAnnotations
from toolcaddie.ports.reviewing import Focus
from toolcaddie.tools.improve.focuses import FOCUSES

NAME = "improve"
CATEGORY = Category(
    name="improve", description="The bot's own files.", keywords=("improve", "review", "persona", "soul", "mejorar")
)
_GRACE = 10.0
"""Seconds by which the tool's own timeout is longer than that of a review, so that the review ends first."""


def definition_of_tool(label: str, allowed: Sequence[Focus], seconds: float) -> Tool:
    """Returns the definition of the tool. `allowed`: the focuses of the settings; `seconds`: those of a review."""
    return Tool(
        name=NAME,
        description=(
            "Have your own files reviewed: memory, soul, motivations or identity. A reviewer edits a copy, and you get the "
            "difference as a proposal. Nothing changes before a person agrees: call it with action apply and the proposal, or "
            "tell the user its id."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "focus": {
                    "type": "string",
                    "enum": list(FOCUSES),
                    "description": f"What to review; allowed: {', '.join(allowed)}.",
                },
                "context": {"type": "string", "description": "What you want to be better, and why."},
                "action": {"type": "string", "enum": ["review", "apply"], "default": "review"},
                "proposal": {"type": "string", "description": "The proposal to apply."},
            },
            "additionalProperties": False,
        },
        category=CATEGORY.name,
        hints=("self-improvement", "reflect", "consolidate memory"),
        source=label,
        annotations=ToolAnnotations(read_only=False, destructive=True, idempotent=False, open_world=False),
        tags=(BEGINS_RUNS,),
        timeout=seconds + _GRACE,
        personal=True,
        untrusted=True,
    )
