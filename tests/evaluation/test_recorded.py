"""Runs as the trail holds them: read whatever was written, by whichever version, and told apart by conversation."""

from __future__ import annotations

import pytest

from tests.databases import new_url
from toolcaddie.core.catalog import Catalog, Category
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.schema import definition_tokens
from toolcaddie.core.selection import SelectedTool, Selection
from toolcaddie.core.storage import EventRecord
from toolcaddie.core.tool import Tool
from toolcaddie.evaluation.misses import misses_of
from toolcaddie.evaluation.recorded import (
    RecordedCall,
    RecordedDelivery,
    RecordedRun,
    ToolSearch,
    grouped,
    labelled,
    read_log,
)
from toolcaddie.evaluation.replay import replayed
from toolcaddie.evaluation.usage import usage_of
from toolcaddie.storage.database import Database
from toolcaddie.util.replacing import replace


def _run(number, text, called=(), *, before=(), selected=(), no_match=False, sought=(), **more):
    messages = (*(Message(role="user", content=each) for each in before), Message(role="user", content=text))
    return RecordedRun(
        run_id=f"r{number}",
        started=float(number),
        principal=more.pop("principal", "ann"),
        messages=messages,
        selected=tuple(selected),
        called=tuple(RecordedCall(name=name) for name in called),
        no_match=no_match,
        sought=tuple(sought),
        **more,
    )


def _catalog(*categories, default=()):
    tools = [Tool(name=f"{category}_{n}", category=category) for category in categories for n in range(2)]
    return Catalog.of(tools, [Category(name=name, default=name in default) for name in categories])


@pytest.mark.anyio
async def test_rows_that_cannot_be_understood_are_counted_and_left_out():
    rows = [
        ("good", "run_started", {"message": "hello", "principal": {"id": "ann"}, "preset": "default"}),
        ("good", "tools_selected", {"tools": [{"name": "a", "later": "more keys"}]}),
        ("bad", "run_started", {"message": "hello", "principal": {"id": "ann"}, "preset": "default"}),
        ("bad", "tools_selected", {"tools": "all of them"}),
        ("direct", "run_started", {"message": "called directly", "principal": {"id": "ann"}, "preset": "default"}),
    ]
    async with Database(new_url()) as database:
        for seq, (run_id, kind, data) in enumerate(rows, start=1):
            database.events.append(EventRecord(run_id=run_id, seq=seq, at=float(seq), kind=kind, data=data))
        seen = []
        log = await read_log(database.events, on_progress=lambda count, total: seen.append((count, total)))
    assert [run.run_id for run in log.runs] == ["good"]
    assert log.runs[0].selected == ("a",)
    assert log.unread == 1
    assert seen == [(3, 3)]


@pytest.mark.anyio
async def test_tools_made_known_behind_the_array_count_as_sent_from_then_on():
    rows = [
        ("run_started", {"message": "hello"}),
        ("tools_selected", {"tools": [{"name": "a"}]}),
        ("tools_delivered", {"tools": ["a"], "added": ["b"], "later_by": "text", "tokens": {"sent": 7}}),
        ("model_asked", {"tools": 1}),
        ("meta_called", {"name": "request_more_tools", "added": ["c"]}),
        ("model_asked", {"tools": 1}),
    ]
    async with Database(new_url()) as database:
        for seq, (kind, data) in enumerate(rows, start=1):
            database.events.append(EventRecord(run_id="r", seq=seq, at=float(seq), kind=kind, data=data))
        (run,) = (await read_log(database.events)).runs
    assert [(delivery.tools, delivery.tokens) for delivery in run.deliveries] == [(("a", "b"), 7), (("a", "b", "c"), 7)]


@pytest.mark.anyio
async def test_what_a_model_named_and_looked_for_is_read_in_whatever_form():
    rows = [
        ("run_started", {"message": "hello"}),
        ("request_classified", {"categories": ["x", "y"]}),
        ("tools_selected", {"tools": [{"name": "a"}]}),
        (
            "meta_called",
            {"name": "search_tools", "arguments": '{"query": "music", "reason": "to play"}', "added": ["b"]},
        ),
        ("meta_called", {"name": "request_more_tools", "arguments": '{"categories": ["x"], "category": "z"}'}),
        ("meta_called", {"name": "list_tools", "arguments": "{no json", "added": ["c"]}),
        ("meta_called", {"name": "get_tool_schema", "arguments": "{}"}),
    ]
    async with Database(new_url()) as database:
        for seq, (kind, data) in enumerate(rows, start=1):
            database.events.append(EventRecord(run_id="r", seq=seq, at=float(seq), kind=kind, data=data))
        (run,) = (await read_log(database.events)).runs
    assert run.classified == ("x", "y")
    assert run.sought == (
        ToolSearch(by="search_tools", words="music to play", added=("b",)),
        ToolSearch(by="request_more_tools", words="", categories=("x", "z"), added=()),
        ToolSearch(by="list_tools", words="{no json", added=("c",)),
    )


