"""Every provider keeps the one contract, and any two of them can take turns in a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from toolcaddie import Runtime, tool
from toolcaddie.core.errors import ProviderError
from toolcaddie.core.message import Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.providers.gemini import Gemini
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.testing import CHAT, ScriptedUpstream, call, calls, say
from toolcaddie.testing.anthropic import AnthropicWire
from toolcaddie.testing.gemini import GeminiWire
from toolcaddie.testing.provider_contract import (
    CHECKS,
    BrokenPromises,
    Check,
    ContractError,
    Subject,
    check_all,
    check_conversation,
    check_switch,
)
from toolcaddie.testing.responses import ResponsesWire

pytestmark = pytest.mark.anyio


def responses_error(status: int, words: str) -> bytes:
    """Its streams name no status, and have an event of their own for errors."""
    code = "rate_limit_exceeded" if status == 429 else "server_error"
    return msgspec.json.encode({"type": "error", "code": code, "message": words, "param": None, "sequence_number": 99})


SUBJECTS = (
    Subject(name="chat", provider=OpenAIChat, wire=lambda: CHAT),
    Subject(name="responses", provider=OpenAIResponses, wire=ResponsesWire, error_event=responses_error),
    Subject(name="anthropic", provider=Anthropic, wire=AnthropicWire),
    Subject(name="gemini", provider=Gemini, wire=GeminiWire),
)


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
async def test_the_contract_is_kept(subject: Subject, check: Check) -> None:
    await check(subject)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("second", SUBJECTS, ids=str)
@pytest.mark.parametrize("first", SUBJECTS, ids=str)
async def test_two_providers_take_turns_without_losing_a_call_or_a_result(
    first: Subject, second: Subject, stream: bool
) -> None:
    await check_switch(first, replace(second, model="gpt-other"), stream=stream)


@pytest.mark.parametrize("seed", range(24))
async def test_a_conversation_may_wander_among_all_providers(seed: int) -> None:
    await check_conversation([*SUBJECTS, *(replace(each, model="gpt-other") for each in SUBJECTS)], seed=seed)


# ---------------------------------------------------------------- the same through the loop


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
async def test_the_loop_carries_thinking_and_calls_through_three_rounds(subject: Subject, stream: bool) -> None:
    """Four calls at once finish in reverse, two of them under one id; each result goes back to its call, in call order."""
    done = [asyncio.Event() for _ in range(5)]
    done[4].set()

    @tool(read_only=True)
    async def look(place: int) -> str:
        """Look at one place."""
        await done[place + 1].wait()
        done[place].set()
        return f"seen-{place} there"

    four = calls(
        *(("look", {"place": place}) for place in range(4)), ids=("same", "same", "c", "d"), text="All at once."
    )
    script = [
        replace(call("look", {"place": 3}), reasoning="First one."),
        replace(four, reasoning="Now all."),
        replace(say("Done."), reasoning="That was it."),
    ]
    async with ScriptedUpstream(script, wire=subject.wire()) as upstream, asyncio.timeout(20):
        provider = subject.provider(upstream.base_url, "test-key")
        runtime = Runtime(provider=provider, sources=[look], model="gpt-test")
        asked: dict[str, Any] = {"params": {"reasoning_effort": "low"}}
        if stream:
            events = [event async for event in runtime.stream("Look everywhere.", **asked)]
            assert getattr(events[-1], "status", "done") == "done"
        else:
            result = await runtime.run("Look everywhere.", **asked)
            assert (result.text, len(result.tool_calls)) == ("Done.", 5)
        await runtime.close()
        await provider.close()
    assert upstream.refusals == []
    sent = upstream.requests[-1].raw.decode()
    assert [sent.count(f"seen-{place} there") for place in range(4)] == [1, 1, 1, 2]
    places = [sent.rindex(f"seen-{place} there") for place in range(4)]
    assert places == sorted(places)


# ---------------------------------------------------------------- the contract itself


class Wrapped:
    """A provider that is right, for others to spoil."""

    def __init__(self, base_url: str, key: str) -> None:
        self.inner = OpenAIChat(base_url, key)
        self.name = self.inner.name

    async def complete(self, request: ModelRequest) -> ModelReply:
        return self.spoilt(await self.inner.complete(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        async for item in self.inner.stream(request):
            yield self.spoilt(item) if isinstance(item, ModelReply) else item

    def spoilt(self, reply: ModelReply) -> ModelReply:
        return reply

    async def models(self) -> Any:
        return await self.inner.models()

    async def close(self) -> None:
        await self.inner.close()


class LosesACall(Wrapped):
    def spoilt(self, reply: ModelReply) -> ModelReply:
        message = reply.message
        return replace(reply, message=replace(message, tool_calls=message.tool_calls[:3]))


class SwapsCalls(Wrapped):
    def spoilt(self, reply: ModelReply) -> ModelReply:
        message = reply.message
        return replace(reply, message=replace(message, tool_calls=message.tool_calls[::-1]))


class ForgetsTheCache(Wrapped):
    def spoilt(self, reply: ModelReply) -> ModelReply:
        return replace(reply, usage=replace(reply.usage, cached_tokens=0))


class RaisesWhatItLikes(Wrapped):
    async def complete(self, request: ModelRequest) -> ModelReply:
        try:
            return await super().complete(request)
        except ProviderError as error:
            raise KeyError("choices") from error


class AsksAgainOnTheSly(Wrapped):
    async def complete(self, request: ModelRequest) -> ModelReply:
        try:
            return await super().complete(request)
        except ProviderError:
            return await super().complete(request)


class AnswersWhateverHappens(Wrapped):
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        try:
            async for item in super().stream(request):
                yield item
        except ProviderError:
            yield ModelReply(message=Message(role="assistant", content="Sorry?"))


class DropsAResult(Wrapped):
    async def complete(self, request: ModelRequest) -> ModelReply:
        texts = {"added well": "", "said-three": "", "result-0 is there": ""}
        kept = [
            replace(each, content=texts.get(each.text, each.content)) if each.role == "tool" else each
            for each in request.messages
        ]
        return await super().complete(replace(request, messages=kept))


FOUND: Mapping[type[Wrapped], str] = {
    LosesACall: "four parallel calls arrive in order under ids of their own, plain",
    SwapsCalls: "four parallel calls arrive in order under ids of their own, streamed",
    ForgetsTheCache: "tokens are counted with those of the cache among the input, plain",
    RaisesWhatItLikes: "each status is an error of its kind, plain",
    AsksAgainOnTheSly: "a failure leaves the provider as it was, plain",
    AnswersWhateverHappens: "an answer that is cut is an error or whole, streamed",
    DropsAResult: "an error of a tool reaches the model in words, plain",
}


@pytest.mark.parametrize("wrong", FOUND, ids=lambda wrong: wrong.__name__)
async def test_a_provider_that_breaks_its_promise_is_found_out(wrong: type[Wrapped]) -> None:
    check = next(check for check in CHECKS if check.name == FOUND[wrong])
    await check(Subject(name="right", provider=Wrapped, wire=lambda: CHAT))
    with pytest.raises(ContractError):
        await check(Subject(name="wrong", provider=wrong, wire=lambda: CHAT))


async def test_checking_all_ends_in_a_list_of_the_broken_promises() -> None:
    with pytest.raises(BrokenPromises) as raised:
        await check_all(Subject(name="wrong", provider=ForgetsTheCache, wire=lambda: CHAT))
    head, *lines = str(raised.value).splitlines()
    assert head == f"wrong breaks 2 of {len(CHECKS)} promises:"
    promise = "tokens are counted with those of the cache among the input"
    seen = "expected input, output and cached tokens: (1000, 50, 600); found (1000, 50, 0)"
    assert lines == [f"- {promise}, plain: {seen}", f"- {promise}, streamed: {seen}"]
    assert all(error.__traceback__ for error in raised.value.failures.values())


class Empty:
    """What a beginner has before the first line."""


class HalfDone(Empty):
    """Asks nobody and answers the same."""

    name = "half"

    async def complete(self, request: ModelRequest) -> ModelReply:
        return ModelReply(message=Message(role="assistant", content="hi"), usage=request.usage)  # type: ignore[attr-defined]

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        yield ModelReply(message=Message(role="assistant", content="hi"), model=request.model)

    async def models(self) -> Any:
        return []

    async def close(self) -> None:
        return None


class StreamsLater(HalfDone):
    async def stream(self, request: ModelRequest) -> Any:  # type: ignore[override]
        return HalfDone.stream(self, request)


async def broken_promises_of(kind: type[Any]) -> list[str]:
    with pytest.raises(BrokenPromises) as raised:
        await check_all(Subject(name="mine", provider=lambda _url, _key: kind(), wire=lambda: CHAT))
    return str(raised.value).splitlines()


async def test_an_object_that_is_no_provider_breaks_one_promise_which_says_what_is_missing() -> None:
    assert await broken_promises_of(Empty) == [
        f"mine breaks 1 of {len(CHECKS)} promises; the other {len(CHECKS) - 1} were not tried:",
        "- it has a name and the four methods: Empty has no name, no complete, no stream, no models, no close",
    ]


async def test_a_stream_that_must_be_awaited_first_is_found_out() -> None:
    (line,) = (await broken_promises_of(StreamsLater))[1:]
    assert line.endswith(
        "StreamsLater.stream is a coroutine: it has to be `async def` with a `yield`, or a plain `def`"
    )


async def test_a_provider_that_asks_nobody_is_told_so_at_once_with_a_line_for_each_promise() -> None:
    async with asyncio.timeout(10):  # nothing of it waits for a request that never comes
        lines = await broken_promises_of(HalfDone)
    assert len(lines) > 40
    assert max(map(len, lines)) < 400
    (text,) = [line for line in lines if line.startswith("- text arrives as it was said, plain")]
    assert "AttributeError: 'ModelRequest' object has no attribute 'usage' (test_provider_contract.py, line " in text
    (cancelled,) = [line for line in lines if line.startswith("- cancelling a stream")]
    assert cancelled.endswith("expected a request that runs until it is cancelled; found 'a request that ended'")
