"""The cost simulator: conversations from a seed, a model that follows them, and the comparison of strategies."""

from __future__ import annotations

import asyncio
import json
from hashlib import blake2b
from random import Random
from typing import Any

import pytest

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import Message, ModelReply, ModelRequest
from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, REQUEST_MORE_TOOLS, SEARCH_TOOLS
from toolcaddie.core.run import RunContext
from toolcaddie.core.schema import argument_errors, definition_tokens, wire_definition
from toolcaddie.core.tool import Tool
from toolcaddie.evaluation.simulation.actors import Clock, RenderedRequest, ScriptedModel, ScriptedTools
from toolcaddie.evaluation.simulation.billing import Bill, PriceRule, Prompt, Segment
from toolcaddie.evaluation.simulation.costs import (
    GOAL_MEDIAN,
    GOAL_MISSED,
    GOAL_P95,
    Comparison,
    Conversation,
    Played,
    Prefix,
    charge,
    compared,
    overall,
    report,
)
from toolcaddie.evaluation.simulation.scripts import (
    FINAL_SEED,
    TUNING_SEED,
    TURNS,
    Need,
    Script,
    Turn,
    example_arguments,
    generated_catalog,
    generated_scripts,
)
from toolcaddie.meta.registry import offered_definitions
from toolcaddie.ports import MetaOffer

SONNET = "anthropic:claude-sonnet-5-5"

INVOICE = Tool(
    name="send_invoice",
    description="Send an invoice to a client.",
    input_schema={"type": "object", "properties": {"client_id": {"type": "integer"}}, "required": ["client_id"]},
    category="billing",
)
OTHERS = [Tool(name=f"list_{what}", description=f"List {what}.", category="billing") for what in ("courts", "offers")]
CATALOG = Catalog.of([INVOICE, *OTHERS])
NEED = Need(
    tool="send_invoice", words="mail the bill", guess="send invoice", arguments='{"client_id": 7}', result="sent"
)


# --- catalogs and scripts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 40, 500])
def test_a_generated_catalog_has_so_many_tools_of_a_real_size(size: int) -> None:
    catalog = generated_catalog(size, TUNING_SEED)
    assert len(catalog.tools) == size
    assert all(60 <= definition_tokens([tool]) <= 300 for tool in catalog.tools)
    assert all(tool.category for tool in catalog.tools)


def test_more_tools_than_there_are_words_for_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"5,000.*5,001"):
        generated_catalog(5_001, TUNING_SEED)


def test_a_seed_gives_the_same_conversations_and_another_seed_others() -> None:
    catalog = generated_catalog(40, TUNING_SEED)
    assert generated_scripts(catalog, 3, 1) == generated_scripts(catalog, 3, 1)
    assert generated_scripts(catalog, 3, 1)[:2] == generated_scripts(catalog, 2, 1)
    assert generated_scripts(catalog, 3, 1) != generated_scripts(catalog, 3, 2)
    assert TUNING_SEED != FINAL_SEED
    assert generated_catalog(40, FINAL_SEED).version != catalog.version


def test_the_published_figures_rest_on_these_catalogs_and_conversations() -> None:
    catalog = generated_catalog(40, 7)
    first, second = generated_scripts(catalog, 2, 7)
    assert [tool.name for tool in catalog][:3] == ["schedule_feed", "compare_field", "attach_greenhouse"]
    assert first.turns[0].text == "Get the shift plan for the new office, please."
    assert first.turns[0].needs[0].arguments == '{"shift_plan_id": 1606}'
    assert second.turns[3].gap == pytest.approx(77.84491580342734)
    definitions = json.dumps([wire_definition(tool) for tool in catalog])
    assert blake2b(definitions.encode(), digest_size=8).hexdigest() == "8e43691efe3f9056"
    assert blake2b(repr((first, second)).encode(), digest_size=8).hexdigest() == "73eb9334ee3b8249"


def test_conversations_are_as_the_module_says() -> None:
    catalog = generated_catalog(500, TUNING_SEED)
    scripts = generated_scripts(catalog, 100, TUNING_SEED)
    turns = [turn for script in scripts for turn in script.turns]
    assert {len(script.turns) for script in scripts} == {TURNS}
    gaps = [turn.gap for turn in turns if turn.gap]
    assert 0.75 < sum(gap <= 90 for gap in gaps) / len(gaps) < 0.95
    assert any(300 < gap < 500 for gap in gaps)
    assert any(gap > 6_000 for gap in gaps)
    assert {len(turn.needs) for turn in turns} == {0, 1, 2, 3}
    assert {len(turn.steps) for turn in turns} == {0, 1, 2, 3}
    own_words = [all(word in need.words for word in need.guess.split()) for turn in turns for need in turn.needs]
    assert 0.3 < sum(own_words) / len(own_words) < 0.7
    again = [turn for script in scripts for a, turn in zip(script.turns, script.turns[1:], strict=False) if a.needs]
    topics = [[catalog.get(need.tool) for need in turn.needs] for turn in again]
    assert all(len({tool.category for tool in each if tool}) <= 1 for each in topics), "one topic a turn"


