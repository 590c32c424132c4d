"""Chooses the tools of a request: asks a first stage (a model that names categories) if the preset says so, selects tools, and
decides whether meta tools are offered."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from toolcaddie.core.catalog import View
from toolcaddie.core.message import Message
from toolcaddie.core.presets import Preset
from toolcaddie.core.schema import definition_tokens
from toolcaddie.core.selection import Classification, Selection, SelectionQuery
from toolcaddie.engine.engine import Engine
from toolcaddie.engine.first_stage import classified
from toolcaddie.ports import Classifier
from toolcaddie.runtime.conversations import Conversation
from toolcaddie.runtime.coverage import classification_decides, sends_everything
from toolcaddie.runtime.searching import Search
from toolcaddie.runtime.setups import Setup
from toolcaddie.runtime.views import Offload
from toolcaddie.selection.classifier import keeps
from toolcaddie.selection.whole import everything
from toolcaddie.util.replacing import replace


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The tools chosen for a request, and the engine that will run it."""

    engine: Engine
    """The engine that runs the request; its meta tools are those that fit the selection."""
    selection: Selection
    pinned: tuple[str, ...] = ()
    """Names of the tools that must be sent: those that the caller's `tool_choice` names, and those that the request needs."""
    classification: Classification | None = None
    """The answer of the first stage; None: no first stage was asked."""


async def choose(
    search: Search,
    view: View,
    setup: Setup,
    before: Conversation | None,
    classifier: Classifier | None,
    offload: Offload | None,
) -> Choice:
    """Chooses the tools of a request. `before`: the tools that its conversation was sent earlier; `offload`: runs heavy work
    outside of the event loop (None: all work is done at once)."""
    await setup.vectors.prepare(view, search.query)
    when = setup.preset.selection.classify
    if classifier is None or when == "never" or not _leaves_categories(search.query, view, setup.preset):
        return _choice(await _select(search, view, setup, offload), search, view, setup, before)
    unclassified = None
    if when == "needed":
        unclassified = await _select(search, view, setup, offload)
        if not unclassified.no_match:
            return _choice(unclassified, search, view, setup, before)
    classification = await _classification(classifier, search.query.messages, view, setup, before)
    decides = classification_decides(setup.preset)
    useful = classification.how != "failed" and bool(classification.categories or unclassified is None or decides)
    if unclassified is not None and not useful:
        return replace(_choice(unclassified, search, view, setup, before), classification=classification)
    if useful:
        search = replace(search, query=_classified_query(search.query, classification, decides=decides))
    selection = await _select(search, view, setup, offload)
    choice = _choice(
        selection, search, view, setup, before, none_needed=useful and decides and not classification.categories
    )
    return replace(choice, classification=classification)


def choose_now(search: Search, view: View, setup: Setup) -> Choice:
    """Chooses the tools of the first request of a new conversation, without a first stage. It blocks, and works inside and
    outside of an event loop."""
    setup.vectors.prepare_now(view, search.query)
    return _choice(_selection(search, view, setup), search, view, setup, None)


async def _select(search: Search, view: View, setup: Setup, offload: Offload | None) -> Selection:
    """Selects tools, outside of the event loop if `offload` is set."""
    if offload is None:
        return _selection(search, view, setup)
    selection: Selection = await offload(_selection, search, view, setup)
    return selection


def _selection(search: Search, view: View, setup: Setup) -> Selection:
    """Returns the selection by the exposure of the preset: `compact` selects nothing, because meta tools are sent instead; `all`
    takes every tool; otherwise the selector selects."""
    preset = setup.preset
    if preset.exposure == "compact":
        return Selection(catalog_size=len(view), tokens_all=definition_tokens(view))
    if preset.exposure == "all":
        return everything(view, preset.budget.provider_cap, search.query.essential)
    return setup.selector.select(view, search.query, preset.budget)


# --- the first stage ----------------------------------------------------------------------------------------------------


def _leaves_categories(query: SelectionQuery, view: View, preset: Preset) -> bool:
    """Returns True if a first stage can help: tools are selected, there are categories, and the caller has not chosen any."""
    is_settled = sends_everything(preset, view) or preset.exposure != "selected" or query.categories is not None
    return not is_settled and bool(view.category_names())


async def _classification(
    classifier: Classifier, messages: Sequence[Message], view: View, setup: Setup, before: Conversation | None
) -> Classification:
    """Returns the categories of the earlier turn if the message continues its topic, otherwise the answer of the first stage."""
    last = before.categories if before is not None else ()
    if keeps(last, messages, view, setup.selector):
        return Classification(categories=last, how="kept")
    return await classified(classifier, messages, view)


def _classified_query(query: SelectionQuery, classification: Classification, *, decides: bool) -> SelectionQuery:
    """Returns the query with the categories of the first stage. If the preset ranks by categories alone (`decides`), only their
    tools are selected. Otherwise they are one signal among several, so that a wrong category does not exclude the tools that the
    words point to."""
    return (
        replace(query, categories=classification.categories)
        if decides
        else replace(query, suggested=classification.categories)
    )


# --- meta tools ---------------------------------------------------------------------------------------------------------


def _choice(
    selection: Selection,
    search: Search,
    view: View,
    setup: Setup,
    before: Conversation | None,
    *,
    none_needed: bool = False,
) -> Choice:
    """Returns the choice for a selection. Its engine has no meta tools if none fit or none are needed. `none_needed`: the first
    stage said that no tool is needed."""
    preset, engine = setup.preset, search.offering.engine
    crowded = preset.exposure == "selected" and not search.query.fixed_count
    if crowded or not _offers_meta(preset, view, selection, before, none_needed=none_needed):
        engine = search.offering.bare
        if not selection.tools:
            engine = replace(engine, meta={})
    elif preset.exposure != "compact" and any(view.get(name) is not None for name in engine.meta):
        # The caller's own tool has the name; where only meta tools are sent there is nothing to mix up.
        engine = replace(engine, meta={name: tool for name, tool in engine.meta.items() if view.get(name) is None})
    query = search.query
    pinned = (*query.pinned, *(name for name in query.essential if view.get(name) is not None))
    if view.shadowed:
        selection = replace(selection, shadowed=view.shadowed)
    if failure := setup.vectors.failure(view.catalog):
        selection = replace(selection, degraded=(failure,))
    return Choice(engine=engine, selection=selection, pinned=pinned)


def _offers_meta(
    preset: Preset, view: View, selection: Selection, before: Conversation | None, *, none_needed: bool
) -> bool:
    """Returns True if meta tools are offered. A conversation has them from its first request or not at all, so that they never
    move other tools in the array.

    They are not offered if all tools are sent anyway, nor if the first stage says that no tool is needed. If no tool was found
    for any other reason, only the meta tools are sent.
    """
    if not preset.meta or not len(view):
        return False
    if preset.exposure == "compact":
        return True
    if before is not None and before.delivered:
        return before.meta
    if none_needed and preset.selection.on_no_match == "none":
        return False
    return len(selection.tools) < len(view)
