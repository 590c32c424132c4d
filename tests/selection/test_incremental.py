"""A catalog that follows another is selected from as one made anew, and costs what changed."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.errors import CatalogError, DuplicateToolError
from toolcaddie.core.message import Message
from toolcaddie.core.presets import SIGNALS, SelectionSettings
from toolcaddie.core.selection import Budget, QueryWords, Selection, SelectionQuery
from toolcaddie.core.tool import Tool
from toolcaddie.ports import Ranking
from toolcaddie.selection.index.change import CatalogChange
from toolcaddie.selection.selector import Selector

WORDS = tuple("freeze freezing list order orders invoice room rooms report cliente pedido 会员 冻结 the a of".split())  # noqa: SIM905
GROUPS = (None, "apples", "pears", "plums")
DESCRIBED = (Category(name="pears", keywords=("pear", "room"), related=("plums",)), Category(name="unused"))
OTHERWISE = (DESCRIBED[0], Category(name="unused too"))
"""Another catalog for whoever keeps what belongs to a version, and no other for a selection."""
BUDGET = Budget(max_tools=4)
SETTINGS = SelectionSettings(rankers=("categories", "bm25", "characters", "mentions"), whole_if_it_fits=False)

words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(tuple)
parts = st.tuples(words, words, st.sampled_from(GROUPS), st.sampled_from((False, False, False, True)))


def _tool(number: int, part: tuple[Sequence[str], Sequence[str], str | None, bool]) -> Tool:
    name, said, category, core = part
    plain = "_".join(word for word in name if word.isascii()) or "tool"
    needs = {"type": "object", "properties": {f"{name[0]}_id": {"type": "string"}}, "required": [f"{name[0]}_id"]}
    return Tool(name=f"{plain}_{number}", description=" ".join(said), category=category, core=core, input_schema=needs)


def _asked(text: str) -> SelectionQuery:
    return SelectionQuery(messages=[Message(role="user", content=text)])


def _told(selection: Selection) -> tuple[object, ...]:
    """All that is seen of a selection but the scores and the time it took."""
    tools = [(chosen.tool.name, chosen.reasons, chosen.core) for chosen in selection.tools]
    dropped = [(lost.name, lost.stage, lost.detail) for lost in selection.dropped]
    numbers = selection.catalog_size, selection.tokens_all, selection.tokens_selected
    return tools, dropped, selection.categories, selection.matched, selection.no_match, selection.starved, numbers


def _assert_same(one: Selection, other: Selection) -> None:
    assert _told(one) == _told(other)
    scores = [
        [*(chosen.score for chosen in each.tools), *(lost.score for lost in each.dropped)] for each in (one, other)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1.01e-4)  # they are told to four places


@settings(max_examples=40, deadline=None)
@given(
    first=st.lists(parts, min_size=1, max_size=12),
    steps=st.lists(st.tuples(st.sampled_from(("add", "remove", "replace")), parts, st.integers(0, 1_000)), max_size=25),
    said=words,
    hidden=st.integers(0, 7),
)
def test_after_any_changes_the_same_tools_are_found_for_the_same_reasons(first, steps, said, hidden):
    catalog, query = (
        Catalog.of([_tool(number, part) for number, part in enumerate(first)], DESCRIBED),
        _asked(" ".join(said)),
    )
    following = Selector(SETTINGS)
    for number, (what, part, place) in enumerate(steps, start=len(first)):
        following.select(View(catalog=catalog), query, BUDGET)
        name = catalog.tools[place % len(catalog)].name if len(catalog) else None
        if what == "add" or name is None:
            catalog = catalog.with_tools([_tool(number, part)])
        elif what == "remove":
            catalog = catalog.with_tools(removed=[name])
        else:
            catalog = catalog.with_tools([replace(_tool(number, part), name=name)], removed=[name])
    assert [catalog.position(tool.name) for tool in catalog] == list(range(len(catalog)))
    same = Catalog.of(catalog.tools, DESCRIBED)
    assert (catalog.version, catalog.categories) == (same.version, same.categories)
    assert catalog.category_of == same.category_of
    anew = Catalog.of(catalog.tools, OTHERWISE)
    mask = np.array([at % 8 != hidden for at in range(len(catalog))], dtype=np.bool_)
    for seen in (None, mask):
        _assert_same(
            following.select(View(catalog=catalog, mask=seen), query, BUDGET),
            Selector(SETTINGS).select(View(catalog=anew, mask=seen), query, BUDGET),
        )


@settings(max_examples=100, deadline=None)
@given(
    first=st.lists(parts, max_size=10),
    added=st.lists(parts, max_size=5),
    kept=st.lists(st.booleans(), min_size=10, max_size=10),
    order=st.randoms(use_true_random=False),
)
def test_a_catalog_made_with_one_before_it_is_the_one_made_anew(first, added, kept, order):
    tools = [_tool(number, part) for number, part in enumerate(first)]
    before = Catalog.of(tools, DESCRIBED)
    after = [tool for tool, stays in zip(tools, kept, strict=False) if stays]
    after += [_tool(number, part) for number, part in enumerate(added, start=len(first))]
    order.shuffle(after)
    described = DESCRIBED[: order.randint(0, 2)]
    anew, following = Catalog.of(after, described), Catalog.of(after, described, before=before)
    assert following.version == anew.version
    assert following.tools == anew.tools
    assert following.categories == anew.categories
    assert [following.position(tool.name) for tool in after] == list(range(len(after)))
    assert all(following.positions_in(each.name) == anew.positions_in(each.name) for each in anew.categories)
    assert [name for name in (tool.name for tool in tools) if following.position(name) != anew.position(name)] == []
    change = CatalogChange.between(before, following)
    described_alike = {each.name for each in anew.categories if before.category(each.name) == each} | {None}
    for position, origin in enumerate(change.origin.tolist()):
        assert (after[position] in tools and after[position].category in described_alike) == (origin >= 0)
        assert origin < 0 or before.tools[origin] == after[position]


def test_hundreds_of_changes_in_a_row_leave_no_more_behind_than_the_catalog_is_large():
    choose = random.Random(4)
    tools = [
        _tool(number, (choose.choices(WORDS, k=3), choose.choices(WORDS, k=4), None, False)) for number in range(40)
    ]
    catalog, following = Catalog.of(tools), Selector(SETTINGS)
    for number in range(300):
        unique = "".join(choose.choices(string.ascii_lowercase, k=12))
        gone = choose.choice(catalog.tools).name
        catalog = catalog.with_tools([Tool(name=f"{unique}_{number}", description=unique)], removed=[gone])
        following.select(View(catalog=catalog), _asked(f"{unique} room"), BUDGET)
    postings = following._indexes.of(catalog).ranker("bm25").postings
    assert len(postings.term_index.terms) < 200
    assert len(postings.vocabulary) < 400
    query, anew = _asked(catalog.tools[7].description), Catalog.of(catalog.tools, OTHERWISE[1:])
    _assert_same(
        following.select(View(catalog=catalog), query, BUDGET),
        Selector(SETTINGS).select(View(catalog=anew), query, BUDGET),
    )


@pytest.mark.parametrize("rankers", ["lexical", "plain"])
def test_a_large_catalog_is_scored_as_one_made_anew_after_many_changes(rankers: str):
    choose = random.Random(5)
    nouns = ["".join(choose.choices(string.ascii_lowercase, k=6)) for _ in range(400)]
    verbs = ("get", "list", "delete", "send", "update", "find")

    def tool(number: int) -> Tool:
        verb, one, other = choose.choice(verbs), choose.choice(nouns), choose.choice(nouns)
        texts = f"{verb.title()}s the {one} of a customer, with the {other} that the invoice names."
        return Tool(name=f"{verb}_{one}_{number}", description=texts if number % 9 else texts.replace("the", "el"))

    settings_of_all = SelectionSettings(rankers=SIGNALS[rankers], whole_if_it_fits=False)
    catalog, following = Catalog.of([tool(number) for number in range(2_500)]), Selector(settings_of_all)
    for number in range(2_500, 2_600):
        following.select(View(catalog=catalog), _asked("send the invoice"), BUDGET)
        catalog = catalog.with_tools([tool(number)], removed=[choose.choice(catalog.tools).name])
    anew = Selector(settings_of_all)
    asked = [f"please {choose.choice(verbs)} the {choose.choice(nouns)} of the customer" for _ in range(30)]
    for text in (*asked, "borra la factura del cliente por favor"):
        one, other = (each.search(View(catalog=catalog), text, 50) for each in (following, anew))
        scores = [{hit.tool.name: hit.score for hit in each} for each in (one, other)]
        common = scores[0].keys() & scores[1].keys()
        assert len(common) >= 0.9 * len(other)  # of the last ones, many are nearly equal
        assert [scores[0][name] for name in common] == pytest.approx([scores[1][name] for name in common], abs=3e-4)
        assert [hit.tool.name for hit in one][:1] == [hit.tool.name for hit in other][:1]


def test_an_added_tool_takes_the_place_of_the_one_it_replaces_and_others_come_last():
    catalog = Catalog.of([Tool(name="a"), Tool(name="b"), Tool(name="c")])
    changed = catalog.with_tools([Tool(name="d"), Tool(name="b", description="new")], removed=["a", "b"])
    assert [tool.name for tool in changed] == ["b", "c", "d"]
    assert changed.get("b").description == "new"
    assert [tool.name for tool in catalog] == ["a", "b", "c"]


def test_what_cannot_be_added_or_removed_is_refused_by_name():
    catalog = Catalog.of([Tool(name="a", source="one")])
    with pytest.raises(DuplicateToolError, match="'a' comes from source 'one' and again from source 'two'"):
        catalog.with_tools([Tool(name="a", source="two")])
    with pytest.raises(DuplicateToolError, match="'b'"):
        catalog.with_tools([Tool(name="b"), Tool(name="b")])
    with pytest.raises(CatalogError, match="no tool 'z' to remove"):
        catalog.with_tools(removed=["z"])
    with pytest.raises(CatalogError, match="letters, digits"):
        catalog.with_tools([Tool(name="not a name")])


def test_tools_that_are_made_anew_with_the_same_words_are_the_same():
    one = Catalog.of([Tool(name=f"tool_{number}") for number in range(8)])
    other = Catalog.of([Tool(name=f"tool_{number}") for number in (0, 1, 9, 3, 4, 5, 6, 7, 8)])
    change = CatalogChange.between(one, other)
    assert change.origin.tolist() == [0, 1, -1, 3, 4, 5, 6, 7, -1]
    assert change.added.tolist() == [2, 8]
    assert change.removed.tolist() == [2]


class Counting:
    """A stranger's ranker that follows changes."""

    name = "counting"

    def __init__(self, catalog: Catalog, lengths: np.ndarray) -> None:
        self.catalog, self.lengths = catalog, lengths

    def rank(self, words: QueryWords, visible):
        return Ranking(scores=self.lengths)


