"""Answers three questions about a preset and a view (the tools that a caller may see): are all tools sent, are tools searched,
and do meta tools fit?"""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.catalog import View
from toolcaddie.core.presets import Preset


def sends_everything(preset: Preset, view: View) -> bool:
    """Returns True if a preset that selects tools has nothing to select, because there are so few tools that all of them are
    sent."""
    caps = [n for n in (preset.budget.max_tools, preset.budget.provider_cap) if n is not None]
    fits = preset.selection.whole_if_it_fits and preset.budget.max_tokens is None
    return fits and len(view) <= min(caps, default=len(view))


def searches(preset: Preset, view: View) -> bool:
    """Returns True if tools are searched, for the request itself or when the model asks for more tools."""
    if not len(view) or preset.exposure == "all":
        return False
    return preset.exposure == "compact" or not sends_everything(preset, view)


def classification_decides(preset: Preset) -> bool:
    """Returns True if the categories of a first stage alone decide the selection, instead of being one signal among others."""
    return preset.selection.rankers == ("categories",)


def has_room_for_meta(preset: Preset, view: View, pinned: Sequence[str]) -> bool:
    """Returns True if meta tools fit beside the tools that must be sent (`pinned`). If the caller requires one tool by name,
    there is room; a long list of allowed tools may leave none."""
    cap = preset.budget.provider_cap
    if cap is None or len(pinned) < 2:
        return True
    return len(preset.meta) + len(pinned) + sum(map(view.catalog.is_core, view)) <= cap
