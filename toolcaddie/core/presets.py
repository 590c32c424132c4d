"""The six named configurations, as data: the five source systems exactly, and `default`, which is ours.

A preset says what a model sees and how long the loop may go on. It never touches policy or audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.meta_names import (
    EXECUTE_TOOL,
    GET_TOOL_SCHEMA,
    LIST_TOOLS,
    PAGE_SIZE,
    REQUEST_MORE_TOOLS,
    RESPOND,
    SEARCH_TOOLS,
)
from toolcaddie.core.numbers import Count, Positive, Share, Weight
from toolcaddie.core.run import Limits
from toolcaddie.core.selection import Budget
from toolcaddie.util.suggest import did_you_mean

LEXICAL = ("categories", "bm25", "characters", "mentions")

SIGNALS: dict[str, tuple[str, ...]] = {
    "lexical": LEXICAL,
    "plain": (*LEXICAL, "static"),
    "embedding": (*LEXICAL, "embedding"),
}
"""Rankers by what they need: words alone, what every install brings, an embedder besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionSettings:
    """How tools are found in a message."""

    rankers: tuple[str, ...] = SIGNALS["plain"]
    weights: Mapping[str, Weight] = field(default_factory=dict)
    """What a ranker counts, where that differs from what ships; `toolcaddie eval --fit` finds such weights."""
    nothing_fits: Share | None = None
    """How well the best tool must fit, 0 to 1, unless a keyword hit; None: as it ships. `toolcaddie eval --fit` finds it."""
    match: Literal["word", "substring"] = "word"
    """A keyword hits as a word with its forms, or anywhere in the text (source 001)."""
    related_depth: Count | None = None
    """Steps along related categories; None: until nothing is added; 0: none."""
    window: Positive = 8
    """Last messages looked at, of any role."""
    window_user: Positive = 4
    """Of these, the last messages of the user."""
    on_no_match: Literal["defaults", "core", "none"] = "defaults"
    expandable_categories: tuple[str, ...] | None = None
    """Categories that a model may ask for with `request_more_tools`; None: all that the caller may see."""
    classify: Literal["always", "needed", "never"] = "never"
    """When a first stage, if there is one, is asked for categories; `needed`: where nothing fitted without it."""
    whole_if_it_fits: bool = True
    """A catalog within `max_tools` (cap and tokens too) goes through whole and unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    name: str
    exposure: Literal["selected", "all", "compact"] = "selected"
    selection: SelectionSettings = SelectionSettings()
    budget: Budget = Budget()
    limits: Limits = Limits()
    batch: Literal["auto", "concurrent", "sequential"] = "auto"
    """How the real calls of one turn run; `auto`: together when every one of them is read-only or flagged concurrent."""
    delivery: Literal["auto", "direct", "masked", "native"] = "direct"
    """How the selection is sent: `direct` grows the tool array, as the source systems do; `auto` weighs what each way costs in
    this conversation; `masked` and `native` are taken where the provider has them."""
    core_first: bool = True
    """False: the catalog's core flags are ignored (sources without core tools)."""
    meta: tuple[str, ...] = ()
    expand_by: Literal["query", "categories"] = "query"
    """What `request_more_tools` takes; `categories` is source 000 to the letter."""
    page_size: int = PAGE_SIZE
    """Tools of one page of `list_tools`, and hits of `search_tools`, at most."""
    capability_note: bool = False
    """Say in the system prompt that the set of tools can be expanded (source 000); elsewhere the meta tool says so itself."""
    force: bool = False
    on_not_called: Literal["retry", "error", "warn", "allow"] = "retry"
    cache: Literal["off", "declared", "everything"] = "declared"
    """Whose results are kept and given again: nobody's, of tools that say so, or of all tools that are safe to."""


_EXACT_LIMITS = Limits(rounds=5, turns=None, repeats_warn=None, repeats_stop=None)
_EVERYTHING = Budget(max_tools=None, provider_cap=128, policy="ranked", reserve_tools=0, reserve_tokens=0.0)

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="default",
            delivery="auto",
            meta=(REQUEST_MORE_TOOLS, SEARCH_TOOLS, GET_TOOL_SCHEMA, EXECUTE_TOOL),
        ),
        Preset(  # source 000
            name="budget",
            selection=SelectionSettings(
                rankers=("categories",), related_depth=0, on_no_match="none", classify="always", whole_if_it_fits=False
            ),
            budget=Budget(max_tools=8, provider_cap=128, policy="proportional", reserve_tools=0, reserve_tokens=0.0),
            limits=_EXACT_LIMITS,
            batch="concurrent",
            core_first=False,
            meta=(REQUEST_MORE_TOOLS,),
            expand_by="categories",
            capability_note=True,
            cache="off",
        ),
        Preset(  # source 001
            name="keyword",
            selection=SelectionSettings(rankers=("categories",), match="substring", whole_if_it_fits=False),
            budget=_EVERYTHING,
            cache="off",
            limits=Limits(rounds=10, turns=None, repeats_warn=None, repeats_stop=None),
            batch="sequential",
        ),
        Preset(  # source 002
            name="multibot",
            exposure="all",
            budget=_EVERYTHING,
            limits=_EXACT_LIMITS,
            batch="sequential",
            core_first=False,
        ),
        Preset(  # source 003
            name="forced",
            exposure="all",
            budget=_EVERYTHING,
            limits=_EXACT_LIMITS,
            batch="sequential",
            core_first=False,
            force=True,
            cache="everything",
        ),
        Preset(  # source 004
            name="compact",
            exposure="compact",
            budget=_EVERYTHING,
            cache="off",
            limits=Limits(rounds=None, turns=75, repeats_warn=None, repeats_stop=None),
            batch="sequential",
            core_first=False,
            meta=(EXECUTE_TOOL, LIST_TOOLS, SEARCH_TOOLS, GET_TOOL_SCHEMA, RESPOND),
        ),
    )
}


def preset(name: str) -> Preset:
    """The preset of that name; `ConfigError` lists the names there are."""
    try:
        return PRESETS[name]
    except KeyError:
        raise ConfigError(f"no preset {name!r}; {did_you_mean(str(name), sorted(PRESETS))}") from None
