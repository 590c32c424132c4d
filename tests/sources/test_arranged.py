"""A part of a source's tools under other names, and sources that are added and removed while requests are served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sources.openapi.recording import document, operation
from tests.sources.test_combined import context, functions, names
from toolcaddie import Runtime
from toolcaddie.core.errors import CatalogError, ConfigError, DuplicateToolError
from toolcaddie.sources.arranged import arranged
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.openapi import OpenApi, OpenApiSource
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

GYM = ("get_member", "get_invoice", "send_invoice", "close")


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({}, list(GYM)),
        ({"include": ["get_*"]}, ["get_member", "get_invoice"]),
        ({"exclude": ["*_invoice", "close"]}, ["get_member"]),
        ({"include": ["get_*"], "exclude": ["*_member"], "prefix": "gym"}, ["gym__get_invoice"]),
        ({"prefix": "gym", "include": ["get_member", "close"], "rename": {"close": "bye"}}, ["gym__get_member", "bye"]),
    ],
    ids=["all", "include", "exclude", "prefix", "rename"],
)
def test_patterns_and_names_choose_what_is_shown(settings: dict[str, Any], shown: list[str]) -> None:
    assert [tool.name for tool in arranged(functions("gym", *GYM), **settings).tools()] == shown


async def test_a_renamed_tool_runs_and_shows_its_origin() -> None:
    source = CombinedSource([arranged(functions("gym", *GYM), rename={"close": "bye"}, prefix="gym")])
    catalog = source.snapshot()
    tool = catalog.get("bye")
    assert tool is not None
    assert (tool.source, tool.original) == ("gym", "close")
    assert (await source.call_tool(tool, {}, context(catalog))).text == "gym.close"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"include": ["gte_*"]}, "the pattern 'gte_*' fits none of its tools"),
        ({"exclude": ["open"]}, "the pattern 'open' fits none of its tools"),
        ({"rename": {"clse": "bye"}}, "rename names 'clse', which is none of its tools; did you mean 'close'?"),
        ({"rename": {"close": "get_member"}}, "'get_member' and 'close' would both be called 'get_member'"),
    ],
    ids=["include", "exclude", "rename", "collision"],
)
def test_a_setting_that_fits_no_tool_is_an_error_that_names_it(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        arranged(functions("gym", *GYM), **settings)
    assert sentence in str(caught.value)
    assert "'gym'" in str(caught.value)


def api(folder: Path, *ids: str) -> OpenApiSource:
    path = folder / "api.json"
    path.write_text(json.dumps(document({f"/{each}": {"get": {**operation(), "operationId": each}} for each in ids})))
    return OpenApiSource(OpenApi(name="api", document=str(path)))


async def test_a_source_that_connects_is_checked_when_it_opens(tmp_path: Path) -> None:
    async with CombinedSource([arranged(api(tmp_path, "a", "b"), include=["a"], rename={"a": "first"})]) as source:
        assert names(source) == ["first"]
    with pytest.raises(ConfigError, match="the pattern 'none' fits none of its tools"):
        await CombinedSource([arranged(api(tmp_path, "a"), include=["none"])]).open()


# --- added and removed -------------------------------------------------------------------------------------------------------


async def test_a_source_is_added_and_removed_while_requests_are_served(tmp_path: Path) -> None:
    model = ScriptedProvider([call("b", {}), say("done"), call("b", {}), say("gone")])
    async with Runtime(provider=model, sources=[functions("one", "a")]) as runtime:
        await runtime.add_source(functions("two", "b"))
        await runtime.add_source(api(tmp_path, "c"))
        assert names(runtime.source) == ["a", "b", "c"]
        assert (await runtime.run("use b")).text == "done"
        await runtime.remove_source("two")
        await runtime.remove_source("api")
        assert names(runtime.source) == ["a"]
        assert (await runtime.run("use b")).text == "gone"


async def test_a_call_of_a_removed_tool_by_a_request_under_way_is_revoked() -> None:
    source = CombinedSource([functions("one", "a"), functions("two", "b")])
    before = source.snapshot()
    await source.change(remove=["two"])
    tool = before.get("b")
    assert tool is not None
    result = await source.call_tool(tool, {}, context(before))
    assert (result.error, names(source)) == ("revoked", ["a"])


async def test_a_source_replaces_another_of_its_name_in_one_step() -> None:
    source = CombinedSource([functions("one", "a"), functions("two", "b")])
    await source.change(remove=["two"], add=[functions("two", "b", "c")])
    catalog = source.snapshot()
    assert [each.name for each in catalog] == ["a", "b", "c"]
    tool = catalog.get("c")
    assert tool is not None
    assert (await source.call_tool(tool, {}, context(catalog))).text == "two.c"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"add": [functions("two", "x")]}, ConfigError),
        ({"add": [functions("three", "a")]}, DuplicateToolError),
        ({"add": [functions("three", "search_tools")]}, CatalogError),
        ({"remove": ["there"]}, ConfigError),
        ({"remove": ["one"], "add": [functions("three", "b")]}, DuplicateToolError),
    ],
    ids=["name-taken", "tool-taken", "reserved", "unknown", "half"],
)
async def test_a_change_that_cannot_be_made_changes_nothing(change: dict[str, Any], error: type[Exception]) -> None:
    source = CombinedSource([functions("one", "a"), functions("two", "b")])
    with pytest.raises(error):
        await source.change(**change)
    assert (names(source), source.part_names) == (["a", "b"], ("one", "two"))


async def test_a_source_that_cannot_be_opened_is_not_added(tmp_path: Path) -> None:
    missing = OpenApiSource(OpenApi(name="api", document=str(tmp_path / "none.json")))
    async with CombinedSource([functions("one", "a")]) as source:
        with pytest.raises(ConfigError, match="cannot be opened"):
            await source.change(add=[missing])
        assert source.part_names == ("one",)