def test_the_arguments_of_a_conversation_fit_the_schemas() -> None:
    catalog = generated_catalog(500, TUNING_SEED)
    for script in generated_scripts(catalog, 20, TUNING_SEED):
        for need in (need for turn in script.turns for need in turn.needs):
            tool = catalog.get(need.tool)
            assert tool is not None
            assert not argument_errors(tool.input_schema, json.loads(need.arguments))


def test_example_arguments_fit_what_plain_schemas_ask_for() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["a", "b"]},
            "count": {"type": ["integer", "null"], "minimum": 3, "maximum": 4},
            "share": {"type": "number"},
            "sure": {"type": "boolean"},
            "day": {"type": "string", "format": "date"},
            "rows": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
            "seldom": {"type": "string"},
        },
        "required": ["kind", "count", "share", "sure", "day", "rows"],
    }
    for seed in range(20):
        assert not argument_errors(schema, example_arguments(schema, Random(seed)))


def test_a_catalog_without_tools_has_no_conversations() -> None:
    with pytest.raises(ConfigError, match="no tools"):
        generated_scripts(Catalog.of([]), 1, 1)


# --- the model that follows a script ----------------------------------------------------------------------------------


class Talk:
    """One turn with the model, request by request."""

    def __init__(self, *needs: Need, together: bool = True) -> None:
        self.model = ScriptedModel(CATALOG, Clock())
        steps = (needs,) if together else tuple((need,) for need in needs)
        self.model.begin_turn(Turn(text="Mail the bill.", gap=0.0, steps=steps, answer="Done."), 0)
        self.messages = [Message(role="user", content="Mail the bill.")]

    def ask(self, *tools: Tool, said: str = "", **more: Any) -> ModelReply:
        """The next answer. `said`: the result of the call before, `more`: fields of the request."""
        if said:
            revealed = more.pop("revealed", ())
            self.messages.append(Message(role="tool", tool_call_id="1", content=said, revealed=revealed))
        request = ModelRequest(
            model="m", messages=list(self.messages), tools=[wire_definition(t) for t in tools], **more
        )
        reply = asyncio.run(self.model.complete(request))
        self.messages.append(reply.message)
        return reply

    @property
    def misses(self) -> int:
        self.model.end_turn()
        return self.model.misses


def test_the_model_has_the_name_of_its_rules_provider() -> None:
    assert ScriptedModel(CATALOG, Clock()).name == "scripted"
    assert ScriptedModel(CATALOG, Clock(), PriceRule.of(SONNET)).name == "anthropic"


def called(reply: ModelReply) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in reply.message.tool_calls]


MORE, SEARCH, SCHEMA, EXECUTE = offered_definitions(
    (REQUEST_MORE_TOOLS, SEARCH_TOOLS, GET_TOOL_SCHEMA, EXECUTE_TOOL), MetaOffer()
).values()


def test_a_needed_tool_that_is_shown_is_called_and_then_the_turn_is_answered() -> None:
    talk = Talk(NEED)
    assert called(talk.ask(INVOICE, MORE)) == [("send_invoice", {"client_id": 7})]
    reply = talk.ask(INVOICE, MORE, said="sent")
    assert reply.message.text == "Done."
    assert talk.misses == 0
    assert reply.usage.output_tokens == 2


def test_needs_of_one_step_are_called_together_and_those_of_several_one_after_another() -> None:
    other = Need(tool="list_courts", words="courts", guess="list courts", arguments="{}", result="[]")
    assert len(called(Talk(NEED, other).ask(INVOICE, *OTHERS))) == 2
    talk = Talk(NEED, other, together=False)
    assert called(talk.ask(INVOICE, *OTHERS))[0][0] == "send_invoice"
    assert called(talk.ask(INVOICE, *OTHERS, said="sent"))[0][0] == "list_courts"


def test_a_tool_that_is_not_shown_is_asked_for_in_the_words_of_the_request_and_then_in_others() -> None:
    talk = Talk(NEED)
    assert called(talk.ask(MORE)) == [(REQUEST_MORE_TOOLS, {"query": "mail the bill"})]
    assert called(talk.ask(MORE, said="nothing")) == [(REQUEST_MORE_TOOLS, {"query": "send invoice"})]
    assert talk.ask(MORE, said="nothing").message.text == "Done."
    assert talk.misses == 1
    assert [request.after_reveal for request in talk.model.requests] == [False, True, True]


