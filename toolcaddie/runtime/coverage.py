"""Questions about a preset and a view: does everything go through whole, are tools searched at all, do meta tools fit?"""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.catalog import View
from toolcaddie.core.presets import Preset


def sends_everything(preset: Preset, view: View) -> bool:
    """Says if a preset that selects has nothing to choose from so few tools."""
    caps = [n for n in (preset.budget.max_tools, preset.budget.provider_cap) if n is not None]
    fits = preset.selection.whole_if_it_fits and preset.budget.max_tokens is None
    return fits and len(view) <= min(caps, default=len(view))


def searches(preset: Preset, view: View) -> bool:
    """Says if tools are searched, for the request itself or when the model asks for more."""
    if not len(view) or preset.exposure == "all":
        return False
    return preset.exposure == "compact" or not sends_everything(preset, view)


def classification_decides(preset: Preset) -> bool:
    """Says if the categories of a first stage decide alone, instead of being one signal among others."""
    return preset.selection.rankers == ("categories",)


def has_room_for_meta(preset: Preset, view: View, pinned: Sequence[str]) -> bool:
    """Says if meta tools fit beside what must be sent. One tool by name leaves room; a list of allowed ones may not."""
    cap = preset.budget.provider_cap
    if cap is None or len(pinned) < 2:
        return True
    return len(preset.meta) + len(pinned) + sum(map(view.catalog.is_core, view)) <= cap
