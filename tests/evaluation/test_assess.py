"""The figures of an assessment, against values computed by hand, and the words of a comparison."""

from __future__ import annotations

import pytest

from toolcaddie.core.catalog import Catalog, Category
from toolcaddie.core.message import Message
from toolcaddie.core.schema import definition_tokens
from toolcaddie.core.tool import Tool
from toolcaddie.evaluation.assess import Assessed, Compared, Outcome, figure_of
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.evaluation.measure import DEPTH
from toolcaddie.evaluation.metrics import Estimate

CATALOG = Catalog.of(
    [
        Tool(name="a", category="x"),
        Tool(name="b", category="x", description="A longer description than those of the others."),
        Tool(name="c", category="y"),
        Tool(name="d"),
    ],
    [Category(name="x"), Category(name="y")],
)


def request(text: str, *gold: str, earlier: int = 0) -> LabelledRequest:
    messages = [Message(role="user", content=f"earlier {number}") for number in range(earlier)]
    return LabelledRequest(messages=(*messages, Message(role="user", content=text)), gold=frozenset(gold), group=text)


def outcome(*names: str, sent: tuple[str, ...] = (), fit: float = 0.0, nothing: bool = False) -> Outcome:
    return Outcome(names=names, fit=fit, nothing=nothing, sent_names=sent, tokens=10 * len(sent), seconds=0.001)


def assessed(*pairs: tuple[LabelledRequest, Outcome], catalog: Catalog = CATALOG, name: str = "default") -> Assessed:
    return Assessed(
        name=name,
        catalog=catalog,
        requests=tuple(request for request, _ in pairs),
        outcomes=tuple(outcome for _, outcome in pairs),
    )


SERVED = (request("one", "a"), outcome("a", "b", sent=("a",), fit=0.9))
HALF = (request("two", "b", "c", earlier=1), outcome("a", "b", sent=("b", "c"), fit=0.5))
MISSED = (request("three", "c"), outcome(nothing=True))
UNSERVED = (request("four"), outcome("d", sent=("d",), fit=0.2))
CAUGHT = (request("five"), outcome(nothing=True))
ALL = assessed(SERVED, HALF, MISSED, UNSERVED, CAUGHT)


def test_figures_count_only_requests_that_some_tool_fits() -> None:
    assert [each.messages[-1].text for each in ALL.fitting] == ["one", "two", "three"]
    assert ALL.values("recall@1") == [1.0, 0.0, 0.0]
    assert ALL.values("recall@5") == [1.0, 0.5, 0.0]
    assert ALL.values("complete@5") == [1.0, 0.0, 0.0]
    assert ALL.metrics["recall@5"].value == 0.5


def test_what_is_sent_is_complete_if_it_is_exactly_the_right_tools() -> None:
    assert ALL.values("recall@sent") == [1.0, 1.0, 0.0]
    assert ALL.values("complete@sent") == [1.0, 1.0, 0.0]
    more = assessed((request("one", "a"), outcome(sent=("a", "b"))), (request("two", "a", "b"), outcome(sent=("a",))))
    assert more.values("complete@sent") == [1.0, 0.0]
    assert more.values("recall@sent") == [1.0, 0.5]


def test_the_tokens_of_a_request_are_the_mean_over_all_of_them() -> None:
    assert ALL.tokens.value == (10 + 20 + 0 + 10 + 0) / 5
    assert ALL.tokens_all == definition_tokens(CATALOG)


def test_nothing_fits_is_measured_on_both_kinds_of_requests() -> None:
    no_fit = ALL.no_fit
    assert no_fit.auroc is not None
    assert no_fit.false_nothing is not None
    assert no_fit.caught is not None
    assert no_fit.auroc.value == pytest.approx(4.5 / 6)  # of six pairs four are in order, and one is even
    assert no_fit.false_nothing.value == pytest.approx(1 / 3)
    assert no_fit.caught.value == 0.5
    false, caught = zip(*ALL.roc(), strict=True)
    assert false == pytest.approx((0, 0, 1 / 3, 1 / 3, 2 / 3, 1))
    assert caught == pytest.approx((0, 0, 1 / 2, 1, 1, 1))


@pytest.mark.parametrize("pairs", [(SERVED, MISSED), (UNSERVED, CAUGHT)])
def test_requests_of_one_kind_show_nothing_about_the_other(
    pairs: tuple[tuple[LabelledRequest, Outcome], ...],
) -> None:
    one_kind = assessed(*pairs)
    assert one_kind.no_fit.auroc is None
    assert one_kind.roc() == []
    assert (one_kind.no_fit.caught is None) == (pairs[0] is SERVED)
    assert (one_kind.no_fit.false_nothing is None) == (pairs[0] is UNSERVED)


def test_curves_rise_with_the_places_looked_at() -> None:
    recalls = [estimate.value for estimate in ALL.recall_curve()]
    assert recalls == pytest.approx([1 / 3, *[1 / 2] * (DEPTH - 1)])
    cost = {tool.name: definition_tokens((tool,)) for tool in CATALOG}
    first, second = (2 * cost["a"] + cost["d"]) / 5, 2 * cost["b"] / 5
    assert ALL.tokens_curve() == pytest.approx([first, *[first + second] * (DEPTH - 1)])


def test_recall_by_category_names_the_category_with_the_most_requests_first() -> None:
    categories = assessed(MISSED, SERVED, HALF, (request("six", "d"), outcome("d"))).by_category()
    assert [(name, count, value.value) for name, (count, value) in categories.items()] == [
        ("x", 2, 0.75),
        ("y", 1, 0.0),
        ("", 1, 1.0),
    ]


def test_recall_by_kind_tells_conversations_and_several_tools_apart() -> None:
    assert {name: (count, value.value) for name, (count, value) in ALL.by_kind().items()} == {
        "one tool, first message": (2, 0.5),
        "several tools, in a conversation": (1, 0.5),
    }


def test_the_worst_requests_come_first_and_those_served_in_full_not_at_all() -> None:
    late = (request("late", "a", "d"), outcome("b", "c", "a"))
    both = assessed(SERVED, late, HALF, MISSED)
    assert [worst.messages[-1].text for worst, _ in both.misses(10)] == ["three", "late", "two"]
    assert [worst.messages[-1].text for worst, _ in both.misses(1)] == ["three"]
    assert list(assessed(SERVED).misses(10)) == []


def test_recall_is_measured_at_any_number_of_places() -> None:
    assert figure_of("recall@2")(("b", "a", "c"), frozenset({"a", "c"})) == 0.5
    for name in ("recall@0", "recall@x", "recall", f"recall@{DEPTH + 1}", "precision@2"):
        with pytest.raises(KeyError):
            figure_of(name)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.1, 0.2, "new is better than old"),
        (-0.2, -0.1, "new is worse than old"),
        (0.0, 0.0, "new and old are the same"),
        (0.0, 0.2, "undecided between new and old"),
        (-0.2, 0.0, "undecided between new and old"),
    ],
)
def test_a_comparison_is_decided_only_by_an_interval_beside_zero(low: float, high: float, words: str) -> None:
    difference = Estimate(value=(low + high) / 2, low=low, high=high)
    assert Compared(metric="recall@5", name="new", than="old", difference=difference).verdict == words
