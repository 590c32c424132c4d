"""Many sources as one catalog, at the start and while they change."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import CatalogError, ConfigError, DuplicateToolError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.functions import FunctionSource, tool


def named(name: str, answer: str = "") -> Any:
    return tool(lambda: answer or name, name=name)


def functions(source: str, *names: str) -> FunctionSource:
    return FunctionSource(source, [named(name, f"{source}.{name}") for name in names])


def names(combined: CombinedSource) -> list[str]:
    return [each.name for each in combined.snapshot()]


def context(catalog: Catalog) -> RunContext:
    return RunContext(run_id="r", principal=Principal(), view=View(catalog=catalog), model="m")


class Given:
    """A source of tools as they are, as a stranger may write one."""

    def __init__(self, name: str, tools: Sequence[Tool], categories: Sequence[Category] = ()) -> None:
        self.name = name
        self.revision = 0
        self._tools, self._categories = tools, categories

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def categories(self) -> Sequence[Category]:
        return self._categories

    def become(self, tools: Sequence[Tool], categories: Sequence[Category] = ()) -> None:
        self._tools, self._categories = tools, categories
        self.revision += 1

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        return ToolResult(content=f"{self.name} ran {tool.name}")


def test_the_catalog_holds_all_parts_in_their_order() -> None:
    combined = CombinedSource([functions("b", "b1", "b2"), functions("a", "a1")])
    assert names(combined) == ["b1", "b2", "a1"]
    assert [each.source for each in combined.tools()] == ["b", "b", "a"]
    assert CombinedSource([]).snapshot().tools == ()


@pytest.mark.anyio
async def test_calls_go_to_the_part_whose_tool_it_is() -> None:
    inner = CombinedSource([functions("a", "a1"), functions("b", "b1")], name="inner")
    outer = CombinedSource([functions("c", "c1"), inner])
    catalog = outer.snapshot()
    answers = [(await outer.call_tool(each, {}, context(catalog))).content for each in catalog]
    assert answers == ["c.c1", "a.a1", "b.b1"]


@pytest.mark.anyio
async def test_a_tool_revoked_since_the_snapshot_says_so_and_the_others_run() -> None:
    part = functions("a", "a1", "a2")
    combined = CombinedSource([CombinedSource([part], name="inner"), functions("b", "b1")])
    catalog = combined.snapshot()
    part.remove("a1")
    part.remove("a2")
    results = [await combined.call_tool(each, {}, context(catalog)) for each in catalog]
    assert [result.error for result in results] == ["revoked", "revoked", None]
    stranger = replace(catalog.tools[0], source="elsewhere")
    assert (await combined.call_tool(stranger, {}, context(catalog))).error == "revoked"


@pytest.mark.proves("R004-8")
def test_a_snapshot_is_one_shared_object_until_a_part_changes() -> None:
    part = functions("a", "a1")
    combined = CombinedSource([part, functions("b", "b1")])
    first, revision = combined.snapshot(), combined.revision
    assert combined.snapshot() is first
    assert combined.revision == revision
    part.add(named("a2"))
    second = combined.snapshot()
    assert (second is first, combined.revision == revision) == (False, False)
    assert [each.name for each in first] == ["a1", "b1"]
    assert [each.name for each in second] == ["a1", "a2", "b1"]
    assert second.version != first.version
    part.remove("a2")
    assert combined.snapshot().version == first.version


def test_names_taken_twice_are_refused_at_the_start_with_both_sources() -> None:
    with pytest.raises(ConfigError, match="two sources are called 'a'; give one of them another name"):
        CombinedSource([functions("a", "x"), functions("a", "y")])
    with pytest.raises(DuplicateToolError, match="tool 'x' comes from source 'a' and again from source 'b'"):
        CombinedSource([functions("a", "x"), functions("b", "x")])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Tool(name="respond", source="s"), "tool 'respond' of source 's': a meta tool has this name; rename yours"),
        (Tool(name="a b", source="s"), "tool 'a b' of source 's': a name is 1 to 64"),
        (Tool(name="x", source="s", input_schema={"type": "array"}), "tool 'x' of source 's': .* not 'array'"),
        (
            Tool(name="x", source="s", input_schema={"$ref": "file:///etc/passwd"}),
            "tool 'x' of source 's': .* never fetched",
        ),
        (Tool(name="x", source="other"), "tool 'x' comes from source 's' but names 'other', another one"),
    ],
)
def test_a_bad_tool_is_refused_at_the_start_with_source_and_tool(bad: Tool, words: str) -> None:
    with pytest.raises(CatalogError, match=words):
        CombinedSource([functions("other", "y"), Given("s", [bad])])


def test_the_same_category_may_come_twice_but_not_in_two_shapes() -> None:
    members = Category(name="members", keywords=("freeze",))
    combined = CombinedSource([Given("a", [], [members]), Given("b", [], [Category(name="x"), replace(members)])])
    assert [category.name for category in combined.categories()] == ["members", "x"]
    with pytest.raises(CatalogError, match="category 'members' is defined by source 'a' and differently by source 'b'"):
        CombinedSource([Given("a", [], [members]), Given("b", [], [Category(name="members")])])


def test_a_newcomer_that_does_not_fit_is_left_out_alone_until_it_does() -> None:
    late, early = functions("late", "l1"), functions("early", "e1")
    combined = CombinedSource([late, early])
    late.add(named("e1"))  # stands before in order, but came after
    late.add(named("l2"))
    early.add(named("respond"))
    with capture_logs() as logs:
        assert names(combined) == ["l1", "l2", "e1"]
    assert combined.snapshot().get("e1") is early.tools()[0]
    assert set(combined.problems) == {
        "tool 'e1' comes from source 'early' and again from source 'late'; rename one or leave one source out",
        "tool 'respond' of source 'early': a meta tool has this name; rename yours",
    }
    assert sorted(entry["problem"] for entry in logs) == sorted(combined.problems)
    early.add(named("e2"))
    with capture_logs() as logs:
        assert names(combined) == ["l1", "l2", "e1", "e2"]
    assert logs == []  # said once
    early.remove("e1")
    early.remove("respond")
    assert names(combined) == ["l1", "e1", "l2", "e2"]
    assert combined.problems == ()


def test_a_live_change_to_a_bad_definition_costs_that_tool_only() -> None:
    part = Given("s", [Tool(name="x", source="s"), Tool(name="y", source="s")])
    combined = CombinedSource([part])
    part.become([Tool(name="x", source="s", input_schema={"type": 5}), Tool(name="y", source="s", description="new")])
    assert [(each.name, each.description) for each in combined.snapshot()] == [("y", "new")]
    assert "tool 'x' of source 's'" in combined.problems[0]


def test_a_live_clash_of_categories_leaves_the_one_that_was_there() -> None:
    first, second = Given("a", []), Given("b", [], [Category(name="c", description="old")])
    combined = CombinedSource([first, second])
    first.become([], [Category(name="c", description="new")])
    assert combined.snapshot().categories == (Category(name="c", description="old"),)
    assert "category 'c' is defined by source 'b' and differently by source 'a'" in combined.problems[0]


def test_snapshots_stay_whole_while_threads_add_and_remove() -> None:
    parts = [FunctionSource(f"s{number}", [named(f"fixed{number}")]) for number in range(3)]
    combined = CombinedSource(parts)
    done = threading.Event()
    failures: list[BaseException] = []

    def change(part: FunctionSource) -> None:
        for number in range(60):
            part.add(named(f"{part.name}_{number}"))
            if number % 2:
                part.remove(f"{part.name}_{number - 1}")

    def read() -> None:
        try:
            while not done.is_set():
                before = combined.revision
                catalog = combined.snapshot()
                assert combined.revision >= before
                found = [each.name for each in catalog]
                assert len(set(found)) == len(found)
                assert {"fixed0", "fixed1", "fixed2"} <= set(found)
                for part in parts:  # each part's own order, and at most one tool on its way out
                    own = [name for name in found if name.startswith(f"{part.name}_")]
                    numbers = [int(name.rpartition("_")[2]) for name in own]
                    assert numbers == sorted(numbers)
                    assert sum(number % 2 == 0 for number in numbers) <= 1
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    writers = [threading.Thread(target=change, args=(part,)) for part in parts]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert failures == []
    assert len(combined.snapshot()) == 3 + 3 * 30
