"""Results within a cap, and always text."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcaddie.control.results.truncate import Truncate, truncated
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.ports import Invocation


@pytest.mark.anyio
async def test_a_long_result_is_cut_and_says_how_long_it_was(invocation: Callable[..., Invocation]) -> None:
    async def long(_: Invocation) -> ToolResult:
        return ToolResult(content="x" * 5_000, structured="x" * 5_000)

    result = await Truncate(1_000)(invocation(), long)
    assert len(result.content) == 1_000
    assert result.content.endswith("\n[cut here: the whole result has 5000 bytes, this is its beginning]")
    assert result.structured is None
    assert not result.is_error


def test_a_result_within_the_cap_is_the_same_object() -> None:
    for result in (
        ToolResult(content="x" * 1_000),
        ToolResult(content="é" * 500, structured={"a": 1}),
        failed("no", "denied"),
    ):
        assert truncated(result, 1_000) is result


def test_the_cut_falls_between_characters() -> None:
    result = truncated(ToolResult(content="€" * 1_000), 200)
    text, _, note = result.content.partition("\n")
    assert set(text) == {"€"}
    assert "3000 bytes" in note
    assert len(result.content.encode()) <= 200


def test_half_a_surrogate_pair_becomes_a_replacement_character_and_a_whole_one_its_meaning() -> None:
    assert truncated(ToolResult(content="a\ud83db"), 1_000).content == "a\ufffdb"
    assert truncated(ToolResult(content="\ud83d\ude00"), 1_000).content == "\N{GRINNING FACE}"
    assert truncated(ToolResult(content="\ud83d" * 1_000), 300).content.startswith("\ufffd")


@pytest.mark.parametrize("structured", [["x" * 2_000], {"a": object()}, {"a": "\ud800"}, {1: {2: 3}, "a": 1j}])
def test_a_structured_value_over_the_cap_or_without_a_json_form_is_dropped(structured: Any) -> None:
    result = truncated(ToolResult(content="short", structured=structured), 1_000)
    assert (result.content, result.structured) == ("short", None)


@pytest.mark.parametrize("character", ["x", "€"])
def test_fifty_megabytes_are_cut_without_being_copied(character: str) -> None:
    content = character * (50_000_000 // len(character.encode()))
    tracemalloc.start()
    try:
        result = truncated(ToolResult(content=content), 100_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "bytes, this is its beginning" in result.content
    assert len(result.content.encode()) <= 100_000
    assert peak < 10_000_000


@given(st.text(st.characters(codec=None), max_size=400), st.integers(100, 400))
def test_whatever_comes_out_is_utf8_within_the_cap(content: str, cap: int) -> None:
    result = truncated(ToolResult(content=content, structured={"a": content}), cap)
    assert len(result.content.encode()) <= cap
    msgspec.json.encode(result)
