"""`request_more_tools`: a meta tool by which the model asks for more tools than it was sent.

It has two forms, and the preset chooses one (`Preset.expand_by`). With "query", the default form, the model writes words or
categories, and gets the best tools that it does not have yet. With "categories", the exact form, the model names categories. Then
the selection is made again, on these categories, and the tools that the model does not have yet are appended.

The result of a call has a `Reveal`: the names of the tools that the model gets from the next request on. The scene is the state
of the run that a meta tool may read; `scene.expandable` has the categories that the model may ask for (None: all).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolcaddie.core.catalog import View
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.schema import wire_definition
from toolcaddie.core.selection import SelectedTool, Selection, SelectionQuery
from toolcaddie.core.tool import Reveal, Tool, ToolResult, failed
from toolcaddie.meta.definition import meta_definition
from toolcaddie.meta.lookup import prepared_for
from toolcaddie.ports.meta import MetaOffer, MetaScene
from toolcaddie.util.replacing import replace

_MIN_LISTED, _MAX_LISTED = 2, 40
"""Smallest and largest number of categories that the definition of the default form lists."""
_MAX_SHOWN = 50
"""Largest number of categories that an answer lists."""
_NEAR = 0.8
"""Share of the best score that a tool must reach if each added tool makes all later requests more expensive
(`MetaScene.sparing`)."""


class RequestMoreTools:
    name = REQUEST_MORE_TOOLS

    def definition(self, offer: MetaOffer) -> Tool:
        """Returns `request_more_tools` as the model reads it. `offer`: the settings on which definitions of meta tools depend."""
        return (_by_category if offer.expand_by == "categories" else _by_query)(offer.categories)

    async def answer(self, arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
        """Returns the new tools for the words and categories of the call. Categories that the model may not ask for are named."""
        askable = [name for name in scene.view.category_names() if scene.expandable is None or name in scene.expandable]
        categories = [name for name in arguments.get("categories", ()) if isinstance(name, str)]
        valid = [name for name in categories if name in askable]
        refused = [name for name in categories if name not in askable]
        text = str(arguments.get("query", "")).strip() or None
        await prepared_for(scene.view, scene.prepare, text or " ".join(categories))
        if scene.expand_by == "categories":
            reveal = _same_selection(valid, scene)
        elif valid or text:
            reveal = _best_new(text, valid, scene)
        else:
            reveal = Reveal(names=())
        if refused and scene.expandable is not None:
            return _partly_refused(reveal, refused, askable)
        return _answer(reveal, refused, askable)


def request_more_tools_schema(categories: Iterable[str]) -> dict[str, Any]:
    """Returns the function schema of `request_more_tools` in its exact form, with these categories sorted."""
    return wire_definition(_by_category(categories))


def _by_category(categories: Iterable[str]) -> Tool:
    """Returns the definition of the exact form: `categories` is required, and the description lists all of them."""
    listing = ", ".join(sorted(set(categories)))
    return meta_definition(
        REQUEST_MORE_TOOLS,
        "Request more tools",
        "Load the tools of further categories when the ones you have do not fit the task. "
        f"Available categories: {listing}.",
        {
            "categories": _strings("Categories to load, from the list above."),
            "reason": {"type": "string", "description": "Why they are needed."},
        },
        required=["categories"],
    )


def _by_query(categories: Iterable[str]) -> Tool:
    """Returns the definition of the default form. It lists the categories only if there are 2 to 40 of them."""
    names = sorted(set(categories))
    listing = f" Categories: {', '.join(names)}." if _MIN_LISTED <= len(names) <= _MAX_LISTED else ""
    return meta_definition(
        REQUEST_MORE_TOOLS,
        "Request more tools",
        "More tools exist than you were given. Call this when none of yours fits the task: say what you need in `query`, "
        f"or name `categories`. The tools found can be called from the next step on.{listing}",
        {
            "query": {"type": "string", "description": "What the tool should do, in a few words."},
            "categories": _strings("Categories to load tools from."),
            "reason": {"type": "string", "description": "Why they are needed."},
        },
        anyOf=[{"required": ["query"]}, {"required": ["categories"]}],
    )


def _strings(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _same_selection(categories: Sequence[str], scene: MetaScene) -> Reveal:
    """Returns the tools that a selection by these categories gives and the model does not have, as many as the provider's limit
    on tools allows."""
    if not categories:
        return Reveal(names=())
    selection = scene.selector.select(scene.view, SelectionQuery(categories=categories), scene.budget)
    active = {tool.name for tool in scene.delivered}
    new = [item for item in selection.tools if item.tool.name not in active]
    if scene.budget.provider_cap is not None:
        new = new[: max(0, scene.budget.provider_cap - scene.fixed_meta - len(active))]
    return _reveal(new)


def _best_new(text: str | None, categories: Sequence[str], scene: MetaScene) -> Reveal:
    """Returns the best tools that the model does not have. If the limits leave no room for them, all tools are selected again,
    and the new selection replaces the old one."""
    query = SelectionQuery(
        text=text or " ".join(categories),
        categories=categories or None,
        exclude=frozenset(tool.name for tool in scene.delivered) | frozenset(scene.known),
        fixed_count=scene.fixed_meta + len(scene.delivered),
        fixed_tokens=scene.fixed_tokens,
    )
    view = _askable_view(scene)
    selection = scene.selector.select(view, query, scene.budget)
    new = _new_tools(selection, query.exclude)
    if new and scene.sparing:
        least = _NEAR * max(item.score for item in new)
        new = [item for item in new if item.score >= least]
    if new or not any(drop.stage in ("provider_cap", "max_tokens") for drop in selection.dropped):
        return _reveal(new)
    fresh = SelectionQuery(
        text=query.text,
        categories=query.categories,
        pinned=scene.pinned,
        fixed_count=scene.fixed_meta,
        fixed_tokens=scene.meta_tokens,
        expandable=True,
    )
    return _reveal(_new_tools(scene.selector.select(view, fresh, scene.budget), frozenset()), replace=True)


def _askable_view(scene: MetaScene) -> View:
    """Returns a view of the tools that may be added and the tools that the model can call already."""
    if scene.expandable is None:
        return scene.view
    catalog, callable_names = (
        scene.view.catalog,
        {*(tool.name for tool in scene.delivered), *scene.known, *scene.pinned},
    )
    return scene.view.narrowed(
        [
            tool.category in scene.expandable or tool.name in callable_names or catalog.is_core(tool)
            for tool in catalog.tools
        ]
    )


def _new_tools(selection: Selection, exclude: frozenset[str]) -> list[SelectedTool]:
    """Returns the tools of a selection without those in `exclude`. If no tool matched, it returns none: the selection then has
    default tools, but the model asked for something in particular."""
    if selection.no_match:
        return []
    return [item for item in selection.tools if item.tool.name not in exclude]


def _reveal(tools: Sequence[SelectedTool], *, replace: bool = False) -> Reveal:
    """Returns these tools as a `Reveal`. `replace`: True if they replace all tools that the model has."""
    return Reveal(
        names=tuple(item.tool.name for item in tools),
        slim=tuple(item.tool.name for item in tools if item.slim),
        replace=replace and bool(tools),
    )


def _answer(reveal: Reveal, unknown: Sequence[str], askable: Sequence[str]) -> ToolResult:
    """Returns the result of a call, with the new tools and with the categories that do not exist. `askable`: the categories that
    the model may ask for."""
    if reveal.names:
        text = f"Loaded {len(reveal.names)} tools: {', '.join(reveal.names)}. You can call them now."
    else:
        text = "No new tools added: all that fits is loaded already, or nothing fits."
    if unknown:
        names = ", ".join(repr(name[:64]) for name in unknown[:10])
        text += f" Unknown categories: {names}. Known: {', '.join(sorted(askable)[:_MAX_SHOWN]) or 'none'}."
    return ToolResult(content=text, effect=reveal if reveal.names else None)


def _partly_refused(reveal: Reveal, refused: Sequence[str], askable: Sequence[str]) -> ToolResult:
    """Returns the result of a call that names categories for which the model may not ask. It lists the allowed categories."""
    result = _answer(reveal, (), askable)
    names = ", ".join(repr(name[:64]) for name in refused[:10])
    text = f"You cannot ask for {names} here. You can ask for: {', '.join(sorted(askable)[:_MAX_SHOWN]) or 'nothing'}."
    return replace(result, content=f"{result.text} {text}") if reveal.names else failed(text, "denied")
