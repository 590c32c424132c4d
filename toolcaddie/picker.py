"""Selection for applications with a loop of their own: from many tools to the few that fit.

picker = Picker.of(all_my_tools)
picked = picker.pick(messages, max_tools=24)
client.chat.completions.create(model=model, messages=messages, tools=picked.definitions)
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie import learning
from toolcaddie.audit.redact import redact_text
from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.errors import CatalogError, ConfigError, RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.presets import SIGNALS, SelectionSettings
from toolcaddie.core.schema import wire_definition
from toolcaddie.core.selection import Budget, DroppedTool, SelectedTool, Selection, SelectionQuery
from toolcaddie.core.tool import JsonObject, Tool
from toolcaddie.embedders.prepared import Prepared
from toolcaddie.inputs.parts import check_parts, embedder_from, tools_from
from toolcaddie.inputs.requests import messages_from
from toolcaddie.learning.co_use import CoUse
from toolcaddie.ports import Embedder, RankerFactory, RemoteEmbedder
from toolcaddie.selection.query import query_words
from toolcaddie.selection.rankers import embedding, static
from toolcaddie.selection.selector import Selector
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import close_names

_EMBEDDING = "embedding"
_IN_REPR = 5
"""Number of tools that the `repr` of a result names."""
_FIRST_FIT = 30
"""Number of learned requests after which a picker first fits the weight of its experience."""
_GROWTH = 1.5
"""Factor by which the number of learned requests has to grow until the weight is fitted again."""

Messages = str | Message | JsonObject | Sequence[Message | JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTool:
    """A selected tool, with its score and the reasons for its selection."""

    name: str
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Picked:
    """The tools that fit a request. `definitions` can be passed to the provider as `tools`."""

    definitions: list[dict[str, Any]]
    selection: Selection
    """The whole selection, as a `Runtime` records it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of `definitions`."""
        return self.selection.names

    @property
    def ranking(self) -> tuple[RankedTool, ...]:
        """The tools, the best first, with scores and reasons."""
        ordered = sorted(self.selection.tools, key=_score, reverse=True)
        return tuple(RankedTool(name=one.tool.name, score=one.score, reasons=tuple(one.reasons)) for one in ordered)

    @property
    def dropped(self) -> tuple[DroppedTool, ...]:
        """The best of the dropped tools, with the stage that dropped each."""
        return tuple(self.selection.dropped)

    def __repr__(self) -> str:
        best = ", ".join(f"{one.name} {one.score:.2f}" for one in self.ranking[:_IN_REPR])
        more = ", ..." if len(self.names) > _IN_REPR else ""
        return f"Picked({len(self.names)} of {self.selection.catalog_size} tools: {best}{more})"


class Picker:
    """A catalog and a selector. Make one with `Picker.of` and keep it; it may be used and changed by many threads."""

    def __init__(self, catalog: Catalog, selector: Selector, *, experience: learning.Experience | None = None) -> None:
        self.selector = selector
        self._catalog = catalog  # replaced, never changed: a selection in progress keeps its catalog
        self._changing = threading.Lock()
        self._experience = experience
        self._next_fit = _FIRST_FIT

    def __repr__(self) -> str:
        return f"Picker({len(self._catalog)} tools)"

    @classmethod
    def of(
        cls,
        tools: Any,
        categories: Iterable[Category] = (),
        *,
        settings: SelectionSettings | None = None,
        embedder: Embedder | str | None = None,
        experience: learning.Experience | None = None,
    ) -> Picker:
        """Makes a picker. `tools` is a `ToolSource`, or a list of functions, `Tool`s and definitions in OpenAI's function format,
        which may be mixed. Definitions are returned exactly as they were passed. A `ToolSource` has its own categories.

        `embedder` adds ranking by meaning; it computes in this process, or is the name of an installed one, such as "minilm".
        The first `pick` then waits for the vectors of all tools. `experience` stores the requests passed to `learn`, and the
        tools called for them.

        Raises `CatalogError` for a value that is not a tool, with its position, and for a name used twice; `ConfigError`.
        """
        check_parts(experience=experience)
        read, own_categories = tools_from(tools)
        catalog = Catalog.of(read, (*own_categories, *categories), check_schemas=False)
        return cls(catalog, _selector(settings, embedder_from(embedder), experience), experience=experience)

    @property
    def catalog(self) -> Catalog:
        """The current tools."""
        return self._catalog

    def pick(
        self,
        messages: Messages,
        *,
        max_tools: int | None = 24,
        max_tokens: int | None = None,
        provider_cap: int | None = 128,
        exclude: Iterable[str] = (),
    ) -> Picked:
        """Returns the tools for a message, or for the last message of a conversation (`Message`s or OpenAI's dicts).

        If nothing fits (`picked.selection.no_match`), the result contains the tools of the default categories. It is empty if the
        catalog has no default categories; in that case omit `tools` from your request.

        `max_tools` limits the selected tools without core tools, `provider_cap` all of them, and `max_tokens` the estimated
        tokens of all definitions together. `exclude` omits tools that were sent before.
        """
        if isinstance(exclude, str) or not isinstance(exclude, Iterable):
            raise RequestError(f"exclude takes names in a list or set: [{exclude!r}]", param="exclude")
        for name, limit in (("max_tools", max_tools), ("max_tokens", max_tokens), ("provider_cap", provider_cap)):
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
                raise RequestError(f"{name} is {limit!r}; give 0 or more, or None for no limit", param=name)
        query = SelectionQuery(messages=messages_from(messages), exclude=frozenset(exclude))
        budget = Budget(max_tools=max_tools, max_tokens=max_tokens, provider_cap=provider_cap)
        selection = self.selector.select(View(catalog=self._catalog), query, budget)
        definitions = [wire_definition(selected.tool, slim=selected.slim) for selected in selection.tools]
        return Picked(definitions=definitions, selection=selection)

    def add(self, *tools: Any) -> None:
        """Adds tools in the forms that `of` accepts. Raises `CatalogError`, or `DuplicateToolError` for a name that exists; in
        that case nothing is added."""
        read, _ = tools_from(tools)
        with self._changing:
            self._catalog = self._catalog.with_tools(read, check_schemas=False)

    def remove(self, *names: str) -> None:
        """Removes tools by name. Raises `CatalogError` for a name that does not exist; in that case nothing is removed."""
        with self._changing:
            for name in names:
                self._tool(name, CatalogError)
            self._catalog = self._catalog.with_tools(removed=names, check_schemas=False)

    def learn(self, messages: Messages, called: Iterable[str]) -> None:
        """Learns that these tools served this request. Some calls take longer, because they fit the weight of the experience.
        Secrets in the text are not stored. Raises `ConfigError` without an experience."""
        if self._experience is None:
            raise ConfigError(
                "this picker cannot learn, because it has no experience; write Picker.of(tools, experience=Experience())"
            )
        names = [called] if isinstance(called, str) else list(called)
        tools = tuple(learning.called(self._tool(name, RequestError)) for name in names)
        settings = self.selector.settings
        redacted = [Message(role=one.role, content=redact_text(one.text)) for one in messages_from(messages)]
        words = query_words(SelectionQuery(messages=redacted), window=settings.window, window_user=settings.window_user)
        self._experience.add(learning.LogEntry(words=words, tools=tools, at=self._experience.now()))
        if self._experience.due or self._experience.learned >= self._next_fit:
            self._next_fit = int(max(self._experience.learned, _FIRST_FIT) * _GROWTH)
            self._experience.settle()
            learning.refit(self._experience, self.selector, self._catalog)

    def _tool(self, name: str, kind: type[CatalogError] | type[RequestError]) -> Tool:
        tool = self._catalog.get(name) if isinstance(name, str) else None
        if tool is None:
            close = close_names(name, (each.name for each in self._catalog), limit=1) if isinstance(name, str) else []
            raise kind(f"there is no tool {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        return tool


def _score(one: SelectedTool) -> float:
    return one.score


def _selector(
    settings: SelectionSettings | None,
    embedder: Embedder | RemoteEmbedder | None,
    experience: learning.Experience | None,
) -> Selector:
    if isinstance(embedder, RemoteEmbedder):
        raise ConfigError(
            f"embedder: {embedder.name!r} sends requests to a server, which a picker cannot do; pass an embedder that computes "
            "in this process, such as 'minilm', or use Runtime(...).select"
        )
    chosen = SelectionSettings() if settings is None else settings
    if not isinstance(chosen, SelectionSettings):
        raise ConfigError(f"settings must be SelectionSettings(...), not a {type(chosen).__name__}")
    rankers: dict[str, RankerFactory] = {}
    names = tuple(chosen.rankers)
    if embedder is not None:
        prepared = Prepared(embedder)
        rankers |= static.with_embedder(prepared, embedding.factory(prepared))
        names = SIGNALS[_EMBEDDING] if names == SIGNALS["plain"] else tuple(dict.fromkeys((*names, _EMBEDDING)))
        if experience is not None:
            experience.compare_by(prepared)
    if experience is not None:
        rankers[learning.NAME] = learning.factory(experience)
        names = (*(name for name in names if name != learning.NAME), learning.NAME)
    return Selector(replace(chosen, rankers=names), rankers, co_used=None if experience is None else CoUse(experience))