def test_runs_of_one_conversation_have_one_group():
    runs = grouped(
        [
            _run(1, "show clients"),
            _run(2, "show clients", principal="bob"),
            _run(3, "freeze the first", before=("show clients",)),
            _run(4, "and now?", before=("show clients", "freeze the first")),
            _run(5, "something else"),
        ]
    )
    assert [run.group for run in runs] == ["r1", "r2", "r1", "r1", "r5"]


def test_what_was_called_is_the_label_and_what_is_gone_is_not():
    catalog = _catalog("a")
    runs = [_run(1, "x", ("a_0", "gone")), _run(2, "y"), _run(3, "z", ("gone",))]
    (request,) = labelled(runs, catalog)
    assert request.gold == {"a_0"}


def test_a_call_of_a_tool_that_does_not_exist_is_no_use_of_it():
    run = _run(1, "x", called=())
    assert (
        RecordedRun(
            run_id="r",
            started=0.0,
            principal="ann",
            messages=run.messages,
            selected=(),
            called=(RecordedCall(name="x", error="unknown_tool"),),
        ).used
        == ()
    )


def test_defaults_are_proposed_from_the_runs_in_which_nothing_matched():
    catalog = _catalog("a", "b", "c", default=("b", "c"))
    silent = [_run(n, "hm", ("a_0",), no_match=True) for n in range(20)]
    silent += [_run(n, "hm", ("b_0",), no_match=True) for n in range(20, 40)]
    others = [_run(n, "c please", ("c_1",)) for n in range(40, 90)]
    advice = {each.category: each.advice for each in usage_of([*silent, *others], catalog).defaults}
    assert advice == {"a": "add", "b": "keep", "c": "drop"}


def test_categories_used_together_more_often_than_by_chance_are_proposed_as_related():
    catalog = _catalog("a", "b", "c", "d")
    together = [_run(n, "x", ("a_0", "b_0")) for n in range(20)]
    apart = [_run(n, "y", (f"{'cd'[n % 2]}_0",)) for n in range(20, 80)]
    by_chance = [_run(n, "z", ("c_0", "d_0")) for n in range(80, 86)]
    related = usage_of([*together, *apart, *by_chance], catalog).related
    assert {(each.category, each.related) for each in related} == {("a", "b"), ("b", "a")}
    assert all(each.low > 1 and not each.known for each in related)
    # 20 of 86 runs use both: lift 20 * 86 / (20 * 20), low lift * exp(-1.96 * sqrt(1/20 - 1/20 + 1/20 - 1/86))
    assert {(each.runs, each.confidence, each.lift, round(each.low, 3)) for each in related} == {(20, 1.0, 4.3, 2.929)}
    assert usage_of(together[:4] + apart, catalog).related == ()


def test_every_figure_of_the_use_of_tools_and_categories_is_counted_by_hand():
    def sent(tokens, *names):
        return RecordedDelivery(tools=names, tokens=tokens)

    runs = [
        _run(
            1,
            "x",
            ("a_0",),
            selected=("a_0", "b_0"),
            categories=("a", "b"),
            matched=("a",),
            tokens_all=100,
            deliveries=(sent(40, "a_0", "b_0"), sent(40, "a_0", "b_0")),
        ),
        _run(
            2, "y", selected=("c_0",), categories=("c",), no_match=True, tokens_all=100, deliveries=(sent(20, "c_0"),)
        ),
        replace(
            _run(3, "z", selected=("b_0",), categories=("b",), matched=("b",), category_of={"gone": None}),
            called=(RecordedCall(name="a_1", error="failed"), RecordedCall(name="no", error="unknown_tool")),
        ),
    ]
    usage = usage_of(runs, _catalog("a", "b", "c"))
    counts = [
        (use.name, use.matched, use.related, use.default, use.sent, use.called, use.missed) for use in usage.categories
    ]
    assert counts == [("a", 1, 0, 0, 1, 2, 1), ("b", 1, 1, 0, 2, 0, 0), ("c", 0, 0, 1, 1, 0, 0)]
    size = definition_tokens((Tool(name="b_0", category="b"),))
    tools = {use.name: (use.selected, use.sent, use.calls, use.failed, use.missed, use.tokens) for use in usage.tools}
    assert tools["a_0"] == (1, 2, 1, 0, 0, 0)
    assert tools["a_1"] == (0, 0, 1, 1, 1, 0)
    assert tools["b_0"] == (2, 2, 0, 0, 0, 2 * size)
    assert tools["c_0"] == (1, 1, 0, 0, 0, size)
    assert (usage.runs, usage.with_calls, usage.since, usage.until, usage.no_match) == (3, 2, 1.0, 3.0, 1)
    assert (usage.never_called, usage.never_sent) == (("b_0", "c_0"), ("b_1", "c_1"))
    tokens = usage.tokens
    assert (tokens.all, tokens.sent, tokens.unused, tokens.exact) == (300, 100, 3 * size, True)
    without = usage_of(runs).tokens  # 100 tokens were sent in 5 definitions
    assert (without.unused, without.exact) == (60, False)


