"""The six presets, as data: `default`, which is Toolcaddie's own behaviour, and five that reproduce existing systems exactly.

A preset decides which tools a model sees, and the limits of the tool-calling loop. It never changes policy or audit.
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
    "embedding": (*LEXICAL, "embedding", "table"),
}
"""Names of the rankers for three kinds of installation: nothing but words (`lexical`), the vectors that every installation has
(`plain`), or an embedder and, as far as these help it, the same vectors beside it (`embedding`)."""

DeliveryMode = Literal["auto", "direct", "masked", "native"]
ProgramMode = Literal["auto", "always", "never"]
CacheMode = Literal["off", "declared", "everything"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionSettings:
    """Settings of the search for tools that fit a message."""

    rankers: tuple[str, ...] = SIGNALS["plain"]
    weights: Mapping[str, Weight] = field(default_factory=dict)
    """Weights of rankers, only where they differ from the shipped weights; `toolcaddie eval --fit` finds good weights."""
    nothing_fits: Share | None = None
    """Score (0 to 1) of the best tool below which no tool fits the request, unless a keyword matched; None: the shipped value.
    `toolcaddie eval --fit` finds a good one."""
    sure_nothing_fits: Share = 0.86
    """Probability, estimated for each request, from which the selection says that nothing fits; 1: never. At the default,
    at most 2 % of the requests with a right tool are affected in each labelled set, with more in sets unlike these.
    `nothing_fits` replaces it."""
    match: Literal["word", "substring"] = "word"
    """Keywords match as words with their forms, or anywhere in the text (the `keyword` preset)."""
    related_depth: Count | None = None
    """Number of steps along `Category.related`; None: until no category is added; 0: related categories are not used."""
    window: Positive = 8
    """Number of the last messages to read, of any role."""
    window_user: Positive = 4
    """The largest number of the user's messages among those of `window`."""
    on_no_match: Literal["defaults", "core", "none"] = "defaults"
    expandable_categories: tuple[str, ...] | None = None
    """Categories that a model may request with `request_more_tools`; None: all that the caller may see."""
    classify: Literal["always", "needed", "never"] = "never"
    """Use of a first stage (a model call that names the categories of a request), if one is configured. `needed`: only if nothing
    fits without it."""
    whole_if_it_fits: bool = True
    """True: a catalog that fits all limits of the budget is sent whole and unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    name: str
    exposure: Literal["selected", "all", "compact"] = "selected"
    selection: SelectionSettings = SelectionSettings()
    budget: Budget = Budget()
    limits: Limits = Limits()
    batch: Literal["auto", "concurrent", "sequential"] = "auto"
    """Execution of the calls of one answer, apart from meta tools; `auto`: concurrent if each tool is read-only or flagged as
    concurrent."""
    delivery: DeliveryMode = "direct"
    """Delivery of the selection: `direct` appends later tools to the tool array, as the five systems do; `auto` compares the
    costs of each way in this conversation; `masked` and `native` are used if the provider supports them."""
    core_first: bool = True
    """False: the catalog's core flags are ignored."""
    meta: tuple[str, ...] = ()
    expand_by: Literal["query", "categories"] = "query"
    """Argument of `request_more_tools`; `categories` as in the `budget` preset."""
    page_size: int = PAGE_SIZE
    """The largest number of tools on a page of `list_tools` and of hits of `search_tools`."""
    capability_note: bool = False
    """True: the system prompt says that more tools can be requested; otherwise only the meta tool's description does."""
    force: bool = False
    on_not_called: Literal["retry", "error", "warn", "allow"] = "retry"
    programs: ProgramMode = "never"
    """Whether the model may write programs that call tools (`run_program`), if the runtime has an interpreter: in every request,
    in those for which the planner expects them to pay (`auto`), or never."""
    cache: CacheMode = "declared"
    """Tools whose results are cached: none, those that declare it, or all that are safe to cache."""


_EXACT_LIMITS = Limits(rounds=5, looking_rounds=0, calls=None, repeats_warn=None, repeats_stop=None)
_EVERYTHING = Budget(max_tools=None, provider_cap=128, policy="ranked", reserve_tools=0, reserve_tokens=0.0)

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="default",
            delivery="auto",
            programs="auto",
            meta=(REQUEST_MORE_TOOLS, SEARCH_TOOLS, GET_TOOL_SCHEMA, EXECUTE_TOOL),
        ),
        Preset(
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
        Preset(
            name="keyword",
            selection=SelectionSettings(rankers=("categories",), match="substring", whole_if_it_fits=False),
            budget=_EVERYTHING,
            cache="off",
            limits=Limits(rounds=10, looking_rounds=0, calls=None, repeats_warn=None, repeats_stop=None),
            batch="sequential",
        ),
        Preset(
            name="multibot",
            exposure="all",
            budget=_EVERYTHING,
            limits=_EXACT_LIMITS,
            batch="sequential",
            core_first=False,
        ),
        Preset(
            name="forced",
            exposure="all",
            budget=_EVERYTHING,
            limits=_EXACT_LIMITS,
            batch="sequential",
            core_first=False,
            force=True,
            cache="everything",
        ),
        Preset(
            name="compact",
            exposure="compact",
            budget=_EVERYTHING,
            cache="off",
            limits=Limits(rounds=None, looking_rounds=0, calls=75, repeats_warn=None, repeats_stop=None),
            batch="sequential",
            core_first=False,
            meta=(EXECUTE_TOOL, LIST_TOOLS, SEARCH_TOOLS, GET_TOOL_SCHEMA, RESPOND),
        ),
    )
}


def preset(name: str) -> Preset:
    """Returns the preset of that name. Raises `ConfigError` with the existing names."""
    try:
        return PRESETS[name]
    except KeyError:
        raise ConfigError(f"no preset {name!r}; {did_you_mean(str(name), sorted(PRESETS))}") from None
