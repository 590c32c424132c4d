"""The meta tools that a caller's model is offered. They depend on the categories it may ask for, so engines are kept by those."""

from __future__ import annotations

from dataclasses import dataclass

from toolcaddie.control.bots import Bots
from toolcaddie.core.catalog import View
from toolcaddie.core.control import Principal
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.schema import definition_tokens
from toolcaddie.engine.engine import Engine
from toolcaddie.meta.registry import offered_definitions
from toolcaddie.ports import MetaOffer
from toolcaddie.util.replacing import replace

_Key = tuple[tuple[str, ...], frozenset[str] | None]
"""The categories listed, and those that a model may ask for; None: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """An engine with its meta tools, and what these cost."""

    engine: Engine
    bare: Engine
    """The same without them."""
    tokens: int


class Offerings:
    """The offerings of one preset."""

    def __init__(self, engine: Engine, bots: Bots) -> None:
        self._engine = engine
        self._bots = bots
        self._made: dict[_Key, Offering] = {}

    def of(self, view: View, principal: Principal) -> Offering:
        names, expandable = view.category_names(), self._expandable(principal)
        return self._of(_common(names, expandable), expandable)

    def categories(self, view: View, principal: Principal) -> tuple[str, ...]:
        """Returns the visible categories that the model may ask for, in catalog order."""
        return _common(view.category_names(), self._expandable(principal))

    def resumed(self, categories: tuple[str, ...], principal: Principal) -> Engine:
        """Returns the engine of a run that began with these categories; what may be asked for is decided again."""
        return replace(self._of(categories, None).engine, expandable=self._expandable(principal))

    def _expandable(self, principal: Principal) -> frozenset[str] | None:
        return self._bots.expandable(principal, self._engine.preset.selection.expandable_categories)

    def _of(self, categories: tuple[str, ...], expandable: frozenset[str] | None) -> Offering:
        """Returns the offering for these categories. Without any, `request_more_tools` is not among the meta tools."""
        key = (categories, expandable)
        if key not in self._made:
            preset = self._engine.preset
            nothing = expandable is not None and not categories
            names = (name for name in preset.meta if not (nothing and name == REQUEST_MORE_TOOLS))
            offer = MetaOffer(categories=categories, expand_by=preset.expand_by, page_size=preset.page_size)
            offered = offered_definitions(names, offer, self._engine.meta_tools)
            engine = replace(self._engine, meta=offered, expandable=expandable)
            bare = replace(engine, meta={})
            self._made[key] = Offering(engine=engine, bare=bare, tokens=definition_tokens(offered.values()))
        return self._made[key]


def _common(names: tuple[str, ...], expandable: frozenset[str] | None) -> tuple[str, ...]:
    return names if expandable is None else tuple(name for name in names if name in expandable)
