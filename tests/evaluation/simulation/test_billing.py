"""The bill of a request: what is rendered, what a provider's cache holds of it, and what that costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcaddie.core.capabilities import CacheRule, Prices
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.schema import canonical_json, estimate_tokens
from toolcaddie.core.tool import ToolCall
from toolcaddie.evaluation.simulation.billing import (
    Bill,
    PriceRule,
    Prompt,
    PromptCache,
    Segment,
    as_cached,
    prefix_kept,
    render,
)

BREAKPOINTS = PriceRule(
    model="anthropic:test",
    prices=Prices(input=2.0, cached=0.1, written=2.5, output=10.0),
    cache=CacheRule(kind="breakpoints", minimum=512, lifetime=300, choice_breaks=True),
)
STEPS = PriceRule(
    model="openai:test",
    prices=Prices(input=2.5, cached=0.25, written=2.5, output=15.0),
    cache=CacheRule(kind="automatic", minimum=1024, lifetime=300, step=128),
)
FEE = PriceRule(
    model="openai-responses:test",
    prices=Prices(input=2.0, cached=0.2, written=2.5, output=10.0),
    cache=CacheRule(kind="automatic", minimum=1024, lifetime=1800),
)
NONE = PriceRule(
    model="mistral:test", prices=Prices(input=1.0, cached=1.0, written=1.0, output=4.0), cache=CacheRule(kind="none")
)
RULES = (BREAKPOINTS, STEPS, FEE, NONE)


def prompt(*sizes: int, tools: int = 1, system: int = 1, first: int = 0) -> Prompt:
    """Segments of these tokens: so many tools, so many of the system prompt, messages. Their place is what they say."""
    kinds = ["tool"] * tools + ["system"] * system + ["message"] * (len(sizes) - tools - system)
    return Prompt.of(
        [Segment(kind, first + at, size) for at, (kind, size) in enumerate(zip(kinds, sizes, strict=False))]
    )  # type: ignore[arg-type]


def appended(before: Prompt, *sizes: int) -> Prompt:
    more = [Segment("message", 10_000 + len(before.segments) + at, size) for at, size in enumerate(sizes)]
    return Prompt.of([*before.segments, *more])


def tokens_of(value: Any) -> int:
    return estimate_tokens(canonical_json(value))


def definition(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": {}}}


# --- what is rendered -------------------------------------------------------------------------------------------------


def test_tools_come_first_then_the_system_prompt_then_the_messages() -> None:
    request = ModelRequest(
        model="m",
        tools=[definition("a"), definition("b")],
        messages=[Message(role="system", content="Be brief."), Message(role="user", content="Hello.")],
    )
    rendered = render(request)
    assert [segment.kind for segment in rendered.segments] == ["tool", "tool", "system", "message"]
    assert rendered.segments[0].tokens == tokens_of(definition("a"))
    assert (rendered.tools, rendered.head) == (2, 3)
    assert rendered.tokens == sum(segment.tokens for segment in rendered.segments)


def test_each_call_of_an_answer_is_a_block_of_its_own() -> None:
    calls = (ToolCall(id="1", name="a"), ToolCall(id="2", name="b"))
    said = Message(role="assistant", content="I look that up.", tool_calls=calls)
    assert len(render(ModelRequest(model="m", messages=[said])).segments) == 3
    assert len(render(ModelRequest(model="m", messages=[replace(said, content=None)])).segments) == 2


def test_a_deferred_tool_costs_nothing_until_a_result_reveals_it_and_then_stands_behind_that_result() -> None:
    asked = [Message(role="user", content="Hello."), Message(role="tool", tool_call_id="1", content="Loaded b.")]
    request = ModelRequest(
        model="m", tools=[definition("a"), definition("b")], deferred=frozenset({"b"}), messages=asked
    )
    before = render(request)
    assert before == render(replace(request, tools=[definition("a")], deferred=frozenset()))
    revealing = [asked[0], replace(asked[1], revealed=("b",)), Message(role="user", content="Thanks.")]
    after = render(replace(request, messages=revealing))
    assert [segment.kind for segment in after.segments] == ["tool", "message", "message", "revealed", "message"]
    assert after.segments[3].tokens == tokens_of(definition("b"))
    assert prefix_kept(before, after) == (before.tokens, before.tokens)


def test_a_tool_revealed_twice_is_paid_once() -> None:
    told = Message(role="tool", tool_call_id="1", content="Loaded b.", revealed=("b", "unknown"))
    tools = [definition("b")]
    once = render(ModelRequest(model="m", tools=tools, deferred=frozenset({"b"}), messages=[told]))
    twice = render(ModelRequest(model="m", tools=tools, deferred=frozenset({"b"}), messages=[told, told]))
    assert [segment.kind for segment in twice.segments] == ["message", "revealed", "message"]
    assert prefix_kept(once, twice) == (once.tokens, once.tokens)


def test_what_may_be_called_is_no_part_of_the_prompt() -> None:
    request = ModelRequest(model="m", tools=[definition("a")], messages=[Message(role="user", content="Hello.")])
    assert render(replace(request, allowed=("a",))) == render(request)
    assert render(replace(request, tool_choice="auto")) == render(request)


def test_a_changed_tool_choice_loses_the_messages_only_where_the_rule_says_so() -> None:
    messages = [Message(role="system", content="s" * 2_000), Message(role="user", content="u" * 4_000)]
    request = ModelRequest(model="m", tools=[definition("a" * 40)], messages=messages)
    plain, forced = render(request), render(replace(request, tool_choice="required"))
    assert forced.tokens == plain.tokens
    for rule, read in ((BREAKPOINTS, plain.upto(2)), (FEE, plain.tokens)):
        cache = PromptCache(rule)
        cache.bill(plain, 0)
        assert cache.bill(forced, 1).read == read
        assert prefix_kept(as_cached(plain, rule), as_cached(forced, rule)) == (read, plain.tokens)


# --- examples by hand -------------------------------------------------------------------------------------------------


def test_a_conversation_with_breakpoints_pays_for_writing_what_is_new_and_reads_the_rest() -> None:
    cache = PromptCache(BREAKPOINTS)
    first = prompt(2_000, 300, 100)
    assert cache.bill(first, 0, 50) == Bill(
        written=2_400, output=50, dollars=pytest.approx(2_400 * 2.5e-6 + 50 * 10e-6)
    )
    second = appended(first, 60, 540)
    assert cache.bill(second, 20, 10) == Bill(
        read=2_400, written=600, output=10, dollars=pytest.approx(2_400 * 0.1e-6 + 600 * 2.5e-6 + 10 * 10e-6)
    )
    other_end = Prompt.of([*first.segments[:2], Segment("message", 77, 1_000)])
    assert cache.bill(other_end, 30).read == 2_300, "tools and system prompt have a breakpoint of their own"
    more_tools = Prompt.of([Segment("tool", 88, 10), *second.segments])
    assert cache.bill(more_tools, 40) == Bill(written=3_010, dollars=pytest.approx(3_010 * 2.5e-6))


def test_without_a_mark_a_cache_with_breakpoints_neither_reads_nor_writes() -> None:
    cache = PromptCache(BREAKPOINTS)
    cache.bill(prompt(2_000, 300, 100), 0)
    assert cache.bill(prompt(2_000, 300, 100), 1, marked=False) == Bill(plain=2_400, dollars=pytest.approx(0.0048))


def test_a_breakpoint_looks_back_twenty_blocks() -> None:
    first = prompt(600, 600, 600)
    for more, read in ((19, 1_800), (20, 1_200)):
        cache = PromptCache(BREAKPOINTS)
        cache.bill(first, 0)
        assert cache.bill(appended(first, *[10] * more), 1).read == read


def test_however_long_an_answer_is_the_prompt_it_was_given_to_is_read() -> None:
    first, cache = prompt(600, 600, 600), PromptCache(BREAKPOINTS)
    cache.bill(first, 0)
    answer = [Segment("answer", 500 + at, 10) for at in range(30)]
    results = [Segment("message", 600 + at, 10) for at in range(30)]
    assert cache.bill(Prompt.of([*first.segments, *answer, *results]), 1).read == 1_800


def test_an_automatic_cache_reads_in_steps_and_charges_nothing_for_writing() -> None:
    cache = PromptCache(STEPS)
    first = prompt(1_500, 300, 100)
    assert cache.bill(first, 0).dollars == pytest.approx(1_900 * 2.5e-6)
    bill = cache.bill(appended(first, 500), 10)
    assert (bill.read, bill.prompt) == (1_792, 2_400)
    assert bill.dollars == pytest.approx(1_792 * 0.25e-6 + 608 * 2.5e-6)


def test_an_automatic_cache_with_a_fee_writes_what_it_does_not_read() -> None:
    cache = PromptCache(FEE)
    first = prompt(1_000, 300, 100)
    assert cache.bill(first, 0) == Bill(written=1_400, dollars=pytest.approx(1_400 * 2.5e-6))
    assert cache.bill(appended(first, 600), 1_799) == Bill(
        read=1_400, written=600, dollars=pytest.approx(1_400 * 0.2e-6 + 600 * 2.5e-6)
    )


def test_a_prefix_below_the_minimum_is_not_kept() -> None:
    for rule in (BREAKPOINTS, STEPS, FEE):
        cache = PromptCache(rule)
        small = prompt(200, 100, 100)
        for at in (0, 1):
            assert cache.bill(small, at) == Bill(plain=400, dollars=pytest.approx(400 * rule.prices.input / 1e6))


def test_a_short_beginning_of_a_long_prompt_is_not_found_again() -> None:
    cache = PromptCache(FEE)
    cache.bill(prompt(900, 100, 5_000), 0)
    other = Prompt.of([*prompt(900, 100, 1).segments[:2], Segment("message", 99, 4_000)])
    assert cache.bill(other, 1).read == 0


def test_the_rule_of_a_model_comes_from_the_capability_table() -> None:
    rule = PriceRule.of("anthropic:claude-sonnet-5-5")
    assert rule.cache.kind == "breakpoints"
    assert rule.deferral
    with pytest.raises(ConfigError, match="nobody:model"):
        PriceRule.of("nobody:model")


# --- what holds for every rule ----------------------------------------------------------------------------------------

sizes = st.lists(st.integers(1, 3_000), min_size=3, max_size=12)
rules = st.sampled_from(RULES)
gaps = st.lists(st.floats(0, 4_000), min_size=1, max_size=6)


@given(rules, st.lists(sizes, min_size=1, max_size=5), gaps)
def test_no_part_is_negative_and_the_parts_are_the_prompt(
    rule: PriceRule, prompts: list[list[int]], gaps: list[float]
) -> None:
    cache, at = PromptCache(rule), 0.0
    for number, each in enumerate(prompts):
        at += gaps[number % len(gaps)]
        asked = prompt(*each, first=number % 2)
        bill = cache.bill(asked, at, 7)
        assert min(bill.read, bill.written, bill.plain) >= 0
        assert bill.prompt == asked.tokens
        assert bill.output == 7
        assert bill.dollars > 0


@given(rules, sizes, st.floats(0, 1))
def test_a_prompt_repeated_in_time_is_all_read(rule: PriceRule, each: list[int], share: float) -> None:
    asked, cache = prompt(*each), PromptCache(rule)
    cache.bill(asked, 0)
    bill = cache.bill(asked, rule.cache.lifetime * share)
    kept = rule.cache.kind != "none" and asked.tokens >= rule.cache.minimum
    assert bill.read == (asked.tokens - asked.tokens % rule.cache.step if kept else 0)


@given(rules, sizes)
def test_nothing_is_read_after_the_lifetime(rule: PriceRule, each: list[int]) -> None:
    cache = PromptCache(rule)
    cache.bill(prompt(*each), 0)
    assert cache.bill(prompt(*each), rule.cache.lifetime + 1).read == 0


@given(st.sampled_from(RULES[:3]), sizes)
def test_a_use_makes_a_prefix_live_longer(rule: PriceRule, each: list[int]) -> None:
    asked, cache = prompt(*each), PromptCache(rule)
    bills = [cache.bill(asked, at * rule.cache.lifetime) for at in (0.0, 0.9, 1.8, 2.7)]
    assert bills[1] == bills[2] == bills[3]


@given(st.sampled_from(RULES[:3]), sizes, st.lists(st.integers(1, 500), min_size=1, max_size=10))
def test_what_is_appended_keeps_the_prefix(rule: PriceRule, each: list[int], more: list[int]) -> None:
    first, cache = prompt(*each), PromptCache(rule)
    longer = appended(first, *more)
    cache.bill(first, 0)
    read = first.tokens - first.tokens % rule.cache.step if first.tokens >= rule.cache.minimum else 0
    assert cache.bill(longer, 1).read == read
    assert prefix_kept(first, longer) == (first.tokens, first.tokens)


@given(rules, sizes, st.integers(1, 500))
def test_what_is_inserted_in_front_loses_the_prefix(rule: PriceRule, each: list[int], size: int) -> None:
    first, cache = prompt(*each), PromptCache(rule)
    moved = Prompt.of([Segment("tool", 99_999, size), *first.segments])
    cache.bill(first, 0)
    assert cache.bill(moved, 1).read == 0
    assert prefix_kept(first, moved) == (0, first.tokens)
