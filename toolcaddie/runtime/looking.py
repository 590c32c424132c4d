"""Shows the tools that a request would get, and the reasons, without a request to a model. `Runtime.select`, `preview` and
`explain` use this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toolcaddie.core.catalog import View
from toolcaddie.core.delivery import Delivery
from toolcaddie.core.presets import Preset
from toolcaddie.core.run import RunRequest
from toolcaddie.core.selection import Selection, SelectionQuery
from toolcaddie.runtime.choosing import choose_now
from toolcaddie.runtime.planning import plan
from toolcaddie.runtime.searching import search_now
from toolcaddie.runtime.setups import Setups
from toolcaddie.runtime.views import Views
from toolcaddie.selection.explain import Explanation
from toolcaddie.selection.selector import Selector
from toolcaddie.util.replacing import replace

Preview = tuple[Selection, Delivery]
"""A selection, and the tool array made from it."""
Finder = tuple[Selector, Preset, Callable[[RunRequest], SelectionQuery]]
"""A selector, its preset, and the function from a request to its query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looking:
    """Computes the tools that requests would get."""

    setups: Setups
    views: Views
    clock: Callable[[], float]

    def select(self, request: RunRequest) -> Selection:
        """Returns the tools that a request would get."""
        view, setup = self.views.of(request), self.setups.of(request)
        return choose_now(search_now(request, view, setup), view, setup).selection

    def preview(self, request: RunRequest) -> Preview:
        """Returns the selection with every omitted tool, and the tool array that the model would receive at the beginning of a
        conversation."""
        view, setup = self.views.of(request), self.setups.of(request)
        search = search_now(request, view, setup)
        choice = choose_now(search, view, setup)
        delivery = plan(choice, request, view, None, now=self.clock())
        if setup.preset.exposure != "selected":
            return choice.selection, delivery
        dropped = setup.selector.dropped(view, search.query, setup.preset.budget)
        return replace(choice.selection, dropped=dropped), delivery

    def explain(self, name: str, request: RunRequest) -> Explanation:
        """Returns the reasons why a tool is selected or omitted for a request."""
        view, setup = self.views.of(request), self.setups.of(request)
        query = search_now(request, view, setup).query
        setup.vectors.prepare_now(view, query)
        return setup.selector.explain(view, query, setup.preset.budget, name)

    def finder(self, view: View) -> Finder:
        """Returns the selector, the preset and the function from request to query that serve requests without a preset of their
        own."""
        setup = self.setups.default
        return setup.selector, setup.preset, lambda request: search_now(request, view, setup).query
