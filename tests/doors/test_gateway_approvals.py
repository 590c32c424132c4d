"""A call that needs a person's approval, through each door of the gateway: the answer says so, and the conversation goes on
once a person has answered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.doors.serving import gateway
from tests.doors.wire_clients import client_of
from toolcaddie.control.policy.cedar import CedarPolicy, Restrictions
from toolcaddie.core.control import Principal
from toolcaddie.sources.functions import tool
from toolcaddie.testing import ScriptedUpstream, call, calls, say

pytestmark = pytest.mark.anyio

BOSS = Principal(id="boss")
doors = pytest.mark.parametrize("door", ["chat", "responses", "messages"])
streams = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def _deleting(deleted: list[str]) -> Any:
    @tool(destructive=True)
    def delete_client(name: str) -> str:
        """Delete a client."""
        deleted.append(name)
        return f"deleted {name}"

    return delete_client


def _assistant(client: Any, text: str) -> list[Any]:
    """Returns the answer in the form in which a client sends it back."""
    return [{"role": "assistant", "content": text}]


def _texts(upstream: ScriptedUpstream, number: int) -> Sequence[str]:
    return [str(message.get("content") or message.get("tool_calls")) for message in upstream.bodies[number]["messages"]]


@doors
@streams
@pytest.mark.parametrize("approved", [True, False], ids=["approved", "refused"])
async def test_the_next_message_after_the_answer_continues_the_run(
    tmp_path: Path, door: str, stream: bool, approved: bool
) -> None:
    deleted: list[str] = []
    script = [call("delete_client", {"name": "John"}), say("As you wish."), say("Bye.")]
    async with ScriptedUpstream(script) as upstream:
        history: list[Any] = []
        async with (
            gateway(tmp_path, upstream.base_url, sources=[_deleting(deleted)]) as served,
            client_of(door, served.base_url) as client,
        ):
            history += client.user("delete John")
            paused = await client.ask(history, (), stream=stream)
            assert "This needs a person's approval before it goes on: delete_client (it may delete" in paused.text
            (approval,) = await served.runtime.approvals.list("default", status="open")
            assert f"(toolcaddie approvals show {approval.id})" in paused.text
            assert f"(toolcaddie approvals approve {approval.id})" in paused.text
            assert deleted == []
            await served.runtime.approvals.answer("default", approval.id, approved=approved, by=BOSS)
        async with (
            gateway(tmp_path, upstream.base_url, sources=[_deleting(deleted)]) as served,
            client_of(door, served.base_url) as client,
        ):
            history += [*_assistant(client, paused.text), *client.user("go on")]
            answer = await client.ask(history, (), stream=stream)
            assert answer.text == "As you wish."
            history += [*_assistant(client, answer.text), *client.user("bye")]
            assert (await client.ask(history, (), stream=stream)).text == "Bye."
        assert not upstream.refusals
        texts = _texts(upstream, 1)
        assert "go on" in texts[-3]
        assert "delete_client" in texts[-2]
        assert texts[-1] == ("deleted John" if approved else "A person did not approve this call.")
        assert _texts(upstream, 2)[: len(texts)] == texts
    assert deleted == (["John"] if approved else [])


@doors
@pytest.mark.parametrize("approved", [True, None], ids=["approved", "not answered"])
async def test_calls_before_the_one_that_waits_are_sent_once_with_their_results(
    tmp_path: Path, door: str, approved: bool | None
) -> None:
    deleted: list[str] = []

    @tool(read_only=True)
    def look(at: str) -> str:
        """Look at a client."""
        return f"saw {at}"

    waiting = calls(("look", {"at": "Jim"}), ("delete_client", {"name": "John"}))
    script = [call("look", {"at": "Ann"}), waiting, say("As you wish."), say("Bye.")]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[_deleting(deleted), look]) as served,
        client_of(door, served.base_url) as client,
    ):
        history = client.user("look at Ann and Jim, delete John")
        paused = await client.ask(history, ())
        (approval,) = await served.runtime.approvals.list("default", status="open")
        if approved is not None:
            await served.runtime.approvals.answer("default", approval.id, approved=approved, by=BOSS)
        for text, expected in (("go on", "As you wish."), ("bye", "Bye.")):
            history += [*_assistant(client, paused.text), *client.user(text)]
            paused = await client.ask(history, ())
            assert paused.text == expected
        assert not upstream.refusals
        for number in (2, 3):
            texts = _texts(upstream, number)
            assert [texts.count(f"saw {name}") for name in ("Ann", "Jim")] == [1, 1]
    assert deleted == (["John"] if approved else [])


@doors
async def test_without_an_answer_the_conversation_goes_on_and_the_question_stays(tmp_path: Path, door: str) -> None:
    deleted: list[str] = []
    script = [call("delete_client", {"name": "John"}), say("It waits."), say("Gone.")]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[_deleting(deleted)]) as served,
        client_of(door, served.base_url) as client,
    ):
        history = client.user("delete John")
        paused = await client.ask(history, ())
        history += [*_assistant(client, paused.text), *client.user("what now?")]
        answer = await client.ask(history, ())
        assert (answer.text, deleted) == ("It waits.", [])
        (approval,) = await served.runtime.approvals.list("default", status="open")
        await served.runtime.approvals.answer("default", approval.id, approved=True, by=BOSS)
        history += [*_assistant(client, answer.text), *client.user("and now?")]
        assert (await client.ask(history, ())).text == "Gone."
    assert deleted == ["John"]


async def test_another_principal_does_not_continue_the_run(tmp_path: Path) -> None:
    deleted: list[str] = []
    script = [call("delete_client", {"name": "John"}), say("Hello.")]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[_deleting(deleted)]) as served,
    ):
        _, ann = await served.database.keys.add("ann", Principal(id="ann"))
        _, eve = await served.database.keys.add("eve", Principal(id="eve"))
        messages: list[Any] = [{"role": "user", "content": "delete John"}]
        api = served.client.with_options(api_key=ann).chat.completions
        paused = await api.create(model="m", messages=messages)
        (approval,) = await served.runtime.approvals.list("default", status="open")
        await served.runtime.approvals.answer("default", approval.id, approved=True, by=BOSS)
        messages += [
            {"role": "assistant", "content": paused.choices[0].message.content},
            {"role": "user", "content": "go on"},
        ]
        api = served.client.with_options(api_key=eve).chat.completions
        answer = await api.create(model="m", messages=messages)
        assert answer.choices[0].message.content == "Hello."
    assert deleted == []


async def test_a_tool_denied_to_the_channel_of_the_gateway_does_not_exist_there(tmp_path: Path) -> None:
    deleted: list[str] = []
    policy = CedarPolicy(channels={"gateway": Restrictions(deny=("delete_*",))})
    async with (
        ScriptedUpstream([say("I cannot.")]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[_deleting(deleted)], policy=policy) as served,
        client_of("chat", served.base_url) as client,
    ):
        assert (await client.ask(client.user("delete John"), ())).text == "I cannot."
        assert "tools" not in upstream.bodies[0]
        assert deleted == []
        assert "waits for a person" in (await served.runtime.call("delete_client", {"name": "John"})).text
