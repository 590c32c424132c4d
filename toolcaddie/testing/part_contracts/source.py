"""Checks of a source, which has tools and runs them.

Part of the contract suite `SOURCE` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolcaddie.core.catalog import Catalog, check_tool
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.ports import OpenableSource, ToolSource
from toolcaddie.testing.contract import Checks, expect, expect_equal
from toolcaddie.testing.part_contracts.subject import Subject, context

CHECKS: Checks[Subject[ToolSource]] = Checks()


def _is_openable(subject: Subject[ToolSource]) -> bool:
    return isinstance(subject.make(), OpenableSource)


@asynccontextmanager
async def _opened(subject: Subject[ToolSource]) -> AsyncIterator[ToolSource]:
    source = subject.make()
    if not isinstance(source, OpenableSource):
        yield source
        return
    await source.open()
    try:
        yield source
    finally:
        await source.close()


@CHECKS.add()
async def it_has_all_members_of_its_interface_and_a_name(subject: Subject[ToolSource]) -> None:
    source = subject.make()
    expect(isinstance(source, ToolSource), f"{type(source).__name__} lacks a member of ports.ToolSource")
    expect(isinstance(source.name, str) and bool(source.name), f"the name of the source is {source.name!r}")
    expect(isinstance(source.revision, int), f"the revision is {source.revision!r}, not a number")


@CHECKS.add()
async def its_tools_are_valid_and_make_a_catalog(subject: Subject[ToolSource]) -> None:
    async with _opened(subject) as source:
        tools = source.tools()
        expect(len(tools) > 0, "the source has no tools")
        for tool in tools:
            expect(isinstance(tool, Tool), f"{tool!r} is not a Tool")
            check_tool(tool)
            expect_equal(tool.source, source.name, f"the tool {tool.name} names another source")
        Catalog.of(tools, source.categories())


@CHECKS.add()
async def every_category_of_a_tool_is_one_of_its_categories(subject: Subject[ToolSource]) -> None:
    async with _opened(subject) as source:
        categories = {category.name for category in source.categories()}
        strays = {tool.category for tool in source.tools() if tool.category is not None} - categories
        expect(not strays or not categories, f"tools are in categories that the source does not have: {sorted(strays)}")


@CHECKS.add()
async def the_same_revision_gives_the_same_tools(subject: Subject[ToolSource]) -> None:
    async with _opened(subject) as source:
        first, revision = list(source.tools()), source.revision
        second = list(source.tools())
        expect(first == second or source.revision != revision, "the tools changed, but the revision did not")


@CHECKS.add()
async def a_call_of_a_tool_that_it_does_not_have_returns_an_error(subject: Subject[ToolSource]) -> None:
    async with _opened(subject) as source:
        gone = Tool(name="contract_no_such_tool", source=source.name)
        result = await source.call_tool(gone, {}, context())
        expect(isinstance(result, ToolResult), f"a call returned a {type(result).__name__}, not a ToolResult")
        expect(bool(result.error), "the result of a call of a tool that the source does not have contains no error")


@CHECKS.add(applies_to=_is_openable)
async def it_may_be_opened_again_after_it_was_closed(subject: Subject[ToolSource]) -> None:
    source = subject.make()
    assert isinstance(source, OpenableSource)
    names: list[list[str]] = []
    for _ in range(2):
        await source.open()
        names.append([tool.name for tool in source.tools()])
        await source.close()
    expect_equal(names[1], names[0], "the names of its tools after it was opened a second time")


@CHECKS.add(applies_to=_is_openable)
async def closing_it_before_it_was_opened_does_nothing(subject: Subject[ToolSource]) -> None:
    source = subject.make()
    assert isinstance(source, OpenableSource)
    await source.close()
