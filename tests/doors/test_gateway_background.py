"""Background responses: answered at once, continued without the client, polled, streamed again and cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.databases import database_url
from tests.doors.serving import Gateway, gateway
from toolcaddie import FunctionSource, tool
from toolcaddie.app.settings import GatewaySettings
from toolcaddie.core.control import Principal
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedUpstream, call, paced, refuse, say

pytestmark = pytest.mark.anyio

UNFINISHED = ("queued", "in_progress")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  the upstream has no event for it
            await asyncio.sleep(0.01)


async def ended(served: Gateway, response_id: str) -> Any:
    """The response once it has ended."""
    async with asyncio.timeout(10):
        while (response := await served.client.responses.retrieve(response_id)).status in UNFINISHED:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return response


async def ask(served: Gateway, **more: Any) -> Any:
    return await served.client.responses.create(model="m", input="hi", background=True, **more)


async def test_a_background_response_is_answered_at_once_and_completed_later(tmp_path: Path) -> None:
    @tool
    def freeze_membership(member: str) -> str:
        """Freeze a membership."""
        return f"{member} is frozen"

    gate = asyncio.Semaphore(0)
    script = [paced(call("freeze_membership", {"member": "John"}), gate), say("Frozen."), say("Again.")]
    sources = [FunctionSource("gym", [freeze_membership])]
    async with ScriptedUpstream(script) as upstream, gateway(tmp_path, upstream.base_url, sources=sources) as served:
        made = await ask(served)
        assert (made.status, made.background, made.output) == ("queued", True, [])
        assert (await served.client.responses.retrieve(made.id)).status == "in_progress"
        with pytest.raises(openai.BadRequestError, match="is in_progress"):
            await served.client.responses.create(model="m", input="hi", previous_response_id=made.id)
        for _ in range(50):
            gate.release()
        response = await ended(served, made.id)
        assert (response.status, response.output_text, response.background) == ("completed", "Frozen.", True)
        assert (await served.client.responses.cancel(made.id)).status == "completed"
        more = await served.client.responses.create(model="m", input="and?", previous_response_id=made.id)
    assert more.output_text == "Again."
    assert "John is frozen" in upstream.requests[1].raw.decode()
    assert all("background" not in body for body in upstream.bodies)


async def test_a_stream_goes_on_without_its_client_and_can_be_read_from_any_event(tmp_path: Path) -> None:
    gate = asyncio.Semaphore(3)
    async with (
        ScriptedUpstream([paced(say("one two three four"), gate)]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
    ):
        stream = await ask(served, stream=True)
        first = await anext(aiter(stream))
        await stream.close()
        rest = await served.client.responses.retrieve(first.response.id, stream=True, starting_after=1)
        for _ in range(50):
            gate.release()
        live = [event async for event in rest]
        again = await served.client.responses.retrieve(first.response.id, stream=True)
        replayed = [event async for event in again]
        with pytest.raises(openai.BadRequestError, match="starting_after"):
            await served.client.responses.retrieve(first.response.id, stream=True, extra_query={"starting_after": "x"})
    assert [event.sequence_number for event in live] == list(range(2, len(live) + 2))
    assert replayed[2:] == live
    assert live[-1].type == "response.completed"
    assert live[-1].response.output_text == "one two three four"


async def test_a_cancelled_response_stops_its_request(tmp_path: Path) -> None:
    gate = asyncio.Semaphore(0)
    async with (
        ScriptedUpstream([paced(say("late"), gate)]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
    ):
        made = await ask(served)
        await until(lambda: bool(upstream.requests))
        for _ in range(2):
            assert (await served.client.responses.cancel(made.id)).status == "cancelled"
        await until(lambda: upstream.requests[0].outcome != "open")
        assert (await ended(served, made.id)).status == "cancelled"
    assert upstream.requests[0].outcome == "client left"


async def test_another_server_with_the_same_database_shows_streams_and_cancels_it(tmp_path: Path) -> None:
    gate = asyncio.Semaphore(0)
    async with (
        ScriptedUpstream([paced(say("late"), gate), paced(say("done"), gate)]) as upstream,
        gateway(tmp_path, upstream.base_url) as here,
        gateway(tmp_path, upstream.base_url) as there,
    ):
        first = await ask(here)
        await until(lambda: bool(upstream.requests))
        assert (await there.client.responses.retrieve(first.id)).status == "in_progress"
        assert (await there.client.responses.cancel(first.id)).status == "cancelled"
        await until(lambda: upstream.requests[0].outcome != "open")
        second = await ask(here)
        stream = await there.client.responses.retrieve(second.id, stream=True)
        for _ in range(50):
            gate.release()
        events = [event async for event in stream]
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == "done"


async def test_a_shutdown_and_a_dead_process_leave_it_failed(tmp_path: Path) -> None:
    gate = asyncio.Semaphore(0)
    async with ScriptedUpstream([paced(say("late"), gate), paced(say("late"), gate)]) as upstream:
        async with gateway(tmp_path, upstream.base_url) as served:
            cut = await ask(served)
        async with gateway(tmp_path, upstream.base_url) as served:
            failed = await served.client.responses.retrieve(cut.id)
            assert (failed.status, failed.error.code) == ("failed", "server_shutdown")  # type: ignore[union-attr]
            lost = await ask(served)
            # What a killed process leaves: its document with a lease that nobody holds.
            async with Database(database_url(tmp_path / "gateway.sqlite")) as other:
                number = await other.store.lease()
            page = await served.database.store.scan("response")
            (left,) = [each for each in page.documents if lost.id.encode() in each.value]
            await served.client.responses.cancel(lost.id)
            own = await served.database.store.lease()
            dead = left.value.replace(f'"lease":{own}'.encode(), f'"lease":{number}'.encode())
            assert dead != left.value
            await served.database.store.put("response", left.key, dead)
            response = await ended(served, lost.id)
    assert (response.status, response.error.code) == ("failed", "server_error")  # type: ignore[union-attr]
    assert "server stopped" in response.error.message  # type: ignore[union-attr]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_an_error_of_the_upstream_is_the_error_of_the_response(tmp_path: Path, stream: bool) -> None:
    async with (
        ScriptedUpstream([refuse(400, "no such thing", code="odd")]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
    ):
        made = await ask(served, stream=stream)
        response = [event async for event in made][-1].response if stream else await ended(served, made.id)
    assert (response.status, response.output) == ("failed", [])
    assert "no such thing" in response.error.message


async def test_it_belongs_to_its_principal_and_each_has_a_limit(tmp_path: Path) -> None:
    gate = asyncio.Semaphore(0)
    async with (
        ScriptedUpstream([paced(say("late"), gate)] * 2) as upstream,
        gateway(tmp_path, upstream.base_url, settings=GatewaySettings(background_responses=1)) as served,
    ):
        _, ann = await served.database.keys.add("ann", Principal(id="ann"))
        _, bob = await served.database.keys.add("bob", Principal(id="bob"))
        mine, theirs = (served.client.with_options(api_key=key).responses for key in (ann, bob))
        made = await mine.create(model="m", input="hi", background=True)
        for _ in range(2):  # a refusal is not stored under the idempotency key
            with pytest.raises(openai.RateLimitError, match="background_responses"):
                await mine.create(model="m", input="x", background=True, extra_headers={"idempotency-key": "k"})
        for act in (theirs.retrieve(made.id), theirs.cancel(made.id), theirs.delete(made.id)):
            with pytest.raises(openai.NotFoundError):
                await act
        await theirs.create(model="m", input="hi", background=True)
        await mine.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            await mine.retrieve(made.id)


async def test_it_is_refused_where_nothing_may_be_stored(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        async with gateway(tmp_path, upstream.base_url) as served:
            with pytest.raises(openai.BadRequestError, match="must be stored"):
                await ask(served, store=False)
        async with gateway(tmp_path, upstream.base_url, settings=GatewaySettings(keep_responses="off")) as served:
            with pytest.raises(openai.BadRequestError, match="must be stored"):
                await ask(served)
    assert not upstream.requests


async def test_the_events_of_a_response_that_was_not_streamed_are_made_from_it(tmp_path: Path) -> None:
    async with ScriptedUpstream([say("one")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        made = await served.client.responses.create(model="m", input="hi")
        stream = await served.client.responses.retrieve(made.id, stream=True)
        events = [event async for event in stream]
        last = await served.client.responses.retrieve(made.id, stream=True, starting_after=len(events) - 2)
        assert [event async for event in last] == events[-1:]
    assert events[-1].response.to_dict() == made.to_dict()  # type: ignore[union-attr]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "one"


async def test_a_request_without_a_model_gets_the_default_one(tmp_path: Path) -> None:
    settings = GatewaySettings(default_model="fast", aliases={"fast": "gpt-test"})
    async with ScriptedUpstream([say("one")]) as upstream:
        async with gateway(tmp_path, upstream.base_url, settings=settings) as served:
            assert (await served.client.responses.create(input="hi")).output_text == "one"
        async with gateway(tmp_path, upstream.base_url) as served:
            with pytest.raises(openai.BadRequestError, match="model"):
                await served.client.responses.create(input="hi")
    assert upstream.bodies[0]["model"] == "gpt-test"
