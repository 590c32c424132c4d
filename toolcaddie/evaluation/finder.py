"""The configuration that `assess` measures: a selector with its preset over one catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import Message
from toolcaddie.core.presets import Preset
from toolcaddie.core.run import RunRequest
from toolcaddie.core.selection import SelectedTool, Selection, SelectionQuery
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.evaluation.fit import Case, case_of
from toolcaddie.selection.scores import weights_of
from toolcaddie.selection.search import Ranked
from toolcaddie.selection.selector import Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetFinder:
    """Selects and ranks tools as a preset does. Implements `assess.Finder`.

    A preset that finds tools by categories only does not rank them; its ranking is the order in which the tools are sent.
    """

    name: str
    view: View
    selector: Selector
    preset: Preset
    query: Callable[[RunRequest], SelectionQuery]
    """Returns the selector's query for a request. The query says how many places of the budget meta tools take."""

    @property
    def catalog(self) -> Catalog:
        return self.view.catalog

    def select(self, messages: Sequence[Message]) -> Selection:
        return self.selector.select(self.view, self.query(RunRequest(messages=messages)), self.preset.budget)

    def ranked(self, messages: Sequence[Message], limit: int) -> Ranked:
        """Returns at most `limit` tools for a conversation, the best first, and the score of the best one. Without a ranking,
        that score is 1 if something matched, else 0."""
        query = self.query(RunRequest(messages=messages))
        if any(name != "categories" for name in self.preset.selection.rankers):
            return self.selector.ranked(self.view, query, limit)
        selection = self.selector.select(self.view, query, self.preset.budget)
        tools: Sequence[SelectedTool] = () if selection.no_match else selection.tools
        return Ranked(tools=tuple(tool for tool in tools if not tool.core)[:limit], fit=float(not selection.no_match))

    def cases(
        self,
        requests: Sequence[LabelledRequest],
        *,
        on_progress: Callable[[int, int], None] = lambda count, total: None,
    ) -> tuple[list[Case], dict[str, float]]:
        """Returns the arguments of `fit.fitted`: a case for each request that some tool fits, and the present weights.

        `on_progress` gets the number of requests so far and of all. Raises `ConfigError` if the preset has no weights.
        """
        if not any(name != "categories" for name in self.preset.selection.rankers):
            raise ConfigError(
                f"preset {self.preset.name!r} finds tools by categories only, so it has no weights to fit; choose another preset"
            )
        cases: list[Case] = []
        start: dict[str, float] = {}
        fitting = [request for request in requests if request.gold]
        for number, request in enumerate(fitting, start=1):
            signals = self.selector.signals(self.view, self.query(RunRequest(messages=request.messages)))
            start = start or weights_of(signals, self.preset.selection.weights)
            places = [place for name in request.gold if (place := self.catalog.position(name)) is not None]
            missing = len(request.gold) - len(places)
            cases.append(case_of(signals.by_ranker, signals.own_weights, places, missing, request.group))
            on_progress(number, len(fitting))
        return cases, start
