"""Functions that come and go while the source is in use."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from toolcaddie.core.catalog import Catalog, Category
from toolcaddie.core.errors import CatalogError, DuplicateToolError
from toolcaddie.sources.functions import FunctionSource, tool


def named(name: str, answer: str = "") -> Any:
    return tool(lambda: answer or name, name=name)


def names(source: FunctionSource) -> list[str]:
    return [each.name for each in source.tools()]


def test_a_source_has_a_name_its_tools_carry_and_its_categories() -> None:
    members = Category(name="members", keywords=("freeze",))
    source = FunctionSource("gym", [named("freeze")], categories=[members])
    assert source.name == "gym"
    assert [each.source for each in source.tools()] == ["gym"]
    assert source.categories() == (members,)
    assert Catalog.of(source.tools(), source.categories()).category("members") is members


def test_every_change_shows_in_the_revision_and_nothing_else_does() -> None:
    source = FunctionSource("s", [named("a")])
    seen = [source.revision]
    for change in (
        lambda: source.add(named("b")),
        lambda: source.replace(named("a", "new")),
        lambda: source.remove("b"),
    ):
        change()
        assert source.revision not in seen
        seen.append(source.revision)
    source.tools()
    assert source.revision == seen[-1]


@pytest.mark.anyio
async def test_a_removed_tool_answers_that_it_was_withdrawn(call_context: Any) -> None:
    source = FunctionSource("s", [named("a"), named("b")])
    gone, _ = source.tools()
    context = call_context(source)
    source.remove("a")
    result = await source.call_tool(gone, {}, context)
    assert (result.error, result.content) == ("revoked", "the tool 'a' has been withdrawn; do without it")
    source.add(named("a", "back"))
    assert (await source.call_tool(gone, {}, context)).content == "back"


@pytest.mark.anyio
async def test_a_replaced_tool_keeps_its_place_and_runs_the_new_function(call_context: Any) -> None:
    source = FunctionSource("s", [named("a"), named("b")])
    old = source.tools()[0]
    context = call_context(source)
    new = source.replace(named("a", "new"))
    assert source.tools()[0] is new
    assert (await source.call_tool(old, {}, context)).content == "new"


def test_adding_returns_the_tools_and_a_taken_name_is_refused_with_both_places() -> None:
    source = FunctionSource("s")
    (made,) = source.add(named("a"))
    assert made is source.tools()[0]
    with pytest.raises(DuplicateToolError, match=r"source 's' has a tool 'a' already: .*\.py:\d+\) and .*\.py:\d+\)"):
        source.add(named("a"))
    assert names(source) == ["a"]


def test_an_object_is_added_whole_or_not_at_all() -> None:
    class Desk:
        def open(self) -> None: ...

        def a(self) -> None: ...

    source = FunctionSource("s", [named("a")])
    before = source.revision
    with pytest.raises(DuplicateToolError):
        source.add(Desk())
    assert (names(source), source.revision) == (["a"], before)


def test_what_is_not_there_can_be_neither_replaced_nor_removed() -> None:
    source = FunctionSource("s")
    with pytest.raises(CatalogError, match="source 's' has no tool 'x' to replace; add it"):
        source.replace(named("x"))
    with pytest.raises(CatalogError, match="source 's' has no tool 'x' to remove"):
        source.remove("x")


def test_changes_from_many_threads_are_all_kept() -> None:
    source = FunctionSource("s")
    start = threading.Barrier(4)

    def change(worker: int) -> None:
        start.wait()
        for number in range(25):
            source.add(named(f"w{worker}_{number}"))
        for number in range(0, 25, 2):
            source.remove(f"w{worker}_{number}")

    threads = [threading.Thread(target=change, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names(source)) == sorted(f"w{worker}_{number}" for worker in range(4) for number in range(1, 25, 2))
    assert source.revision == 4 * (25 + 13)
