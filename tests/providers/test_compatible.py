"""Services by name: the address, the key and how it is sent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web

from toolcaddie.core.errors import ConfigError, ProviderRejectedError, ProviderUnavailableError
from toolcaddie.core.message import Message, ModelReply, ModelRequest
from toolcaddie.parts import Parts, Secrets
from toolcaddie.providers.compatible import SERVICES, azure, groq, mistral, ollama
from toolcaddie.providers.openai_chat import Service
from toolcaddie.testing import Exchange, ScriptedUpstream, say

pytestmark = pytest.mark.anyio

HELLO = ModelRequest(model="m", messages=(Message(role="user", content="hello"),))


def with_environment(environ: dict[str, str]) -> Parts:
    return Parts(secrets=Secrets(environ))


@pytest.mark.parametrize("name", sorted(SERVICES))
async def test_every_service_answers_over_its_own_address_with_its_own_key(name: str) -> None:
    vendor = SERVICES[name].vendor
    async with ScriptedUpstream([say("hi")], api_key=None) as upstream:
        ours = Service(replace(vendor, base_url=upstream.base_url))
        provider = ours(parts=with_environment({vendor.key_env: "key-of-the-environment"}))
        reply = await provider.complete(HELLO)
        await provider.close()
    assert reply.message.text == "hi"
    sent = upstream.requests[0].headers[vendor.key_header]
    assert sent == f"{vendor.key_prefix}key-of-the-environment"
    assert provider.name == name


async def test_a_services_key_of_the_environment_goes_to_no_other_address() -> None:
    with pytest.raises(ConfigError, match="is for the vendor's own address"):
        groq(base_url="https://elsewhere.example/v1", parts=with_environment({"GROQ_API_KEY": "k" * 20}))


async def test_a_key_of_the_settings_wins_over_the_environment() -> None:
    async with ScriptedUpstream([say("hi")], api_key="mine-of-settings") as upstream:
        provider = groq(
            base_url=upstream.base_url, api_key="mine-of-settings", parts=with_environment({"GROQ_API_KEY": "other"})
        )
        assert (await provider.complete(HELLO)).message.text == "hi"
        await provider.close()


async def test_a_missing_key_is_said_with_its_variable() -> None:
    with pytest.raises(ConfigError, match="GROQ_API_KEY"):
        groq(parts=with_environment({}))


async def test_a_local_server_needs_no_key() -> None:
    async with ScriptedUpstream([say("hi")], api_key=None) as upstream:
        provider = ollama(base_url=upstream.base_url, parts=with_environment({}))
        await provider.complete(HELLO)
        await provider.close()
    assert "authorization" not in upstream.requests[0].headers


async def test_azure_needs_an_address_and_says_so() -> None:
    with pytest.raises(ConfigError, match="AZURE_OPENAI_ENDPOINT"):
        azure(parts=with_environment({"AZURE_OPENAI_API_KEY": "k" * 20}))
    with pytest.raises(ConfigError, match="not a URL"):
        azure(base_url="http://[", parts=with_environment({"AZURE_OPENAI_API_KEY": "k" * 20}))


async def test_azures_host_alone_gets_the_path() -> None:
    async with ScriptedUpstream(api_key=None) as upstream:
        host = upstream.base_url.removesuffix("/v1")
        provider = azure(parts=with_environment({"AZURE_OPENAI_API_KEY": "k" * 20, "AZURE_OPENAI_ENDPOINT": host}))
        with pytest.raises(ProviderRejectedError, match="404"):
            await provider.complete(HELLO)
        await provider.close()
    assert upstream.requests[0].path == "/openai/v1/chat/completions"


@dataclass
class SeesTheQuery:
    """A step that keeps the query it was asked with."""

    query: dict[str, str] = field(default_factory=dict)

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        self.query.update(exchange.request.query)
        return await exchange.send_json(200, exchange.whole(say("hi")))


async def test_azures_version_goes_into_every_query() -> None:
    seen = SeesTheQuery()
    async with ScriptedUpstream([seen], api_key=None) as upstream:
        environ = {"AZURE_OPENAI_API_KEY": "k" * 20, "OPENAI_API_VERSION": "preview"}
        provider = azure(base_url=upstream.base_url, parts=with_environment(environ))
        await provider.complete(HELLO)
        await provider.close()
    assert seen.query == {"api-version": "preview"}


async def test_a_service_that_refuses_stream_options_is_not_sent_them() -> None:
    async with ScriptedUpstream([say("hi")], api_key=None) as upstream:
        provider = mistral(base_url=upstream.base_url, api_key="k" * 20, parts=with_environment({}))
        items = [item async for item in provider.stream(HELLO)]
        await provider.close()
    assert isinstance(items[-1], ModelReply)
    assert "stream_options" not in upstream.bodies[0]


async def test_what_is_set_besides_reaches_the_provider() -> None:
    provider = ollama(base_url="http://127.0.0.1:9/v1", name="box", timeout=5.0, parts=with_environment({}))
    assert provider.name == "box"
    with pytest.raises(ProviderUnavailableError, match="box"):
        await provider.complete(HELLO)
    await provider.close()
