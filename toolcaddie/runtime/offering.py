"""Makes the meta tools that a caller's model is offered. Their definitions list the categories that the model may ask for, so an
engine is made and cached for each set of categories."""

from __future__ import annotations

from dataclasses import dataclass

from toolcaddie.control.bots import Bots
from toolcaddie.core.catalog import View
from toolcaddie.core.control import Principal
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS, RUN_PROGRAM
from toolcaddie.core.schema import definition_tokens
from toolcaddie.engine.engine import Engine
from toolcaddie.meta.registry import offered_definitions
from toolcaddie.ports import MetaOffer
from toolcaddie.util.replacing import replace

_Key = tuple[tuple[str, ...], frozenset[str] | None]
"""The listed categories, and the categories that a model may ask for; None: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """An engine with the meta tools that it offers, and the tokens that these take."""

    engine: Engine
    bare: Engine
    """The same engine without meta tools that find tools."""
    tokens: int
    """Tokens of the definitions of the meta tools."""


class Offerings:
    """Makes and caches the offerings of one preset."""

    def __init__(self, engine: Engine, bots: Bots) -> None:
        self._engine = engine
        self._bots = bots
        self._made: dict[_Key, Offering] = {}

    def of(self, view: View, principal: Principal) -> Offering:
        """Returns the offering for the tools that a principal may see."""
        names, expandable = view.category_names(), self._expandable(principal)
        return self._of(_common(names, expandable), expandable)

    def categories(self, view: View, principal: Principal) -> tuple[str, ...]:
        """Returns the visible categories that the model may ask for, in catalog order."""
        return _common(view.category_names(), self._expandable(principal))

    def resumed(self, categories: tuple[str, ...], principal: Principal) -> Engine:
        """Returns the engine of a run that began with these categories. The categories that its model may ask for are determined
        again, because the principal's permissions may have changed."""
        return replace(self._of(categories, None).engine, expandable=self._expandable(principal))

    def _expandable(self, principal: Principal) -> frozenset[str] | None:
        return self._bots.expandable(principal, self._engine.preset.selection.expandable_categories)

    def _of(self, categories: tuple[str, ...], expandable: frozenset[str] | None) -> Offering:
        """Returns the offering for these categories. If the model may ask for none, `request_more_tools` is not offered."""
        key = (categories, expandable)
        if key not in self._made:
            preset = self._engine.preset
            nothing = expandable is not None and not categories
            names = (name for name in preset.meta if not (nothing and name == REQUEST_MORE_TOOLS))
            offer = MetaOffer(categories=categories, expand_by=preset.expand_by, page_size=preset.page_size)
            offered = offered_definitions(names, offer, self._engine.meta_tools)
            engine = replace(self._engine, meta=offered, expandable=expandable)
            bare = replace(engine, meta={name: tool for name, tool in offered.items() if name == RUN_PROGRAM})
            self._made[key] = Offering(engine=engine, bare=bare, tokens=definition_tokens(offered.values()))
        return self._made[key]


def _common(names: tuple[str, ...], expandable: frozenset[str] | None) -> tuple[str, ...]:
    return names if expandable is None else tuple(name for name in names if name in expandable)