def test_a_deferred_tool_is_called_once_it_is_revealed() -> None:
    talk = Talk(NEED)
    held = frozenset({"send_invoice"})
    assert called(talk.ask(MORE, INVOICE, deferred=held))[0][0] == REQUEST_MORE_TOOLS
    reply = talk.ask(MORE, INVOICE, deferred=held, said="Loaded.", revealed=("send_invoice",))
    assert called(reply)[0][0] == "send_invoice"


def test_a_tool_that_the_mask_leaves_out_is_not_called() -> None:
    assert called(Talk(NEED).ask(MORE, INVOICE, allowed=(REQUEST_MORE_TOOLS,)))[0][0] == REQUEST_MORE_TOOLS


def test_where_meta_tools_stand_for_all_it_searches_reads_the_schema_and_executes() -> None:
    talk = Talk(NEED)
    compact = (SEARCH, SCHEMA, EXECUTE)
    assert called(talk.ask(*compact)) == [(SEARCH_TOOLS, {"query": "mail the bill"})]
    assert called(talk.ask(*compact, said='{"tools": []}')) == [(SEARCH_TOOLS, {"query": "send invoice"})]
    found = '{"tools": [{"name": "send_invoice"}]}'
    assert called(talk.ask(*compact, said=found)) == [(GET_TOOL_SCHEMA, {"tool_name": "send_invoice"})]
    schema = json.dumps(wire_definition(INVOICE))
    run = (EXECUTE_TOOL, {"tool_name": "send_invoice", "arguments": {"client_id": 7}})
    assert called(talk.ask(*compact, said=schema)) == [run]
    assert talk.misses == 0


def test_a_name_that_is_part_of_another_is_not_taken_for_it() -> None:
    talk = Talk(NEED)
    reply = talk.ask(SEARCH, SCHEMA, EXECUTE, said='{"tools": [{"name": "send_invoice_reminder"}]}')
    assert called(reply)[0][0] == SEARCH_TOOLS


@pytest.mark.parametrize("how", [{}, {"tool_choice": "none"}])
def test_where_nothing_may_be_called_it_answers_and_what_was_needed_is_missed(how: dict[str, str]) -> None:
    talk = Talk(NEED)
    assert talk.ask(*([INVOICE] if how else ()), **how).message.text == "Done."
    assert talk.misses == 1


# --- what it comes to -------------------------------------------------------------------------------------------------


def conversation(script: int, dollars: float, misses: int = 0) -> Conversation:
    return Conversation(
        script=script,
        bill=Bill(plain=100, dollars=dollars),
        misses=misses,
        needs=10,
        requests=5,
        extra=0,
        steady=Prefix(),
        revealing=Prefix(),
    )


def test_who_misses_more_than_the_planner_is_not_the_cheapest() -> None:
    found = compared(
        {
            "all": [conversation(0, 4.0), conversation(1, 4.0)],
            "fresh": [conversation(0, 1.0, misses=1), conversation(1, 2.0)],
            "planned": [conversation(0, 2.0), conversation(1, 3.0)],
        }
    )
    assert found is not None
    assert found.cheapest == {"all": 1, "fresh": 1}
    assert (found.median, found.p95) == (1.0, 1.5)
    assert found.beaten == {"all": 5 / 8, "fresh": 5 / 3}
    assert not found.met


@pytest.mark.parametrize(
    ("median", "p95", "missed", "of_another", "met"),
    [
        (GOAL_MEDIAN, GOAL_P95, GOAL_MISSED, 0.99, True),
        (GOAL_MEDIAN + 0.01, GOAL_P95, GOAL_MISSED, 0.99, False),
        (GOAL_MEDIAN, GOAL_P95 + 0.01, GOAL_MISSED, 0.99, False),
        (GOAL_MEDIAN, GOAL_P95, GOAL_MISSED + 0.001, 0.99, False),
        (GOAL_MEDIAN, GOAL_P95, GOAL_MISSED, 1.0, False),
    ],
)
def test_the_goals_are_met_by_ratios_and_against_every_other_strategy(
    median: float, p95: float, missed: float, of_another: float, met: bool
) -> None:
    beaten = {"all": 0.5, "fresh": of_another}
    comparison = Comparison(ratios=(1.0,), median=median, p95=p95, missed=missed, cheapest={}, beaten=beaten)
    assert comparison.met is met


def test_without_the_planner_or_without_others_there_is_nothing_to_compare() -> None:
    assert compared({"all": [conversation(0, 1.0)]}) is None
    assert compared({"planned": [conversation(0, 1.0)]}) is None


def sent(prompt: Prompt, at: float, *, after_reveal: bool = False) -> RenderedRequest:
    return RenderedRequest(prompt=prompt, at=at, turn=0, output=10, marked=True, after_reveal=after_reveal)


