"""Tools and prompt of a request are two settings: one does not follow from the other."""

from __future__ import annotations

import pytest

from toolcaddie import Message, RunRequest, Runtime, tool
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

SOUL = Message(role="system", content="You are the archivist. You remember: Ann likes short answers.")


@tool(read_only=True, tags=["collab_safe"])
def look_up(word: str) -> str:
    """Look a word up in the archive."""
    return f"{word}: found"


@tool(read_only=True, tags=["collab_safe"])
def list_shelves() -> str:
    """List the shelves of the archive."""
    return "A to Z"


@tool
def burn(word: str) -> str:
    """Burn a page of the archive."""
    raise AssertionError("not in a collaboration")


@pytest.mark.proves("X-9")
async def test_a_collaboration_may_call_every_safe_tool_though_its_prompt_tells_of_none() -> None:
    provider = ScriptedProvider(
        [calls(("look_up", {"word": "x"}), ("list_shelves", {})), call("burn", {"word": "x"}), say("ok")]
    )
    runtime = Runtime(provider=provider, sources=[look_up, list_shelves, burn])
    asked = (SOUL, Message(role="user", content="look x up and list the shelves"))
    result = await runtime.run(RunRequest(messages=asked, tags=("collab_safe",)))
    offered = [definition["function"]["name"] for definition in provider.requests[0].tools]
    assert offered == ["look_up", "list_shelves"]
    assert result.tool_calls == ("look_up", "list_shelves")
    assert "There is no tool 'burn'" in result.state.messages[-2].text
    assert provider.requests[0].messages[0] == SOUL, "the prompt is as it was given"


@pytest.mark.proves("X-9")
async def test_the_same_prompt_with_other_tools_and_the_same_tools_with_another_prompt() -> None:
    provider = ScriptedProvider([say("a"), say("b"), say("c")])
    runtime = Runtime(provider=provider, sources=[look_up, list_shelves, burn])
    user = Message(role="user", content="burn x")
    for messages, tags in (((SOUL, user), None), ((SOUL, user), ("collab_safe",)), ((user,), ("collab_safe",))):
        await runtime.run(RunRequest(messages=messages, tags=tags))
    everything, safe, alike = (len(request.tools) for request in provider.requests)
    assert (everything, safe, alike) == (3, 2, 2)
