"""Stored responses of the Responses API: kept in the gateway's database, each for its owner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from tests.doors.serving import gateway
from tests.doors.test_gateway_passing import upstream as echo
from tests.doors.wire_clients import client_of
from toolcaddie.app.settings import GatewaySettings
from toolcaddie.core.control import Principal
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.testing import Reply, ResponsesWire, ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio

NAMES = ("freeze_membership", "send_invoice")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_a_response_continues_a_stored_one_also_after_a_restart(tmp_path: Path, wire: str, stream: bool) -> None:
    thought = Reply(calls=call("freeze_membership", {"member": "John"}).calls, reasoning="John is on holiday.")
    options: dict[str, Any] = {"wire": ResponsesWire()} if wire == "responses" else {}
    async with ScriptedUpstream([thought, say("Frozen."), say("John.")], **options) as upstream:
        provider: Any = OpenAIResponses(upstream.base_url, "test-key") if wire == "responses" else upstream.base_url
        async with gateway(tmp_path, provider) as served, client_of("responses", served.base_url) as client:
            first = await client.ask(client.user("freeze John"), NAMES, stream=stream, store=True)
            assert first.raw.store is True
        provider = OpenAIResponses(upstream.base_url, "test-key") if wire == "responses" else upstream.base_url
        async with gateway(tmp_path, provider) as served, client_of("responses", served.base_url) as client:
            result = client.result(first.calls[0], "done")
            second = await client.ask(
                result, NAMES, stream=stream, store=True, previous_response_id=first.raw.id, instructions="Be brief."
            )
            assert (second.text, second.raw.previous_response_id) == ("Frozen.", first.raw.id)
            third = await client.ask(
                client.user("who was it?"), (), stream=stream, store=True, previous_response_id=second.raw.id
            )
            assert third.text == "John."
    assert not upstream.refusals
    last = upstream.requests[2].raw.decode()
    assert all(text in last for text in ("freeze John", "done", "Frozen.", "who was it?"))
    assert "Be brief." not in last  # instructions hold for one response
    assert all(body.get("store") is not True for body in upstream.bodies)


async def test_a_stored_response_is_shown_listed_and_deleted(tmp_path: Path) -> None:
    async with ScriptedUpstream([say("one")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        api = served.client.responses
        made = await api.create(model="m", input=[{"role": "user", "content": text} for text in ("a", "b", "c")])  # type: ignore[misc]
        assert (await api.retrieve(made.id)).output_text == "one"
        page = await api.input_items.list(made.id, limit=2)
        assert [item.content[0].text for item in page.data] == ["c", "b"]  # type: ignore[union-attr]
        items = [item async for item in api.input_items.list(made.id, order="asc", limit=1)]
        assert [item.content[0].text for item in items] == ["a", "b", "c"]  # type: ignore[union-attr]
        with pytest.raises(openai.BadRequestError, match="cancelled"):
            await api.cancel(made.id)
        await api.delete(made.id)
        with pytest.raises(openai.NotFoundError, match="not found"):
            await api.retrieve(made.id)
        with pytest.raises(openai.BadRequestError, match="not found"):
            await api.create(model="m", input="hi", previous_response_id=made.id)


async def test_a_response_belongs_to_the_principal_that_asked_for_it(tmp_path: Path) -> None:
    async with ScriptedUpstream([say("one")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        _, ann = await served.database.keys.add("ann", Principal(id="ann"))
        _, bob = await served.database.keys.add("bob", Principal(id="bob"))
        made = await served.client.with_options(api_key=ann).responses.create(model="m", input="hi")
        assert (await served.client.with_options(api_key=ann).responses.retrieve(made.id)).id == made.id
        theirs = served.client.with_options(api_key=bob).responses
        for ask in (theirs.retrieve(made.id), theirs.delete(made.id)):
            with pytest.raises(openai.NotFoundError):
                await ask
        with pytest.raises(openai.BadRequestError, match="not found"):
            await theirs.create(model="m", input="hi", previous_response_id=made.id)


async def test_nothing_is_stored_if_the_client_or_the_settings_say_so(tmp_path: Path) -> None:
    script = [say("one"), say("two")]
    off = GatewaySettings(keep_responses="off")
    async with ScriptedUpstream(script) as upstream:
        async with gateway(tmp_path, upstream.base_url) as served:
            one = await served.client.responses.create(model="m", input="hi", store=False)
            with pytest.raises(openai.NotFoundError):
                await served.client.responses.retrieve(one.id)
        async with gateway(tmp_path, upstream.base_url, settings=off) as served:
            two = await served.client.responses.create(model="m", input="hi")
            with pytest.raises(openai.NotFoundError):
                await served.client.responses.retrieve(two.id)
    assert (one.store, two.store) == (False, False)  # type: ignore[attr-defined]


async def test_input_tokens_are_estimated_with_the_stored_input(tmp_path: Path) -> None:
    async with ScriptedUpstream([say("one")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        made = await served.client.responses.create(model="m", input="hi " * 200)
        api = served.client.responses.input_tokens
        short = await api.count(model="m", input="hi")
        long = await api.count(model="m", input="hi", previous_response_id=made.id)
        with pytest.raises(openai.BadRequestError, match="not found"):
            await api.count(model="m", input="hi", previous_response_id="resp_other")
    assert short.object == "response.input_tokens"
    assert long.input_tokens > short.input_tokens + 100


async def test_a_responses_upstream_counts_the_tools_that_would_be_sent(tmp_path: Path) -> None:
    names = [f"{('crm', 'billing')[place % 2]}_list_object{place}" for place in range(60)]
    schema = {"type": "object", "properties": {}}
    tools = [{"type": "function", "name": name, "parameters": schema} for name in names]
    async with echo() as (address, requests):
        provider = OpenAIResponses(address, "test-key")
        async with gateway(tmp_path, provider) as served, aiohttp.ClientSession() as http:
            url = f"{served.base_url}/v1/responses/input_tokens"
            for more in ({}, {"tools": tools}):
                async with http.post(url, json={"model": "m", "input": "list object 7", **more}) as answer:
                    assert answer.status == 200
            async with http.post(url, json={"model": "m", "input": "hi", "conversation": "conv_1"}) as answer:
                assert answer.status == 400  # the server's key would open a conversation of the operator
    assert [request["path"] for request in requests] == ["/v1/responses/input_tokens"] * 2
    sent = [tool["name"] for tool in json.loads(requests[1]["body"])["tools"]]
    assert "billing_list_object7" in sent
    assert len(sent) < len(tools)
