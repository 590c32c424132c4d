"""The contradictions of source 001: the decisions, and their place in the docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcaddie.runtime import Runtime
from toolcaddie.samples import gym
from toolcaddie.testing import ScriptedProvider, say

PAGE = Path(__file__).parents[2] / "docs" / "gym.md"
ASKED = "show me today's attendance"


@pytest.mark.anyio
@pytest.mark.proves("X-4")
@pytest.mark.parametrize(
    ("message", "count", "categories"),
    [(ASKED, 14, ["attendance"]), ("show me revenue and attendance stats", 16, ["attendance", "revenue"])],
)
async def test_attendance_brings_no_related_categories(message: str, count: int, categories: list[str]) -> None:
    provider = ScriptedProvider([say("done")])
    runtime = Runtime(provider=provider, sources=[gym.source()], preset="keyword")
    result = await runtime.run(message)
    assert result.selection is not None
    assert sorted(result.selection.categories) == categories
    assert len(provider.requests[0].tools) == count
    assert runtime.source.snapshot().category("attendance").related == ()  # type: ignore[union-attr]


@pytest.mark.proves("X-4")
def test_the_page_of_the_gym_says_that_the_sources_example_is_wrong() -> None:
    text = " ".join(PAGE.read_text().split())
    assert f'"{ASKED}" selects 14 tools' in text
    assert "in the description of that system counts 32 tools" in text
    assert "This contradicts the table." in text
