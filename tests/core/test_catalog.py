"""A catalog is whole, checked and never changes; a view shows part of it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.errors import CatalogError, DuplicateToolError
from toolcaddie.core.tool import Tool

GYM = Catalog.of(
    [
        Tool(name="freeze", category="members", source="gym"),
        Tool(name="help", core=True),
        Tool(name="pay", category="salaries"),
        Tool(name="unfreeze", category="members"),
        Tool(name="clock", category="always"),
        Tool(name="loose"),
    ],
    [
        Category(name="always", core=True),
        Category(name="members", keywords=("freeze",), related=("salaries",)),
        Category(name="empty", default=True),
    ],
)


def test_tools_and_categories_are_found_by_name_and_keep_their_order() -> None:
    assert [tool.name for tool in GYM] == ["freeze", "help", "pay", "unfreeze", "clock", "loose"]
    assert len(GYM) == 6
    assert GYM.position("unfreeze") == 3
    assert GYM.get("pay") is GYM.tools[2]
    assert (GYM.get("nope"), GYM.position("nope"), GYM.category("nope")) == (None, None, None)
    assert GYM.positions_in("members") == (0, 3)
    assert GYM.positions_in("nope") == ()


def test_a_category_nobody_described_follows_the_described_ones_and_is_known_by_its_name() -> None:
    assert [category.name for category in GYM.categories] == ["always", "members", "empty", "salaries"]
    assert GYM.category("salaries") == Category(name="salaries", keywords=("salaries",))


def test_core_is_said_by_the_tool_or_by_its_category() -> None:
    assert [tool.name for tool in GYM if GYM.is_core(tool)] == ["help", "clock"]


def test_one_name_from_two_sources_is_refused_with_both() -> None:
    with pytest.raises(
        DuplicateToolError, match="tool 'x' comes from source 'a' and again from source 'b'; rename one"
    ):
        Catalog.of([Tool(name="x", source="a"), Tool(name="y"), Tool(name="x", source="b")])
    with pytest.raises(CatalogError, match="category 'c' is defined twice"):
        Catalog.of([], [Category(name="c"), Category(name="c")])


@pytest.mark.parametrize("name", ["", "a b", "a.b", "é", "x" * 65, "a\n", 5, None])
def test_a_name_no_provider_takes_is_refused_with_its_source(name: Any) -> None:
    with pytest.raises(
        CatalogError, match=r"of source 'gym': a name is 1 to 64 letters, digits, '_' or '-'; rename it"
    ):
        Catalog.of([Tool(name=name, source="gym")])


def test_the_name_of_a_clients_tool_is_for_its_provider_to_judge() -> None:
    assert Catalog.of([Tool(name="ns.a:b", source="client")], check_schemas=False).get("ns.a:b") is not None
    with pytest.raises(CatalogError, match="needs a name"):
        Catalog.of([Tool(name="", source="client")], check_schemas=False)


def test_schemas_are_checked_unless_the_tool_is_the_clients() -> None:
    bad = Tool(name="x", source="s", input_schema={"type": "array"})
    with pytest.raises(CatalogError, match="tool 'x' of source 's': the schema"):
        Catalog.of([bad])
    with pytest.raises(CatalogError, match="tool 'x' of source 's', output: "):
        Catalog.of([replace(bad, input_schema={}, output_schema={"type": 5})])
    assert len(Catalog.of([bad], check_schemas=False)) == 1


@pytest.mark.parametrize("schema", [{"default": object()}, {"description": "\ud800"}])
def test_a_definition_that_is_no_json_is_named(schema: dict[str, Any]) -> None:
    with pytest.raises(CatalogError, match=r"tool 'x'.* is not JSON"):
        Catalog.of([Tool(name="ok"), Tool(name="x", input_schema=schema)])
    with pytest.raises(CatalogError, match="tool 'x': the definition is not JSON"):
        Catalog.of([Tool(name="ok"), Tool(name="x", input_schema=schema)], check_schemas=False)


def test_the_version_is_the_content_in_its_order() -> None:
    tools = [Tool(name="a", input_schema={"type": "object", "title": "x"}), Tool(name="b")]
    same = Catalog.of([replace(tool) for tool in tools])
    assert Catalog.of(tools).version == same.version
    assert (
        Catalog.of([replace(tools[0], input_schema={"title": "x", "type": "object"}), tools[1]]).version == same.version
    )
    different = [
        Catalog.of(tools[::-1]),
        Catalog.of(tools[:1]),
        Catalog.of(tools, [Category(name="c")]),
        Catalog.of([replace(tools[0], description="new"), tools[1]]),
        Catalog.of([replace(tools[0], hints=("new",)), tools[1]]),
    ]
    assert len({each.version for each in different} | {same.version}) == 6


def test_nothing_in_a_catalog_can_be_set() -> None:
    for thing, name in (
        (GYM, "tools"),
        (GYM.tools[0], "name"),
        (GYM.categories[0], "core"),
        (View(catalog=GYM), "mask"),
    ):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, name, None)


def test_a_view_without_a_mask_shows_everything() -> None:
    view = View(catalog=GYM)
    assert len(view) == 6
    assert list(view) == list(GYM)
    assert view.get("pay") is GYM.get("pay")
    assert view.category_names() == ("members", "salaries")


def test_a_hidden_tool_leaves_no_trace_in_a_view() -> None:
    view = View(catalog=GYM, mask=np.array([True, True, False, False, True, True]))
    assert [tool.name for tool in view] == ["freeze", "help", "clock", "loose"]
    assert len(view) == 4
    assert (view.get("pay"), view.get("nope")) == (None, None)
    assert view.positions_in("members") == (0,)
    assert view.category_names() == ("members",)


@given(st.lists(st.booleans(), min_size=6, max_size=6), st.lists(st.booleans(), min_size=6, max_size=6))
def test_narrowing_shows_what_both_masks_show(first: list[bool], second: list[bool]) -> None:
    narrowed = View(catalog=GYM, mask=np.array(first)).narrowed(np.array(second))
    both = [tool.name for tool, one, two in zip(GYM, first, second, strict=True) if one and two]
    assert [tool.name for tool in narrowed] == both
    assert len(narrowed) == len(both)
    assert [tool.name for tool in View(catalog=GYM).narrowed(np.array(second))] == [
        tool.name for tool, two in zip(GYM, second, strict=True) if two
    ]


NO_TOOL: Any = "freeze"


@pytest.mark.parametrize(
    "changed",
    [
        lambda: Catalog.of([*GYM.tools, NO_TOOL], before=GYM),
        lambda: GYM.with_tools([NO_TOOL]),
        lambda: GYM.with_tools([NO_TOOL], removed=["freeze"]),
    ],
)
def test_a_change_refuses_what_is_no_tool(changed: Any) -> None:
    with pytest.raises(CatalogError, match="is a str, not a Tool"):
        changed()


def test_a_change_refuses_a_replacement_that_is_given_twice() -> None:
    freeze = Tool(name="freeze", category="members", source="club")
    with pytest.raises(DuplicateToolError, match="'freeze'"):
        GYM.with_tools([freeze, freeze], removed=["freeze"])
