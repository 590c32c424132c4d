"""The way out when the choice was wrong: each of the five systems has its own, and its preset has that one (X-21)."""

from __future__ import annotations

from typing import Any

import pytest

from toolcaddie.core.catalog import Category
from toolcaddie.core.message import Message
from toolcaddie.core.meta_names import EXECUTE_TOOL, REQUEST_MORE_TOOLS, RESPOND, SEARCH_TOOLS
from toolcaddie.core.run import RunRequest
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

CATEGORIES = [
    Category(name="desk", keywords=("desk",), default=True),
    Category(name="notes", keywords=("note",)),
    Category(name="github", keywords=("issue",), related=("people",)),
    Category(name="people", keywords=("person",)),
]


def office() -> FunctionSource:
    made = []
    for category in ("desk", "notes", "github", "people"):
        for number in range(3):

            def run(text: str = "") -> str:
                return f"did it with {text}"

            run.__name__ = f"{category}_{number}"
            run.__doc__ = f"Works on {category}, way {number}."
            made.append(tool(category=category)(run))
    return FunctionSource("office", made, categories=CATEGORIES)


async def answered(preset: str, request_or_text: str | RunRequest, *steps: Any) -> tuple[Any, list[list[str]]]:
    """The result, and the names sent in each round."""
    provider = ScriptedProvider([*steps, say("done")])
    result = await Runtime(provider=provider, sources=[office()], preset=preset).run(request_or_text)
    return result, [[definition["function"]["name"] for definition in request.tools] for request in provider.requests]


@pytest.mark.proves("X-21")
async def test_budget_asks_for_more_tools_in_the_same_request() -> None:
    more = call(REQUEST_MORE_TOOLS, {"categories": ["github"]})
    result, names = await answered("budget", "a note on this", more, call("github_1"))
    assert names[0] == [REQUEST_MORE_TOOLS, "notes_0", "notes_1", "notes_2"]
    assert names[1] == [*names[0], "github_0", "github_1", "github_2"]
    assert result.tool_calls == ("github_1",)


@pytest.mark.proves("X-21")
async def test_keyword_has_related_categories_history_and_defaults_and_no_meta_tool() -> None:
    _, (related,) = await answered("keyword", "close the issue")
    assert {name.split("_")[0] for name in related} == {"github", "people"}
    earlier = (Message(role="user", content="make a note"), Message(role="assistant", content="done"))
    _, (history,) = await answered(
        "keyword", RunRequest(messages=(*earlier, Message(role="user", content="again, please")))
    )
    assert {name.split("_")[0] for name in history} == {"notes"}
    _, (defaults,) = await answered("keyword", "good morning")
    assert {name.split("_")[0] for name in defaults} == {"desk"}


@pytest.mark.proves("X-21")
async def test_multibot_needs_no_way_out_because_everything_is_sent() -> None:
    _, (names,) = await answered("multibot", "good morning")
    assert names == [f"{category.name}_{number}" for category in CATEGORIES for number in range(3)]


@pytest.mark.proves("X-21")
async def test_forced_asks_the_model_again_with_the_same_tools() -> None:
    result, names = await answered("forced", "close the issue", say("I think so."), call("github_1"))
    assert (result.tool_calls, result.state.forced) == (("github_1",), 1)
    assert names[0] == names[1]
    assert len(names[0]) == 12


@pytest.mark.proves("X-21")
async def test_compact_searches() -> None:
    search = call(SEARCH_TOOLS, {"query": "github"})
    result, names = await answered(
        "compact",
        "close the issue",
        search,
        call(EXECUTE_TOOL, {"tool_name": "github_1"}),
        call(RESPOND, {"message": "x"}),
    )
    assert (result.tool_calls, result.text) == (("github_1",), "x")
    assert names[0] == names[2]
    assert REQUEST_MORE_TOOLS not in names[0]
