"""The rules of allotment on a thousand random catalogs and budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.errors import BudgetError
from toolcaddie.core.message import Message
from toolcaddie.core.presets import SelectionSettings
from toolcaddie.core.schema import canonical_json, estimate_tokens, wire_definition
from toolcaddie.core.selection import Budget, DroppedTool, Selection, SelectionQuery
from toolcaddie.core.tool import Tool
from toolcaddie.selection.selector import Selector

WORDS = ("freeze", "list", "order", "invoice", "room", "report")
GROUPS = ("apples", "pears", "plums", "figs", "dates")
ALLOTTED = frozenset({"quota", "max_tools", "provider_cap", "max_tokens"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    view: View
    query: SelectionQuery
    budget: Budget
    rankers: tuple[str, ...]


def _tool(number: int, parts: tuple[str | None, str, str, bool, int]) -> Tool:
    category, verb, thing, core, length = parts
    return Tool(
        name=f"{verb}_{thing}_{number}",
        description=f"{verb} {thing} " + "with care. " * length,
        input_schema={"type": "object", "title": "t" * length, "properties": {}},
        category=category,
        core=core,
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    parts = st.tuples(
        st.sampled_from((None, *GROUPS)),
        st.sampled_from(WORDS),
        st.sampled_from(WORDS),
        st.sampled_from((False,) * 7 + (True,)),
        st.integers(0, 40),
    )
    tools = [_tool(number, each) for number, each in enumerate(draw(st.lists(parts, max_size=30)))]
    related = {name: tuple(draw(st.sets(st.sampled_from(GROUPS), max_size=1))) for name in GROUPS}
    categories = [
        Category(name=name, keywords=(name,), related=related[name], default=name == "figs") for name in GROUPS
    ]
    mask = draw(st.none() | st.lists(st.booleans(), min_size=len(tools), max_size=len(tools)))
    said = " ".join(draw(st.lists(st.sampled_from((*WORDS, *GROUPS)), max_size=6)))
    exclude = draw(st.sets(st.sampled_from([tool.name for tool in tools]), max_size=3)) if tools else set()
    return Case(
        view=View(
            catalog=Catalog.of(tools, categories, check_schemas=False),
            mask=None if mask is None else np.array(mask, dtype=np.bool_),
        ),
        query=SelectionQuery(
            messages=[Message(role="user", content=said)],
            categories=draw(st.none() | st.lists(st.sampled_from((*GROUPS, "nowhere")), max_size=4)),
            exclude=frozenset(exclude),
            fixed_count=draw(st.integers(0, 4)),
            fixed_tokens=draw(st.integers(0, 100)),
            expandable=draw(st.booleans()),
        ),
        budget=Budget(
            max_tools=draw(st.none() | st.integers(0, 12)),
            provider_cap=draw(st.none() | st.integers(1, 30)),
            max_tokens=draw(st.none() | st.integers(0, 1500)),
            policy=draw(st.sampled_from(("proportional", "fair", "ranked"))),
            redistribute=draw(st.booleans()),
            reserve_tools=draw(st.integers(0, 4)),
        ),
        rankers=draw(st.sampled_from((("categories",), ("categories", "bm25"), ("bm25",), ()))),
    )


@pytest.mark.proves("R001-1")
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases())
def test_the_rules_of_allotment_hold_for_any_catalog_and_budget(case: Case) -> None:
    selector = Selector(SelectionSettings(rankers=case.rankers))
    core = [tool for tool in case.view if tool.core and tool.name not in case.query.exclude]
    try:
        selection = selector.select(case.view, case.query, case.budget)
    except BudgetError:
        assert _core_alone_is_over(core, case)
        return
    dropped = selector.dropped(case.view, case.query, case.budget)
    _nothing_is_over_a_limit(selection, case)
    _core_is_there_and_nobody_twice(selection, dropped, core, case)
    _no_place_is_wasted(selection, dropped, case)
    if case.budget.policy == "fair":
        _nobody_starves(selection, dropped, case)


def _size(tool: Tool, *, slim: bool) -> int:
    return estimate_tokens(canonical_json(wire_definition(tool, slim=slim)))


def _smallest(tool: Tool) -> int:
    return min(_size(tool, slim=False), _size(tool, slim=True))


def _tokens(selection: Selection) -> int:
    return sum(_size(chosen.tool, slim=chosen.slim) for chosen in selection.tools)


def _core_alone_is_over(core: Sequence[Tool], case: Case) -> bool:
    cap, tokens = case.budget.provider_cap, case.budget.max_tokens
    over_cap = cap is not None and len(core) + case.query.fixed_count > cap
    over_tokens = tokens is not None and sum(map(_smallest, core)) + case.query.fixed_tokens > tokens
    return bool(core) and (over_cap or over_tokens)


def _nothing_is_over_a_limit(selection: Selection, case: Case) -> None:
    ordinary = [chosen for chosen in selection.tools if not chosen.core]
    assert selection.tokens_selected == _tokens(selection)
    assert case.budget.max_tools is None or len(ordinary) <= case.budget.max_tools
    if selection.tools and case.budget.provider_cap is not None:
        assert len(selection.tools) + case.query.fixed_count <= case.budget.provider_cap
    if selection.tools and case.budget.max_tokens is not None:
        assert _tokens(selection) + case.query.fixed_tokens <= case.budget.max_tokens


def _core_is_there_and_nobody_twice(
    selection: Selection, dropped: Sequence[DroppedTool], core: Sequence[Tool], case: Case
) -> None:
    assert selection.names[: len(core)] == tuple(tool.name for tool in core)
    told = [*selection.names, *(drop.name for drop in dropped)]
    assert len(told) == len(set(told))
    assert set(told) == {tool.name for tool in case.view} - case.query.exclude


def _no_place_is_wasted(selection: Selection, dropped: Sequence[DroppedTool], case: Case) -> None:
    """Count alone binds: min(max_tools, candidates). Tokens or cap bind: nothing left out still fits, slimmed."""
    cut = ("quota", "max_tools") if case.budget.policy == "proportional" else ()
    lost = [drop for drop in dropped if drop.stage in ALLOTTED and drop.stage not in cut]
    ordinary = [chosen for chosen in selection.tools if not chosen.core]
    places = _places(selection, case)
    if not any(drop.stage == "max_tokens" for drop in lost):
        assert len(ordinary) == (
            len(ordinary) + len(lost) if places is None else min(places, len(ordinary) + len(lost))
        )
    elif places is None or len(ordinary) < places:
        assert case.budget.max_tokens is not None
        reserve = case.budget.reserve_tokens if case.query.expandable else 0.0
        left = int(case.budget.max_tokens * (1 - reserve)) - case.query.fixed_tokens - _tokens(selection)
        for drop in lost:
            tool = case.view.get(drop.name)
            assert tool is not None
            assert _smallest(tool) > left


def _places(selection: Selection, case: Case) -> int | None:
    """How many tools beside the core ones count and cap allow; None: any number."""
    limits = [] if case.budget.max_tools is None else [case.budget.max_tools]
    if case.budget.provider_cap is not None:
        core = sum(chosen.core for chosen in selection.tools)
        reserve = case.budget.reserve_tools if case.query.expandable and selection.dropped else 0
        limits.append(max(0, case.budget.provider_cap - case.query.fixed_count - core - reserve))
    return min(limits, default=None)


def _nobody_starves(selection: Selection, dropped: Sequence[DroppedTool], case: Case) -> None:
    if {drop.stage for drop in dropped} & {"provider_cap", "max_tokens"}:
        return
    if case.budget.max_tools is None or len(selection.matched) <= case.budget.max_tools:
        assert selection.starved == ()


@settings(max_examples=300, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=10),
    max_tools=st.integers(1, 30),
    redistribute=st.booleans(),
)
@pytest.mark.proves("R000-3", "R000-8", "R000-9", "R000-42")
def test_proportional_is_the_formula_of_source_000(sizes: list[int], max_tools: int, redistribute: bool) -> None:
    names = [f"group{number}" for number in range(len(sizes))]
    members = {name: [f"{name}_{i}" for i in range(size)] for name, size in zip(names, sizes, strict=True)}
    tools = [Tool(name=tool, category=name) for name in names for tool in members[name]]
    view = View(catalog=Catalog.of(tools, check_schemas=False))
    budget = Budget(max_tools=max_tools, policy="proportional", redistribute=redistribute, provider_cap=None)
    selector = Selector(SelectionSettings(rankers=("categories",), whole_if_it_fits=False))
    found = selector.select(view, SelectionQuery(categories=names), budget).names

    quota = max(2, max_tools // len(names))
    expected = [tool for name in names for tool in members[name][:quota]]
    if redistribute:
        left = [tool for name in names for tool in members[name][quota:]]
        expected += left[: max(0, max_tools - len(expected))]
        assert len(found) == min(max_tools, len(tools))
    assert sorted(found) == sorted(expected[:max_tools])
    if not redistribute:
        assert list(found) == expected[:max_tools]
