"""Who a runtime asks: what is wrong with that is said when the runtime is made."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from toolcaddie import Runtime, tool
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.parts import Parts, Secrets
from toolcaddie.runtime.models import provider_named
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, call, say


class OnlyAnswers:
    async def complete(self, request: Any) -> Any: ...


class StreamsWrong(ScriptedProvider):
    async def stream(self, request: Any) -> Any:  # type: ignore[override]
        return []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"provider": OnlyAnswers}, r"OnlyAnswers is a class: give an instance, OnlyAnswers\(\)"),
        ({"provider": StreamsWrong([])}, "StreamsWrong.stream must give an async iterator"),
        ({"provider": ScriptedProvider([], name="")}, "ScriptedProvider.name must be a non-empty string"),
        ({"provider": OnlyAnswers()}, "OnlyAnswers is not a provider: it lacks name, stream, models, close"),
        ({"provider": None}, "NoneType is not a provider"),
        ({"provider": "gpt-5.4"}, "names no provider; write provider:model"),
        ({"provider": "anthropic:claude-sonnet-5-5"}, "ANTHROPIC_API_KEY"),
        (
            {"fallbacks": "ollama:qwen3"},
            r"fallbacks must be a list, not 'ollama:qwen3'; write fallbacks=\['ollama:qwen3'\]",
        ),
        ({"attempts": "3"}, "attempts must be a whole number from 1, not '3'"),
        ({"attempts": 0}, "attempts must be a whole number from 1"),
        ({"capabilities": [{"pattern": "x"}]}, "capabilities must be rows, not dict"),
    ],
)
def test_what_is_wrong_with_the_model_side_is_said_at_start(
    options: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=said):
        Runtime(**{"provider": ScriptedProvider([say("hi")]), **options})


@pytest.mark.anyio
async def test_a_runtime_closes_its_provider_at_the_end_of_its_block() -> None:
    provider = ScriptedProvider([say("hi")])
    async with Runtime(provider=provider) as runtime:
        assert (await runtime.run("hello")).text == "hi"
    assert provider.closed


@pytest.mark.anyio
async def test_a_runtime_closes_its_classifier_although_its_provider_fails_to_close() -> None:
    closed: list[str] = []

    class Stubborn(ScriptedProvider):
        async def close(self) -> None:
            raise RuntimeError("stuck")

    class Classes:
        async def __call__(self, query: Any, categories: Any) -> None:
            return None

        async def close(self) -> None:
            closed.append("classifier")

    runtime = Runtime(provider=Stubborn([say("hi")]), classifier=Classes())
    with pytest.raises(RuntimeError, match="stuck"):
        await runtime.close()
    assert closed == ["classifier"]


@pytest.mark.anyio
@pytest.mark.parametrize("asked", ["scripted:big", "big"])
async def test_a_request_may_name_its_model_with_its_provider(asked: str) -> None:
    provider = ScriptedProvider([say("hi")])
    await Runtime(provider=provider).run("hello", model=asked)
    assert provider.requests[0].model == "big"


@pytest.mark.anyio
@pytest.mark.proves("X-12", "X-28")
async def test_what_an_agents_configuration_leaves_open_the_limits_say() -> None:
    tries: list[float] = []

    @tool(read_only=True, timeout=60)
    async def look() -> str:
        """Look."""
        tries.append(0.0)
        await asyncio.Event().wait()
        return "never"

    base = PRESETS["default"]
    strict = replace(base, limits=replace(base.limits, tool_seconds_most=0.02, tool_retries=1))
    provider = ScriptedProvider([call("look"), say("done")])
    config = ToolConfig(max_retries=3)
    result = await Runtime(provider=provider, sources=[look], preset=strict, tool_config=config).run("look")
    assert "within 0.02 s" in result.state.messages[-2].text
    assert len(tries) == 2, "one run and the one retry of the limits, not the three attempts of the model"


@pytest.mark.anyio
@pytest.mark.parametrize(("given", "sent"), [(None, None), ("test-key", "Bearer test-key")])
async def test_a_key_of_the_environment_goes_to_no_address_but_its_providers(
    given: str | None, sent: str | None
) -> None:
    async with ScriptedUpstream([say("hi")], api_key=None) as upstream:
        parts = Parts(secrets=Secrets({"OPENAI_API_KEY": "sk-of-openai-alone"}))
        entry = provider_named("openai:gpt-test", base_url=upstream.base_url, api_key=given, parts=parts)
        async with Runtime(provider=entry) as runtime:
            assert (await runtime.run("hello")).text == "hi"
    assert upstream.requests[0].headers.get("authorization") == sent
