"""Three hundred tools at each of the gateway's doors, in front of an upstream that takes 128: a hundred different requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.clients.errands import HUNDRED, NAMES, needed_tool, request_for
from tests.doors.serving import gateway
from tests.doors.wire_clients import CLIENTS, client_of
from toolcaddie.testing import ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio


def finds_its_tool(body: Any) -> Any:
    """Calls the tool of the request, which must be among those that were sent, and answers with its result."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return say(f"Result: {last['content']}")
    wanted = needed_tool(last["content"] if isinstance(last["content"], str) else last["content"][0]["text"])
    assert wanted in [tool["function"]["name"] for tool in body["tools"]], wanted
    return call(wanted, {"member": wanted})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("door", CLIENTS)
async def test_a_hundred_requests_with_300_tools_all_work_at_every_door(
    tmp_path: Path, door: str, stream: bool
) -> None:
    """The upstream takes 128 tools. The client runs the tool that the model called, and gets the answer with its result."""
    async with (
        ScriptedUpstream(finds_its_tool) as scripted,
        gateway(tmp_path, scripted.base_url) as served,
        client_of(door, served.base_url) as client,
    ):

        async def finish(name: str) -> None:
            history = client.user(request_for(name))
            first = await client.ask(history, NAMES, stream=stream)
            (made,) = first.calls
            assert (made.name, made.arguments) == (name, {"member": name})
            history += [*first.items, *client.result(made, f"{name} is done")]
            assert (await client.ask(history, NAMES, stream=stream)).text == f"Result: {name} is done"

        for start in range(0, 100, 10):
            await asyncio.gather(*map(finish, HUNDRED[start : start + 10]))
        assert not scripted.refusals
        assert all(len(body["tools"]) <= 128 for body in scripted.bodies)


async def test_the_scripted_upstream_refuses_300_tools() -> None:
    """It is as strict as the provider, so the requests above could fail."""
    async with ScriptedUpstream() as scripted, client_of("chat", scripted.base_url.removesuffix("/v1")) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.ask(client.user("hello"), NAMES)
        client.sdk.api_key = "test-key"
        with pytest.raises(openai.BadRequestError, match="128"):
            await client.ask(client.user("hello"), NAMES)
