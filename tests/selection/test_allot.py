"""Who gets a place: source 000's table row by row, the two other policies, caps and tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toolcaddie.core.errors import BudgetError
from toolcaddie.core.presets import preset
from toolcaddie.core.schema import canonical_json, estimate_tokens, wire_definition
from toolcaddie.core.selection import Budget, SelectionQuery
from toolcaddie.core.tool import Tool

NAMES = [f"c{i}" for i in range(10)]


def _named(select: Any, view: Any, categories: list[str], **changes: Any) -> Any:
    return select(view, using="budget", query=SelectionQuery(categories=categories), **changes)


@pytest.mark.proves("R000-3", "R000-5", "R000-6", "R000-7", "R000-8", "R000-45")
@pytest.mark.parametrize(
    ("count", "quota", "returned", "starved"),
    [(1, 8, 8, 0), (2, 4, 8, 0), (3, 2, 6, 0), (4, 2, 8, 0), (5, 2, 8, 1), (6, 2, 8, 2), (8, 2, 8, 4), (10, 2, 8, 6)],
)
def test_the_budget_table_of_source_000(view_of, select, count, quota, returned, starved):
    """Categories of ten tools under a budget of 8: quota max(2, 8 // N), cut to 8."""
    view = view_of(dict.fromkeys(NAMES, 10))
    selection = _named(select, view, NAMES[:count])
    expected = [f"{name}_{i}" for name in NAMES[:count] for i in range(quota)][:8]
    assert list(selection.names) == expected
    assert len(selection.tools) == returned
    assert len(selection.starved) == starved


@pytest.mark.proves("R000-4")
def test_the_budget_is_eight_and_leaves_meta_tools_out_of_account(view_of, select):
    view = view_of({"a": 20})
    assert len(select(view, using="budget", query=SelectionQuery(categories=["a"], fixed_count=1)).tools) == 8


@pytest.mark.proves("R000-39")
def test_another_budget_is_one_parameter(view_of, select):
    assert len(_named(select, view_of({"a": 20}), ["a"], max_tools=11).tools) == 11


def test_a_budget_of_one_still_gives_one(view_of, select):
    assert _named(select, view_of({"a": 5, "b": 5}), ["a", "b"], max_tools=1).names == ("a_0",)


@pytest.mark.proves("R000-9")
def test_what_a_small_category_leaves_is_not_given_to_others(view_of, select):
    selection = _named(select, view_of({"a": 1, "b": 9}), ["a", "b"])
    assert selection.names == ("a_0", "b_0", "b_1", "b_2", "b_3")
    assert {drop.stage for drop in selection.dropped} == {"quota"}


@pytest.mark.proves("R000-10")
def test_a_big_first_category_does_not_eat_the_second(view_of, select):
    names = _named(select, view_of({"A": 10, "B": 7}), ["A", "B"]).names
    assert [name[0] for name in names] == ["A"] * 4 + ["B"] * 4


@pytest.mark.proves("R000-1", "R000-11")
def test_categories_come_in_the_order_given_and_tools_in_catalog_order(view_of, select):
    selection = _named(select, view_of({"a": 9, "b": 9}), ["b", "a"])
    assert selection.names == ("b_0", "b_1", "b_2", "b_3", "a_0", "a_1", "a_2", "a_3")


@pytest.mark.proves("R000-12")
def test_a_tool_that_is_not_available_uses_no_quota(view_of, select):
    view = view_of({"a": 9, "b": 9})
    mask = [tool.name not in ("a_0", "a_2") for tool in view.catalog]
    selection = _named(select, view.narrowed(np.array(mask)), ["a", "b"])
    assert selection.names == ("a_1", "a_3", "a_4", "a_5", "b_0", "b_1", "b_2", "b_3")


@pytest.mark.proves("R000-13")
def test_a_category_named_twice_counts_once(view_of, select):
    selection = _named(select, view_of({"a": 9, "b": 9}), ["a", "b", "a"])
    assert selection.names == ("a_0", "a_1", "a_2", "a_3", "b_0", "b_1", "b_2", "b_3")


@pytest.mark.proves("R000-14", "R000-35")
@pytest.mark.parametrize("categories", [["nowhere"], ["nowhere", "neither"], []])
def test_unknown_or_no_categories_give_nothing(view_of, select, categories):
    selection = _named(select, view_of({"a": 9}, default=["a"]), categories)
    assert selection.tools == ()
    assert selection.no_match


def test_an_unknown_category_beside_a_known_one_is_ignored(view_of, select):
    assert len(_named(select, view_of({"a": 9}), ["nowhere", "a"]).tools) == 8


@pytest.mark.proves("R000-36")
def test_what_was_sent_before_keeps_its_place_in_the_quota_and_is_not_chosen_again(view_of, select):
    view = view_of({"a": 10})
    sent = frozenset(f"a_{i}" for i in range(4))
    selection = select(view, using="budget", query=SelectionQuery(categories=["a"], exclude=sent))
    assert selection.names == ("a_4", "a_5", "a_6", "a_7")


@pytest.mark.proves("R000-42")
@pytest.mark.parametrize(
    ("sizes", "expected"),
    [({"a": 1, "b": 9}, 8), ({"a": 1, "b": 3}, 4), ({"a": 10, "b": 10, "c": 10}, 8), ({"a": 1, "b": 1, "c": 20}, 8)],
)
def test_redistribution_fills_the_budget_or_empties_the_categories(view_of, select, sizes, expected):
    assert len(_named(select, view_of(sizes), list(sizes), redistribute=True).tools) == expected


@pytest.mark.proves("R000-44")
def test_eight_is_what_the_preset_of_source_000_ships():
    assert preset("budget").budget.max_tools == 8


def test_fair_leaves_no_matched_category_without_a_tool(view_of, select):
    view = view_of(dict.fromkeys(("apples", "pears", "plums"), 30))
    selection = select(view, "apples apples apples, and pears, and plums", max_tools=4)
    assert {name.split("_")[0] for name in selection.names} == {"apples", "pears", "plums"}
    assert selection.starved == ()


def test_fair_says_who_was_starved_when_there_are_more_categories_than_places(view_of, select):
    view = view_of(dict.fromkeys(NAMES, 3))
    selection = select(view, " ".join(NAMES), max_tools=4)
    assert len(selection.tools) == 4
    assert len(selection.starved) == 6


def test_ranked_serves_the_best_and_starves_a_category_if_need_be(view_of, select):
    others = [Tool(name=f"peel_{i}", description="Peel apples", category="apples") for i in range(6)]
    view = view_of({"apples": 6, "pears": 6}, others=others)
    said = "peel apples, peel pears"
    assert set(select(view, said, policy="ranked", max_tools=6).names) == {tool.name for tool in others}
    assert select(view, said, policy="ranked", max_tools=6).starved == ("pears",)
    assert select(view, said, policy="fair", max_tools=6).starved == ()


def test_core_tools_are_outside_max_tools_and_first(view_of, select):
    selection = select(view_of({"a": 40}, core=3), "a", using="keyword", max_tools=5)
    assert selection.names == ("core_0", "core_1", "core_2", "a_0", "a_1", "a_2", "a_3", "a_4")
    assert [chosen.core for chosen in selection.tools] == [True] * 3 + [False] * 5


def test_core_tools_over_the_cap_are_refused_by_name(view_of, select):
    with pytest.raises(BudgetError, match=r"core_0, core_1.*5 others that must be sent.*cap of 6"):
        select(view_of({"a": 4}, core=2), query=SelectionQuery(text="a", fixed_count=5), provider_cap=6)


def test_core_tools_over_the_tokens_are_refused_by_name(view_of, select):
    with pytest.raises(BudgetError, match=r"core_0.*max_tokens of 10"):
        select(view_of({"a": 4}, core=1), "a", max_tokens=10)


def _wordy(name: str, *, long: bool = True) -> Tool:
    text = "Finds an apple. " + "It does so with great care and at length. " * (30 if long else 0)
    schema = {"type": "object", "properties": {"kind": {"type": "string", "title": "Kind", "examples": ["red"] * 40}}}
    return Tool(name=name, description=text, input_schema=schema, category="apple")


def _tokens(selection: Any) -> int:
    return sum(
        estimate_tokens(canonical_json(wire_definition(chosen.tool, slim=chosen.slim))) for chosen in selection.tools
    )


def test_schemas_are_slimmed_before_a_tool_is_dropped(view_of, select):
    view = view_of({}, others=[_wordy(f"apple_{i}") for i in range(6)])
    everything = select(view, "apple")
    assert len(everything.tools) == 6
    assert not any(chosen.slim for chosen in everything.tools)
    squeezed = select(view, "apple", max_tokens=everything.tokens_selected - 1)
    assert len(squeezed.tools) == 6
    assert all(chosen.slim for chosen in squeezed.tools)
    assert _tokens(squeezed) == squeezed.tokens_selected < everything.tokens_selected == _tokens(everything)


def test_what_is_too_long_is_passed_over_for_the_next_that_fits(view_of, select):
    long = Tool(
        name="apple_apple",
        description="apple",
        input_schema={"type": "object", "properties": {f"field_{i}": {"type": "string"} for i in range(80)}},
    )
    short = Tool(name="sort_fruit", description="Sorts every apple and pear of the whole big orchard by size")
    selection = select(view_of({}, others=[long, short]), "apple", max_tokens=100)
    assert selection.names == ("sort_fruit",)
    assert [(drop.name, drop.stage) for drop in selection.dropped] == [("apple_apple", "max_tokens")]


def test_a_reserve_is_kept_only_where_more_tools_can_be_requested(view_of, select, asked):
    view = view_of({"a": 200})
    plain = select(view, query=asked("a", fixed_count=4), max_tools=None)
    assert len(plain.tools) == 124
    expandable = select(view, query=asked("a", fixed_count=4, expandable=True), max_tools=None)
    assert len(expandable.tools) == 108
    half = plain.tokens_selected // 2
    tokens = select(view, query=asked("a", expandable=True), max_tools=None, max_tokens=half)
    assert tokens.tokens_selected <= half * 0.75


def test_a_pinned_tool_is_chosen_whatever_it_scores_and_uses_a_place(view_of, select, asked):
    view = view_of({"a": 20, "b": 20})
    selection = select(view, query=asked("a", pinned=["b_7"]), max_tools=4)
    assert "b_7" in selection.names
    assert len(selection.tools) == 4


def test_a_budget_without_any_limit_takes_every_candidate(view_of, select):
    assert len(select(view_of({"a": 300}), "a", max_tools=None, provider_cap=None).tools) == 300


def test_budgets_shown_to_users_keep_their_defaults():
    assert (Budget().max_tools, Budget().provider_cap, Budget().policy) == (24, 128, "fair")