def test_hints_are_words_the_missed_requests_share_and_others_do_not_say():
    catalog = Catalog.of([Tool(name="freeze_membership", description="Pause a membership"), Tool(name="list_clients")])
    missed = [
        _run(
            n,
            f"Anna in holiday mode from {day}, membership",
            ("freeze_membership",),
            selected=("list_clients",),
        )
        for n, day in enumerate(("monday", "tuesday", "friday"))
    ]
    usual = [
        _run(n, "please list the mode of Anna", ("list_clients",), selected=("list_clients",)) for n in range(3, 20)
    ]
    found = misses_of([*missed, *usual], catalog)
    (tool,) = found.tools
    assert (tool.tool, tool.missed, tool.served) == ("freeze_membership", 3, 0)
    assert [hint.word for hint in tool.hints] == ["holiday"]
    assert (tool.hints[0].requests, tool.hints[0].elsewhere) == (3, 0)
    assert found.patch() == {"freeze_membership": ("holiday",)}


def test_chinese_requests_give_hints_too():
    catalog = Catalog.of([Tool(name="pause", description="暂停会员"), Tool(name="list", description="客户列表")])
    missed = [_run(n, text, ("pause",), selected=("list",)) for n, text in enumerate(("我要度假", "她去度假了"))]
    usual = [_run(n, "显示客户", ("list",), selected=("list",)) for n in range(2, 8)]
    (tool,) = misses_of([*missed, *usual], catalog).tools
    assert "度假" in [hint.word for hint in tool.hints]


def test_a_preset_that_selects_nothing_misses_nothing():
    run = _run(1, "x", ("a_0",), preset="compact")
    assert misses_of([run], _catalog("a")).tools == ()


def test_what_was_looked_for_in_vain_is_told_apart():
    run = _run(1, "play music", sought=(ToolSearch(by="search_tools", words="music player"),), selected=("a_0",))
    found = misses_of([run], _catalog("a"))
    assert found.tools == ()
    assert [(each.by, each.asked) for each in found.unmet] == [("search_tools", "music player")]


def test_a_replay_says_that_the_run_saw_less_or_another_catalog():
    catalog = _catalog("a", "b")
    nothing = Selection(tools=tuple(SelectedTool(tool=tool) for tool in catalog.tools[:2]))
    seen = {"catalog_version": catalog.version, "catalog_size": 4}
    run = _run(1, "x", ("a_0", "b_0"), selected=("a_0",), **seen)
    assert replayed(run, nothing, catalog).notes == ()
    assert replayed(run, nothing, catalog).verdict == "the same: 1 of 2 tools called are in both"
    narrow = replayed(_run(1, "x", selected=("a_0",), **{**seen, "catalog_size": 2}), nothing, catalog)
    assert narrow.notes == ("the run could see 2 of the 4 tools; the replay sees all of them",)
    assert narrow.verdict.startswith("no tool was called")
    other = replayed(_run(1, "x", ("b_0",), selected=("gone", "b_0"), catalog_version="old"), nothing, catalog)
    assert "it no longer has these selected tools: gone" in other.notes[0]
    assert other.verdict == "worse: 1 of the 1 tools called would not have been selected"
    with pytest.raises(RequestError, match="cannot be replayed"):
        replayed(_run(1, " "), nothing, catalog)
