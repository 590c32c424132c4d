"""Requests that are handed in with `Prefer: respond-async`: accepted at once, polled, cancelled, limited for each tenant."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doors.serving import Gateway, gateway
from tests.doors.test_gateway_background import UNFINISHED, ask, ended, until
from toolcaddie import FunctionSource, tool
from toolcaddie.app.settings import JobSettings
from toolcaddie.core.control import Principal
from toolcaddie.core.key_limits import KeyLimits
from toolcaddie.testing import ScriptedUpstream, call, paced, refuse, say

pytestmark = pytest.mark.anyio

ASYNC = {"prefer": "respond-async"}
HELLO = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
DOORS = {
    "/v1/chat/completions": HELLO,
    "/v1/responses": {"model": "m", "input": "hi"},
    "/v1/messages": {**HELLO, "max_tokens": 100},
}
ENDS = {"/v1/chat/completions": "[DONE]", "/v1/responses": "response.completed", "/v1/messages": "message_stop"}


async def post(
    served: Gateway, body: Any = HELLO, path: str = "/v1/chat/completions", **headers: str
) -> httpx.Response:
    async with httpx.AsyncClient(base_url=served.base_url, timeout=20) as client:
        return await client.post(path, json=body, headers={**ASYNC, **headers})


async def look(served: Gateway, address: str, method: str = "GET", **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=served.base_url, timeout=20) as client:
        return await client.request(method, address, headers=headers)


async def answered(served: Gateway, accepted: httpx.Response, **headers: str) -> httpx.Response:
    """The answer, once there is one."""
    async with asyncio.timeout(20):
        while (answer := await look(served, accepted.headers["location"], **headers)).status_code == 202:
            assert answer.headers["retry-after"] == "1"
            await asyncio.sleep(0.02)
    return answer


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_is_accepted_at_once_and_its_answer_is_the_normal_one(
    tmp_path: Path, path: str, stream: bool
) -> None:
    @tool
    def freeze_membership(member: str) -> str:
        """Freeze a membership."""
        return f"{member} is frozen"

    gate = asyncio.Semaphore(0)
    script = [paced(call("freeze_membership", {"member": "John"}), gate), say("Frozen.")]
    sources = [FunctionSource("gym", [freeze_membership])]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=sources, durable=True) as served,
    ):
        accepted = await post(served, {**DOORS[path], "stream": stream}, path)
        assert (accepted.status_code, accepted.headers["preference-applied"]) == (202, "respond-async")
        assert accepted.json()["url"] == accepted.headers["location"]
        assert (await look(served, accepted.headers["location"])).status_code == 202
        for _ in range(50):
            gate.release()
        answer = await answered(served, accepted)
        again = await look(served, accepted.headers["location"])
    assert (answer.status_code, again.content) == (200, answer.content)
    assert answer.headers["content-type"].startswith("text/event-stream" if stream else "application/json")
    assert answer.headers["x-toolcaddie-run"] == accepted.headers["x-toolcaddie-run"]
    assert (ENDS[path] if stream else "Frozen.") in answer.text
    assert "John is frozen" in upstream.requests[1].raw.decode()


async def test_a_request_that_is_passed_on_unchanged_is_deferred_too(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([say("one"), refuse(400, "no such thing", code="odd")]) as upstream,
        gateway(tmp_path, upstream.base_url, durable=True) as served,
    ):
        answer = await answered(served, await post(served, {**HELLO, "odd": 7}))
        failed = await answered(served, await post(served))
    assert (answer.status_code, answer.json()["choices"][0]["message"]["content"]) == (200, "one")
    assert upstream.bodies[0]["odd"] == 7
    assert (failed.status_code, failed.json()["error"]["code"]) == (400, "odd")


async def test_a_wrong_request_is_refused_at_once(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, gateway(tmp_path, upstream.base_url, durable=True) as served:
        refused = await post(served, {"model": "m", "input": "hi", "background": "x"}, "/v1/responses")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "background")


async def test_an_answer_belongs_to_the_principal_that_asked(tmp_path: Path) -> None:
    async with ScriptedUpstream([say("one")]) as upstream, gateway(tmp_path, upstream.base_url, durable=True) as served:
        _, ann = await served.database.keys.add("ann", Principal(id="ann"))
        _, bob = await served.database.keys.add("bob", Principal(id="bob"))
        mine, theirs = ({"authorization": f"Bearer {key}"} for key in (ann, bob))
        accepted = await post(served, **mine)
        answer = await answered(served, accepted, **mine)
        for method in ("GET", "DELETE"):
            refused = await look(served, accepted.headers["location"], method, **theirs)
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "unknown_request")
        assert (await look(served, accepted.headers["location"])).status_code == 401
        assert (await look(served, accepted.headers["location"], **mine)).content == answer.content
        assert (await look(served, accepted.headers["location"], "DELETE", **mine)).status_code == 204
        assert (await look(served, accepted.headers["location"], **mine)).status_code == 404
        page = await served.database.store.scan("deferred-request")
    assert not page.documents
    assert ann.encode() not in b"".join(document.value for document in page.documents)


async def test_no_key_of_a_client_is_stored_and_its_limits_count_once(tmp_path: Path) -> None:
    gate = asyncio.Semaphore(0)
    async with (
        ScriptedUpstream([paced(say("one"), gate)]) as upstream,
        gateway(tmp_path, upstream.base_url, durable=True, key_limits=KeyLimits(requests_per_day=1)) as served,
    ):
        _, ann = await served.database.keys.add("ann", Principal(id="ann"))
        mine = {"authorization": f"Bearer {ann}"}
        accepted = await post(served, **mine)
        (document,) = (await served.database.store.scan("deferred-request")).documents
        assert ann.removeprefix("tc_").encode() not in document.value
        assert (await post(served, **mine)).status_code == 429
        gate.release()
        for _ in range(50):
            gate.release()
        assert (await answered(served, accepted, **mine)).status_code == 200


async def test_deleting_a_request_stops_it(tmp_path: Path) -> None:
    gate = asyncio.Semaphore(0)
    async with (
        ScriptedUpstream([paced(say("late"), gate)]) as upstream,
        gateway(tmp_path, upstream.base_url, durable=True) as served,
    ):
        accepted = await post(served)
        await until(lambda: bool(upstream.requests))
        assert (await look(served, accepted.headers["location"], "DELETE")).status_code == 204
        await until(lambda: upstream.requests[0].outcome != "open")
        assert (await look(served, accepted.headers["location"])).status_code == 404
    assert upstream.requests[0].outcome == "client left"


async def test_the_same_idempotency_key_hands_a_request_in_once(tmp_path: Path) -> None:
    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    async with (
        ScriptedUpstream([say("one")]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[FunctionSource("shop", [pay])], durable=True) as served,
    ):
        first, second = [await post(served, **{"idempotency-key": "k"}) for _ in range(2)]
        assert (await answered(served, first)).status_code == 200
    assert first.headers["location"] == second.headers["location"]
    assert second.headers["x-toolcaddie-replayed"] == "true"


async def test_beyond_the_limits_of_a_tenant_a_request_waits_and_then_is_refused(tmp_path: Path) -> None:
    gate = asyncio.Semaphore(0)
    jobs = JobSettings(tenant_at_once=1, tenant_waiting=1)
    async with (
        ScriptedUpstream([paced(say("late"), gate)] * 3) as upstream,
        gateway(tmp_path, upstream.base_url, durable=True, jobs=jobs) as served,
    ):
        _, ann = await served.database.keys.add("ann", Principal(id="ann", tenant="a"))
        _, bob = await served.database.keys.add("bob", Principal(id="bob", tenant="b"))
        mine, theirs = ({"authorization": f"Bearer {key}"} for key in (ann, bob))
        first = await post(served, **mine)
        await until(lambda: len(upstream.requests) == 1)
        second = await post(served, **mine)
        refused = await post(served, **mine)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_much_work")
        assert int(refused.headers["retry-after"]) > 0
        other = await post(served, **theirs)
        await until(lambda: len(upstream.requests) == 2)
        assert (await look(served, second.headers["location"], **mine)).json()["status"] == "queued"
        for _ in range(100):
            gate.release()
        assert (await answered(served, first, **mine)).status_code == 200
        assert (await answered(served, second, **mine)).status_code == 200
        assert (await answered(served, other, **theirs)).status_code == 200


@pytest.mark.parametrize("own_key", [False, True], ids=["keyless", "no queue"])
async def test_the_preference_is_ignored_where_the_work_could_not_survive_the_process(
    tmp_path: Path, own_key: bool
) -> None:
    async with (
        ScriptedUpstream([say("one")]) as upstream,
        gateway(tmp_path, upstream.base_url, own_upstream_key=own_key, durable=not own_key) as served,
    ):
        answer = await post(served, authorization="Bearer test-key")
    assert (answer.status_code, "preference-applied" in answer.headers) == (200, False)


async def test_a_background_response_goes_through_the_same_queue(tmp_path: Path) -> None:
    gate = asyncio.Semaphore(0)
    async with (
        ScriptedUpstream([paced(say("one two"), gate), say("three"), paced(say("four five"), gate)]) as upstream,
        gateway(tmp_path, upstream.base_url, durable=True) as served,
    ):
        made = await ask(served)
        assert made.status == "queued"
        await until(lambda: bool(upstream.requests))
        for _ in range(50):
            gate.release()
        assert (await ended(served, made.id)).output_text == "one two"
        more = await served.client.responses.create(model="m", input="and?", previous_response_id=made.id)
        assert more.output_text == "three"
        events = [event async for event in await ask(served, stream=True)]
        again = await served.client.responses.retrieve(events[0].response.id, stream=True, starting_after=1)
        assert [event async for event in again] == events[2:]
        left = (await served.database.store.scan("deferred-request")).documents
    assert events[-1].response.output_text == "four five"
    assert not left


async def test_a_deferred_background_response_is_cancelled_and_deleted(tmp_path: Path) -> None:
    gate = asyncio.Semaphore(0)
    async with (
        ScriptedUpstream([paced(say("late"), gate)] * 2) as upstream,
        gateway(tmp_path, upstream.base_url, durable=True) as served,
    ):
        for number, act in enumerate((served.client.responses.cancel, served.client.responses.delete)):
            made = await ask(served)
            await until(lambda number=number: len(upstream.requests) == number + 1)
            assert (await served.client.responses.retrieve(made.id)).status in UNFINISHED
            await act(made.id)
            await until(lambda number=number: upstream.requests[number].outcome != "open")
    assert [request.outcome for request in upstream.requests] == ["client left"] * 2