def test_a_ranker_that_can_follow_is_asked_to_where_few_tools_differ():
    made: list[str] = []

    def factory(catalog: Catalog, previous: Counting | None = None) -> Counting:
        if previous is None:
            made.append("anew")
            return Counting(catalog, np.array([len(tool.name) for tool in catalog.tools], dtype=np.float32))
        change = CatalogChange.between(previous.catalog, catalog)
        made.append(f"{len(change.added)} new, {len(change.removed)} gone")
        lengths = previous.lengths[change.origin]
        lengths[change.added] = [len(catalog.tools[at].name) for at in change.added]
        return Counting(catalog, lengths)

    selector = Selector(SelectionSettings(rankers=("counting",), whole_if_it_fits=False), {"counting": factory})
    catalog = Catalog.of([Tool(name="x" * (number + 1)) for number in range(20)])
    few = catalog.with_tools([Tool(name="y" * 40)], removed=["xxx"])
    others = Catalog.of([Tool(name="z" * (number + 1)) for number in range(20)])
    best = [
        selector.select(View(catalog=each), _asked("anything"), Budget(max_tools=1)).names
        for each in (catalog, few, others)
    ]
    assert made == ["anew", "1 new, 1 gone", "anew"]
    assert best == [("x" * 20,), ("y" * 40,), ("z" * 20,)]


def test_a_category_that_is_described_otherwise_is_read_anew():
    tools = [Tool(name=f"tool_{number}", category="garden" if number < 3 else None) for number in range(20)]
    selector = Selector(SETTINGS)
    names = []
    for keyword in ("flowers", "vegetables"):
        catalog = Catalog.of(tools, [Category(name="garden", keywords=(keyword,))])
        names.append(
            [selector.select(View(catalog=catalog), _asked(said), BUDGET).matched for said in ("flowers", "vegetables")]
        )
    assert names == [[("garden",), ()], [(), ("garden",)]]
