"""Deliveries of single plans: the array, the note that explains it, the priced options and the expected bill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from toolcaddie.core.capabilities import CacheRule, Capabilities, Prices
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryPlan
from toolcaddie.core.errors import BudgetError
from toolcaddie.core.selection import Budget, SelectedTool, Selection
from toolcaddie.core.tool import Tool
from toolcaddie.delivery.planner import DeliveryPlanner
from toolcaddie.util.replacing import replace

PRICES = Prices(input=3.0, cached=0.3, written=3.75, output=15.0)
CACHED = Capabilities(cache=CacheRule(kind="automatic", minimum=10, lifetime=300.0), prices=PRICES)
MASKED = replace(CACHED, mask="allowed_tools")
META = (Tool(name="request_more_tools", description="Finds more tools."),)

TOOLS = tuple(Tool(name=f"tool_{n:02}", description="does something " * 5) for n in range(30))
CATALOG = Catalog.of(TOOLS)


def names(*numbers: int) -> list[str]:
    return [f"tool_{n:02}" for n in numbers]


def plan(
    *selected: int, sent: Sequence[int] = (), view: Catalog = CATALOG, cap: int | None = None, **changes: Any
) -> DeliveryPlan:
    """A plan in which these tools of the catalog fit, all equally well, and those of `sent` were sent before."""
    selection = Selection(
        tools=tuple(SelectedTool(tool=TOOLS[n], score=1.0) for n in selected),
        catalog_size=len(view),
        tokens_all=1_000,
    )
    values: dict[str, Any] = {
        "view": View(catalog=view),
        "selection": selection,
        "delivered": [DeliveredTool(name=name) for name in names(*sent)],
        "meta": META,
        "budget": Budget(provider_cap=cap),
        "capabilities": CACHED,
        "history": 5_000 if sent else 0,
        "fresh": 50,
        "lasting": True,
    }
    return DeliveryPlan(**{**values, **changes})


def array(delivery: Delivery) -> list[str]:
    return [tool.name for tool in delivery.tools]


def test_the_first_delivery_of_a_conversation_is_the_selection() -> None:
    delivery = DeliveryPlanner(mode="direct").plan_first(plan(3, 4, 5))
    assert array(delivery) == names(3, 4, 5)
    assert delivery.reused
    assert delivery.note == "first delivery of this conversation: 3 tools"


def test_later_tools_are_added_at_the_end_and_the_note_counts_them() -> None:
    delivery = DeliveryPlanner(mode="direct").plan_first(plan(3, 4, 9, sent=[5, 4]))
    assert array(delivery) == names(5, 4, 3, 9)
    assert delivery.reused
    assert delivery.note == "2 tools sent before kept in place, 2 added at the end"


def test_tools_that_are_gone_leave_the_array_and_the_note_counts_them() -> None:
    view = Catalog.of(TOOLS[:10])
    delivery = DeliveryPlanner(mode="direct").plan_first(plan(3, view=view, sent=[5, 20, 21]))
    assert array(delivery) == names(5, 3)
    assert not delivery.reused
    assert delivery.note == "2 tools sent before are gone; 1 kept, 1 added"


def test_an_array_that_outgrows_the_cap_is_rebuilt_from_the_selection() -> None:
    delivery = DeliveryPlanner(mode="direct").plan_first(plan(1, 2, 3, sent=[4, 5], cap=5))
    assert array(delivery) == names(1, 2, 3)
    assert not delivery.reused
    assert delivery.note == "rebuilt with 3 tools: 3 more did not fit; re-bills the cached prefix"


def test_without_a_selection_earlier_tools_are_cut_to_those_that_fit() -> None:
    delivery = DeliveryPlanner(mode="direct").plan_first(plan(sent=[4, 5, 6, 7], cap=3))
    assert array(delivery) == names(4, 5)
    assert delivery.note == "cut to the 2 tools that still fit"


def test_a_first_selection_over_the_cap_is_refused_with_both_limits() -> None:
    with pytest.raises(BudgetError, match=r"4 tools with \d+ tokens .* 3 tools and None tokens"):
        DeliveryPlanner(mode="direct").plan_first(plan(1, 2, 3, cap=3))


def test_tools_that_fit_into_a_cached_array_are_added_to_it_at_the_price_of_the_conversation() -> None:
    delivery = DeliveryPlanner(mode="auto").plan_first(plan(1, 2, sent=[4, 5], cap=5))
    assert array(delivery) == names(4, 5, 1, 2)
    assert delivery.note == "2 tools sent before kept in place, 2 added at the end"
    (option,) = delivery.options
    assert (option.name, option.strategy, option.tools, option.rebilled) == ("added by array", "direct", 5, 5_000)


def test_a_cached_array_that_stays_is_not_billed_again() -> None:
    delivery = DeliveryPlanner(mode="auto").plan_first(plan(4, 5, sent=[4, 5]))
    assert delivery.note == "2 tools sent before kept in place, 0 added at the end"
    (option,) = delivery.options
    assert (option.rebilled, option.expected) == (0, 0.0)
    assert delivery.bill is not None
    assert (delivery.bill.read, delivery.bill.written) == (delivery.tokens + 5_000, 50)


def test_a_cached_array_with_tools_that_are_gone_is_billed_again() -> None:
    view = Catalog.of(TOOLS[:10])
    delivery = DeliveryPlanner(mode="auto").plan_first(plan(4, view=view, sent=[4, 5, 20]))
    assert array(delivery) == names(4, 5)
    assert not delivery.reused
    assert delivery.note == "1 tools sent before are gone; 2 kept, 0 added"
    assert [option.rebilled for option in delivery.options] == [5_000]


def test_a_cached_array_without_space_for_more_is_rebuilt_and_the_conversation_billed_again() -> None:
    delivery = DeliveryPlanner(mode="auto").plan_first(plan(1, 2, 3, sent=[4, 5], cap=5))
    assert array(delivery) == names(1, 2, 3)
    (option,) = delivery.options
    assert (option.name, option.tools, option.rebilled) == ("the selection", 4, 5_000)
    assert delivery.bill is not None
    assert delivery.bill.read == 0


@pytest.mark.parametrize(
    ("cap", "tools", "strategy"),
    [(6, names(4, 5, 1, 2), "masked"), (5, names(4, 5, 1, 2), "masked"), (4, names(1, 2), "direct")],
)
def test_a_masked_array_widens_while_it_fits_and_is_then_rebuilt(cap: int, tools: list[str], strategy: str) -> None:
    request = plan(1, 2, sent=[4, 5], cap=cap, capabilities=MASKED, allowed=names(4))
    delivery = DeliveryPlanner(mode="masked").plan_first(request)
    assert (array(delivery), delivery.strategy) == (tools, strategy)
    assert [option.strategy for option in delivery.options] == [strategy]
    if strategy == "masked":
        assert delivery.allowed == ("request_more_tools", *names(4, 1, 2))
        assert not delivery.reused
        assert delivery.options[0].rebilled == 5_000


def test_a_masked_array_that_has_all_that_fits_is_reused() -> None:
    request = plan(5, sent=[4, 5], capabilities=MASKED, allowed=names(4))
    delivery = DeliveryPlanner(mode="masked").plan_first(request)
    assert delivery.reused
    assert delivery.allowed == ("request_more_tools", *names(4, 5))
    assert delivery.options[0].rebilled == 0


@pytest.mark.parametrize(
    ("capabilities", "strategy", "tools"), [(MASKED, "masked", len(TOOLS) + 1), (CACHED, "direct", len(TOOLS))]
)
def test_the_option_of_all_tools_has_the_strategy_that_sends_them(
    capabilities: Capabilities, strategy: str, tools: int
) -> None:
    delivery = DeliveryPlanner(mode="auto").plan_first(plan(1, 2, 3, capabilities=capabilities))
    options = {option.name: option for option in delivery.options}
    assert (options["all tools"].strategy, options["all tools"].tools) == (strategy, tools)


def test_a_cache_of_kind_none_is_no_cache_whatever_its_lifetime() -> None:
    uncached = replace(CACHED, cache=CacheRule(kind="none", minimum=10, lifetime=300.0))
    delivery = DeliveryPlanner(mode="auto").plan_first(plan(1, 2, sent=[4, 5], capabilities=uncached))
    assert array(delivery) == names(1, 2)
    assert delivery.note == "nothing of this conversation is cached any more: 2 tools, the selection"
    assert delivery.bill is not None
    assert (delivery.bill.read, delivery.bill.written) == (0, 0)
    assert delivery.bill.plain == delivery.tokens + 5_050
    assert delivery.bill.dollars == pytest.approx(delivery.bill.plain * 3.0 / 1_000_000)


def test_a_request_shorter_than_the_cache_minimum_is_billed_as_plain_input() -> None:
    long_minimum = replace(CACHED, cache=CacheRule(kind="automatic", minimum=100_000, lifetime=300.0))
    bill = DeliveryPlanner(mode="auto").plan_first(plan(4, 5, sent=[4, 5], capabilities=long_minimum)).bill
    assert bill is not None
    assert (bill.read, bill.written) == (0, 0)
    assert bill.plain > 5_050


def test_without_prices_a_bill_has_tokens_and_no_dollars() -> None:
    delivery = DeliveryPlanner(mode="auto").plan_first(plan(4, sent=[4, 5], capabilities=replace(CACHED, prices=None)))
    assert delivery.bill is not None
    assert delivery.bill.read > 5_000
    assert delivery.bill.dollars is None
    assert [option.dollars for option in delivery.options] == [None]


def test_a_round_of_a_run_without_a_settled_strategy_sends_the_same_array_and_says_why() -> None:
    delivery = DeliveryPlanner(mode="auto").plan_next(plan(1, 2, sent=[4, 5], known=names(7)), None)
    assert array(delivery) == names(4, 5)
    assert (delivery.strategy, delivery.note) == ("direct", "as before the run paused")
    assert (delivery.later_by, delivery.tokens_all, delivery.reused) == ("array", 1_000, True)


def test_tools_announced_behind_the_conversation_count_in_the_tokens_of_a_round() -> None:
    planner = DeliveryPlanner(mode="auto")
    without, one, unknown = (
        planner.plan_next(plan(1, sent=[4, 5], known=known), None) for known in ([], names(7), ["gone"])
    )
    size = without.tokens - planner.plan_next(plan(1, sent=[4]), None).tokens
    assert one.tokens == without.tokens + size
    assert unknown.tokens == without.tokens


@pytest.mark.parametrize(("idle", "is_cached"), [(None, True), (299.0, True), (300.0, False)])
def test_a_conversation_is_cached_until_its_lifetime_is_over(idle: float | None, is_cached: bool) -> None:
    delivery = DeliveryPlanner(mode="auto").plan_first(plan(1, sent=[4, 5], idle=idle))
    assert (array(delivery) == names(4, 5, 1)) is is_cached
    assert delivery.bill is not None
    assert (delivery.bill.read > 0) is is_cached


@pytest.mark.parametrize(("more", "is_read"), [(0, True), (1, False)])
def test_a_prefix_of_the_minimum_is_read_from_the_cache_and_a_shorter_one_is_not(more: int, is_read: bool) -> None:
    planner = DeliveryPlanner(mode="auto")
    prefix = planner.plan_first(plan(4, sent=[4, 5])).tokens + 5_000
    rule = CacheRule(kind="automatic", minimum=prefix + more, lifetime=300.0)
    bill = planner.plan_first(plan(4, sent=[4, 5], capabilities=replace(CACHED, cache=rule))).bill
    assert bill is not None
    assert (bill.read, bill.written) == ((prefix, 50) if is_read else (0, prefix + 50))


EXECUTE = Tool(name="execute_tool", description="Calls a tool by its name.")
READ_ON = Tool(name="read_result", description="Reads more of a result.")


@pytest.mark.parametrize(("lasting", "meta"), [(False, (*META, EXECUTE)), (True, META)])
def test_a_conversation_begins_with_a_few_tools_only_if_more_can_join_behind_it_later(
    lasting: bool, meta: Sequence[Tool]
) -> None:
    few = plan(*range(20), cap=25, meta=(*META, EXECUTE))
    delivery = DeliveryPlanner(mode="auto").plan_first(few)
    assert [option.name for option in delivery.options] == ["the best of the selection", "the selection"]
    assert len(delivery.tools) == 12
    delivery = DeliveryPlanner(mode="auto").plan_first(replace(few, lasting=lasting, meta=meta))
    assert [option.name for option in delivery.options] == ["the selection"]


def test_all_tools_are_an_option_only_if_reading_on_would_fit_too() -> None:
    def names_of_options(cap: int) -> set[str]:
        return {each.name for each in DeliveryPlanner(mode="auto").plan_first(plan(1, 2, cap=cap)).options}

    assert names_of_options(31) == {"all tools", "the selection"}
    assert names_of_options(30) == {"the selection"}


def test_all_tools_without_a_mask_are_sent_with_no_meta_tool_but_reading_on() -> None:
    view = Catalog.of(TOOLS[:3])
    selection = plan(0, 1, view=view, meta=(*META, READ_ON), sent=[0, 1, 2], idle=400.0)
    delivery = DeliveryPlanner(mode="auto").plan_first(selection)
    assert (array(delivery), delivery.meta) == (names(0, 1, 2), ("read_result",))
    assert delivery.note == "all 3 tools: choosing would cost more than keeping them in the cache"
    assert delivery.allowed is None


def test_a_long_conversation_is_shown_more_tools_as_text_and_the_note_says_so() -> None:
    request = plan(1, sent=[4, 5], meta=(*META, EXECUTE), history=50_000)
    delivery = DeliveryPlanner(mode="auto").plan_first(request)
    assert (array(delivery), delivery.added, delivery.added_by) == (names(4, 5), ("tool_01",), "text")
    assert delivery.note == "the array is unchanged; 1 more tools shown as text"
    assert delivery.later_by == "text"
    unchanged = DeliveryPlanner(mode="auto").plan_first(plan(4, sent=[4, 5], meta=(*META, EXECUTE), history=50_000))
    assert unchanged.note == "the array is unchanged"


def test_a_provider_with_means_of_its_own_announces_more_tools_by_them_in_mode_native() -> None:
    request = plan(1, sent=[4, 5], meta=(*META, EXECUTE), capabilities=replace(CACHED, deferral="additions"))
    delivery = DeliveryPlanner(mode="native").plan_first(request)
    assert (delivery.strategy, delivery.added_by, delivery.later_by) == ("native", "reference", "reference")
    assert delivery.note == "the array is unchanged; 1 more tools made known by the provider's own means"
    assert delivery.deferred == {"tool_01"}
    assert [option.name for option in delivery.options] == ["added by reference"]


def test_a_remembered_conversation_expects_as_many_calls_as_it_had_and_a_lone_request_three() -> None:
    def cost(**changes: Any) -> float:
        return DeliveryPlanner(mode="auto").plan_first(plan(*range(30), **changes)).options[0].expected

    def expected(rounds: int) -> float:
        tokens = DeliveryPlanner(mode="auto").plan_first(plan(*range(30))).tokens
        return tokens * (1.25 + 0.1 * (rounds - 1))

    assert cost(lasting=False, rounds=40) == pytest.approx(expected(3), abs=0.1)
    assert cost(lasting=True, rounds=2) == pytest.approx(expected(12), abs=0.1)
    assert cost(lasting=True, rounds=40) == pytest.approx(expected(40), abs=0.1)


def test_compact_sends_the_meta_tools_and_pins_in_every_round() -> None:
    planner = DeliveryPlanner("compact")
    first = planner.plan_first(plan(1, 2, pinned=names(7, 7)))
    assert (first.strategy, array(first), first.meta) == ("compact", names(7), ("request_more_tools",))
    assert first.note == "1 meta tools stand for 30 tools"
    later = planner.plan_next(plan(1, 2, sent=[7]), None)
    assert (later.strategy, later.definitions) == ("compact", first.definitions)
