"""Small catalogs and short ways to ask them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.message import Message, Role
from toolcaddie.core.presets import SelectionSettings, preset
from toolcaddie.core.selection import Budget, Selection, SelectionQuery
from toolcaddie.core.tool import Tool
from toolcaddie.selection.selector import Selector

MakeView = Callable[..., View]
Asked = Callable[..., SelectionQuery]
Select = Callable[..., Selection]


@pytest.fixture
def view_of() -> MakeView:
    """A view of `sizes[category]` tools a category, named CATEGORY_0 ..., after `core` core tools, before `others`."""

    def make(
        sizes: Mapping[str, int],
        *,
        core: int = 0,
        keywords: Mapping[str, Sequence[str]] | None = None,
        related: Mapping[str, Sequence[str]] | None = None,
        default: Sequence[str] = (),
        others: Sequence[Tool] = (),
    ) -> View:
        tools = [Tool(name=f"core_{i}", core=True) for i in range(core)]
        tools += [Tool(name=f"{name}_{i}", category=name) for name, size in sizes.items() for i in range(size)]
        categories = [
            Category(
                name=name,
                keywords=tuple((keywords or {}).get(name, (name,))),
                related=tuple((related or {}).get(name, ())),
                default=name in default,
            )
            for name in sizes
        ]
        return View(catalog=Catalog.of([*tools, *others], categories))

    return make


@pytest.fixture
def asked() -> Asked:
    """A query of messages: a plain text is the user's, (role, text) is anybody's."""

    def make(*said: str | tuple[Role, str], **more: Any) -> SelectionQuery:
        messages = [
            Message(role="user", content=each) if isinstance(each, str) else Message(role=each[0], content=each[1])
            for each in said
        ]
        return SelectionQuery(messages=messages, **more)

    return make


@pytest.fixture
def select(asked: Asked) -> Select:
    """Select by a preset, with changes to its settings and budget by their field names."""

    def run(
        view: View, *said: Any, using: str = "default", query: SelectionQuery | None = None, **changes: Any
    ) -> Selection:
        chosen = preset(using)
        settings = {name: changes.pop(name) for name in tuple(changes) if name in SelectionSettings.__slots__}
        selector = Selector(_with(chosen.selection, settings), core=changes.pop("core", chosen.core_first))
        budget: Budget = _with(chosen.budget, changes)
        return selector.select(view, query if query is not None else asked(*said), budget)

    return run


def _with(value: Any, changes: Mapping[str, Any]) -> Any:
    return type(value)(**{name: changes.get(name, getattr(value, name)) for name in value.__slots__})