def test_the_kept_prefix_is_that_of_warm_requests_and_turns_with_a_reveal_stand_apart() -> None:
    def of(*digests: int) -> Prompt:
        return Prompt.of([Segment("message", digest, 1_000) for digest in digests])

    requests = [
        sent(of(1, 2), 0),
        sent(of(1, 2, 3), 10),  # 2,000 of 2,000
        sent(of(1, 9, 3), 20),  # 1,000 of 3,000
        sent(of(7), 2_000),  # too late to count
        sent(of(8), 2_001, after_reveal=True),  # 0 of 1,000
    ]
    turn = Turn(text="", gap=0.0, steps=((NEED,),), answer="")
    script = Script(number=4, system="", turns=(turn, turn))
    found = charge(Played(script=script, requests=requests, misses=1, marked=False), PriceRule.of(SONNET))
    assert found.steady.share == 3_000 / 5_000
    assert found.revealing == Prefix(common=0, of=1_000)
    assert (found.script, found.misses, found.needs, found.requests, found.extra) == (4, 1, 2, 5, 1)
    assert found.bill.output == 50


def test_the_figures_of_a_report_are_medians_sums_and_shares() -> None:
    def played(script: int, bill: Bill, misses: int, extra: int, steady: Prefix, revealing: Prefix) -> Conversation:
        return Conversation(
            script=script,
            bill=bill,
            misses=misses,
            needs=4,
            requests=9,
            extra=extra,
            steady=steady,
            revealing=revealing,
        )

    planned = [
        played(0, Bill(read=60, written=30, plain=10, output=20, dollars=1.0), 0, 2, Prefix(common=9, of=10), Prefix()),
        played(1, Bill(read=0, written=50, plain=50, output=40, dollars=3.0), 1, 1, Prefix(common=1, of=10), Prefix()),
        played(2, Bill(plain=100, output=90, dollars=2.0), 2, 0, Prefix(), Prefix(common=1, of=4)),
    ]
    none = Prefix()
    full = [
        played(n, Bill(plain=200, output=10, dollars=price), 0, 0, none, none) for n, price in enumerate((2.0, 2, 8))
    ]
    first = report("a:one", 3, {"all": full, "planned": planned})
    costs, own = first.strategies
    assert (first.model, first.tools, costs.strategy, own.strategy) == ("a:one", 3, "all", "planned")
    assert (own.scripts, own.median_tokens, own.median_dollars, own.dollars) == (3, 140, 2.0, 6.0)
    assert (own.read, own.misses, own.needs, own.extra) == (60 / 300, 3, 12, 3)
    assert (own.prefix_kept, own.prefix_kept_after_reveal) == (10 / 20, 1 / 4)
    assert (costs.dollars, costs.read, costs.prefix_kept) == (12.0, 0.0, None)
    assert first.comparison is not None
    assert first.comparison.ratios == (0.5, 1.5, 0.25)
    assert (first.comparison.median, first.comparison.p95) == (0.5, 1.5)
    assert (first.comparison.cheapest, first.comparison.beaten) == ({"all": 3}, {"all": 0.5})

    second = report("b:two", 3, {"all": [full[0]], "few": [full[2]], "planned": [planned[0]]})
    total = overall([first, second, report("c:three", 3, {"all": full})])
    assert total is not None
    assert (total.median, total.p95, total.met, total.of) == (0.5, 1.5, 1, 2)
    assert total.beaten == {"all": 7.0 / 14.0, "few": 1.0 / 8.0}
    assert total.least_prefix_kept == 0.5
    assert overall([report("c:three", 3, {"all": full})]) is None


def test_an_answer_takes_a_second_and_a_sixtieth_for_each_token_and_a_tool_half_a_second() -> None:
    clock = Clock(10.0)
    model, tools = ScriptedModel(CATALOG, clock), ScriptedTools(CATALOG, clock)
    model.begin_turn(Turn(text="", gap=0.0, steps=(), answer="Done." * 24), 3)
    reply = asyncio.run(model.complete(ModelRequest(model="m", messages=(Message(role="user", content="hello"),))))
    tokens = reply.usage.output_tokens
    assert tokens > 20
    assert clock() == pytest.approx(11.0 + tokens / 60)
    (request,) = model.requests
    assert (request.at, request.turn, request.output, request.after_reveal) == (10.0, 3, tokens, False)
    tools.results = {"send_invoice": "sent"}
    before, context = clock(), RunContext(run_id="r", view=View(catalog=CATALOG), principal=Principal(), model="m")
    assert asyncio.run(tools.call_tool(INVOICE, {}, context)).text == "sent"
    assert asyncio.run(tools.call_tool(OTHERS[0], {}, context)).text == "{}"
    assert clock() == pytest.approx(before + 1.0)
