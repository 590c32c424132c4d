"""Tools that a conversation is sent from turn to turn, and the costs that the planner reports, as a caller sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from toolcaddie import Message, RunRequest, Runtime, Tool, tool
from toolcaddie.core.capabilities import CacheRule, Capabilities, Prices
from toolcaddie.core.delivery import Delivery
from toolcaddie.core.events import ToolsDelivered
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.presets import preset
from toolcaddie.core.run import Limits
from toolcaddie.core.selection import Budget
from toolcaddie.samples import gym
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

PRICES = Prices(input=3.0, cached=0.3, written=3.75, output=15.0)
CACHE = CacheRule(kind="automatic", minimum=100, lifetime=300.0)
PLAIN = Capabilities(cache=CACHE, prices=PRICES)
NATIVE = Capabilities(cache=CACHE, prices=PRICES, deferral="additions")
RESULTS_ONLY = Capabilities(cache=CACHE, prices=PRICES, deferral="references")
MASKED = Capabilities(cache=CACHE, prices=PRICES, mask="allowed_tools", tool_cap=None)
UNCACHED = Capabilities(cache=CacheRule(), prices=PRICES)

LONG = "words that make a conversation long " * 600


@dataclass
class Conversation:
    """A caller with a conversation of its own, which it continues turn by turn."""

    capabilities: Capabilities
    script: Sequence[Any] | Callable[[ModelRequest], Any]
    mode: str = "auto"
    now: float = 1_000.0
    messages: list[Message] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.provider = ScriptedProvider(self.script, wire="messages" if self.capabilities.deferral else "chat")
        self.runtime = Runtime(
            provider=self.provider,
            sources=[gym.source()],
            preset=replace(
                preset("default"),
                delivery=self.mode,  # type: ignore[arg-type]
                budget=Budget(provider_cap=None),
            ),
            capabilities=[self.capabilities],
            clock=lambda: self.now,
        )

    async def say(self, text: str, *, after: float = 10.0, **options: Any) -> str:
        self.now += after
        self.messages.append(Message(role="user", content=text))
        request = RunRequest(messages=tuple(self.messages), conversation="c1", **options)
        seen: list[Delivery] = []
        answer = ""
        async for event in self.runtime.stream(request):
            if isinstance(event, ToolsDelivered):
                seen.append(event.delivery)
            if hasattr(event, "result") and hasattr(event.result, "messages"):
                self.messages += event.result.messages
                answer = event.result.text
        self.deliveries.append(seen[0])
        return answer

    def tools(self, request: int) -> list[str]:
        """The names of an array, as the provider was sent it."""
        return [tool["function"]["name"] for tool in self.provider.requests[request].tools]


FREEZE, PAY = "freeze John's membership", "which salaries are pending this month?"


async def test_a_short_conversation_gets_new_tools_in_its_array() -> None:
    talk = Conversation(PLAIN, [say("done"), say("none")])
    await talk.say(FREEZE)
    await talk.say(PAY)
    first, second = talk.tools(0), talk.tools(1)
    assert "get_pending_salaries" not in first
    assert second[: len(first)] == first
    assert "get_pending_salaries" in second


async def test_a_long_conversation_keeps_its_array_and_is_shown_new_tools_behind_it() -> None:
    paid = call("execute_tool", {"tool_name": "get_pending_salaries", "arguments": {}})
    talk = Conversation(PLAIN, [say(LONG), paid, say("nobody")])
    await talk.say(FREEZE)
    assert await talk.say(PAY) == "nobody"
    assert talk.tools(1) == talk.tools(0) == talk.tools(2)
    shown = talk.provider.requests[1].messages[-1]
    assert shown.role == "system"
    assert "get_pending_salaries" in shown.shown
    assert not talk.provider.requests[1].deferred
    assert '"name":"get_pending_salaries"' in shown.text
    assert "execute_tool" in shown.text


async def test_tools_shown_as_text_stay_in_place_in_later_turns() -> None:
    talk = Conversation(PLAIN, [say(LONG), say("nobody"), say("thanks")])
    await talk.say(FREEZE)
    await talk.say(PAY)
    await talk.say("and last month?")
    before, after = talk.provider.requests[1], talk.provider.requests[2]
    assert tuple(after.messages[: len(before.messages)]) == tuple(before.messages)
    assert after.tools == before.tools
    again = [name for message in after.messages[len(before.messages) :] for name in message.shown]
    assert "get_pending_salaries" not in again


async def test_a_provider_with_means_of_its_own_gets_new_tools_by_reference() -> None:
    talk = Conversation(NATIVE, [say(LONG), call("get_pending_salaries", {}), say("nobody")])
    await talk.say(FREEZE)
    assert await talk.say(PAY) == "nobody"
    request = talk.provider.requests[1]
    told = request.messages[-1]
    assert (told.role, told.text) == ("system", "")
    assert "get_pending_salaries" in told.revealed
    assert set(told.revealed) == request.deferred
    shown = [name for name in talk.tools(1) if name not in request.deferred]
    assert shown == talk.tools(0)
    assert talk.deliveries[1].strategy == "native"


async def test_tools_a_model_asks_for_join_behind_a_long_conversation() -> None:
    script = [say(LONG), call("request_more_tools", {"query": "pending salaries"}), say("so")]
    talk = Conversation(PLAIN, script)
    await talk.say(FREEZE)
    await talk.say("hm, what about the other thing")
    assert talk.tools(2) == talk.tools(1)
    result = talk.provider.requests[2].messages[-1]
    assert result.role == "tool"
    assert "get_pending_salaries" in result.shown
    assert '"name":"get_pending_salaries"' in result.text


async def test_if_only_results_can_refer_to_tools_a_turn_begins_with_text() -> None:
    script = [say(LONG), say("ok"), call("request_more_tools", {"query": "diet plans"}), say("so")]
    talk = Conversation(RESULTS_ONLY, script)
    await talk.say(FREEZE)
    await talk.say(PAY)
    assert '"name":"get_pending_salaries"' in talk.provider.requests[1].messages[-1].text
    await talk.say("hm, what about the other thing")
    request = talk.provider.requests[3]
    assert request.messages[-1].revealed
    assert set(request.messages[-1].revealed) <= request.deferred


async def test_a_conversation_that_is_no_longer_cached_gets_a_rebuilt_array() -> None:
    talk = Conversation(PLAIN, [say(LONG), say("none")])
    await talk.say(FREEZE)
    await talk.say(PAY, after=301.0)
    assert "get_pending_salaries" in talk.tools(1)
    assert talk.tools(1)[: len(talk.tools(0))] != talk.tools(0)
    assert not talk.provider.requests[1].messages[-1].shown


async def test_recently_called_tools_stay_when_the_array_is_rebuilt() -> None:
    talk = Conversation(PLAIN, [call("get_membership_stats", {}), say(LONG), say("none")])
    await talk.say("membership stats please")
    await talk.say(PAY, after=301.0)
    assert {"get_membership_stats", "get_pending_salaries"} <= set(talk.tools(2))


async def test_without_a_cache_every_turn_gets_a_rebuilt_array() -> None:
    talk = Conversation(UNCACHED, [say(LONG), say("none")])
    await talk.say(FREEZE)
    await talk.say(PAY)
    assert "get_pending_salaries" in talk.tools(1)
    assert talk.tools(1)[: len(talk.tools(0))] != talk.tools(0)


async def test_a_mask_leaves_the_array_alone_and_widens_with_the_conversation() -> None:
    talk = Conversation(MASKED, [say(LONG), say("none"), say("hm")], mode="masked")
    await talk.say(FREEZE)
    await talk.say(PAY)
    first, second = talk.provider.requests[:2]
    assert first.tools == second.tools
    assert first.allowed is not None
    assert second.allowed is not None
    assert "get_pending_salaries" not in first.allowed
    assert set(first.allowed) < set(second.allowed)
    assert "get_pending_salaries" in second.allowed
    assert "request_more_tools" in first.allowed


async def test_a_tool_that_the_caller_names_stands_in_the_array_at_any_price() -> None:
    talk = Conversation(PLAIN, [say(LONG), say("none")])
    await talk.say(FREEZE)
    chosen = {"type": "function", "function": {"name": "get_pending_salaries"}}
    await talk.say(PAY, tool_choice=chosen)
    assert "get_pending_salaries" in talk.tools(1)


async def test_every_delivery_lists_its_options_and_the_expected_bill() -> None:
    talk = Conversation(PLAIN, [say(LONG), say("none")])
    await talk.say(FREEZE)
    await talk.say(PAY)
    first, second = talk.deliveries
    assert [option.name for option in first.options] == ["the best of the selection", "the selection"]
    assert first.bill is not None
    assert (first.bill.read, first.bill.plain) == (0, 0)
    assert [option.name for option in second.options] == ["added by text", "added by array"]
    chosen, other = second.options
    assert chosen.expected < other.expected
    assert other.rebilled > 5_000
    assert second.bill is not None
    assert second.bill.read > 5_000 > second.bill.written
    assert second.bill.dollars == pytest.approx(
        (second.bill.read * 0.3 + second.bill.written * 3.75) / 1_000_000, rel=1e-6
    )


async def test_the_presets_of_other_systems_grow_their_array_as_those_systems_do() -> None:
    provider = ScriptedProvider([say(LONG), say("none")])
    runtime = Runtime(provider=provider, sources=[gym.source()], preset="keyword", capabilities=[NATIVE])
    first = await runtime.run(RunRequest(messages=(Message(role="user", content=FREEZE),), conversation="c"))
    asked = (*first.state.messages, Message(role="user", content="pending salary?"))
    await runtime.run(RunRequest(messages=asked, conversation="c"))
    before, after = provider.requests
    assert after.tools[: len(before.tools)] == before.tools
    assert len(after.tools) > len(before.tools)
    assert not after.deferred


async def test_tools_referenced_for_one_provider_stand_in_the_array_of_another_without_references() -> None:
    talk = Conversation(NATIVE, [say(LONG), say("nobody")])
    await talk.say(FREEZE)
    await talk.say(PAY)
    other = Conversation(PLAIN, [call("get_pending_salaries", {}), say("so")], messages=talk.messages)
    assert await other.say("and now?") == "so"
    assert not other.provider.requests[0].deferred
    assert "get_pending_salaries" in other.tools(0)


SMALL = replace(preset("default"), delivery="masked", budget=Budget(max_tools=8, provider_cap=64))


def bills(count: int) -> list[Tool]:
    return [Tool(name=f"list_bills_{n}", description="list each bill", source="client") for n in range(count)]


async def test_a_catalog_that_outgrows_its_mask_is_chosen_from_and_stays_under_the_cap() -> None:
    provider = ScriptedProvider([say("one"), say("two")])
    runtime = Runtime(provider=provider, preset=SMALL, capabilities=[MASKED])
    first = await runtime.run("list bills", client_tools=bills(58), conversation="c1")
    messages = (*first.state.messages, Message(role="user", content="tame the zebras"))
    zebras = [Tool(name=f"tame_zebra_{n}", description="tame zebras", source="client") for n in range(9)]
    await runtime.run(RunRequest(messages=messages, client_tools=[*bills(58), *zebras], conversation="c1"))
    before, after = provider.requests
    assert len(before.tools) == 62
    assert len(after.tools) <= 64
    assert "tame_zebra_0" in [tool["function"]["name"] for tool in after.tools]


async def test_a_mask_leaves_a_place_for_reading_on() -> None:
    provider = ScriptedProvider([say("one")])
    await Runtime(provider=provider, preset=SMALL, capabilities=[MASKED]).run("list bills", client_tools=bills(60))
    assert len(provider.requests[0].tools) < 64


@pytest.mark.parametrize("name", ["default", "multibot"])
async def test_a_clients_tool_called_read_result_is_not_joined_by_ours(name: str) -> None:
    """Our own tool of that name joins where one of our results was cut; the client's wins over it."""

    @tool(read_only=True)
    def list_exams() -> str:
        """List all exams with their results."""
        return "long " * 50_000

    theirs = Tool(name="read_result", description="Read the result of an exam.", source="client")
    provider = ScriptedProvider([call("list_exams"), call("read_result"), say("two")])
    runtime = Runtime(provider=provider, sources=[list_exams], preset=name)
    asked = Message(role="user", content="read the result of each exam")
    first = await runtime.run(RunRequest(messages=[asked], client_tools=[theirs], conversation="c1"))
    assert [each.name for each in first.client_calls] == ["read_result"]
    await runtime.resume(first.run_id, results={first.client_calls[0].id: "passed"})
    for request in provider.requests:
        assert sorted(each["function"]["name"] for each in request.tools) == ["list_exams", "read_result"]


@pytest.mark.parametrize(
    ("capabilities", "named"),
    [(NATIVE, "salar"), (PLAIN, "execute_tool"), (UNCACHED, "salar")],
)
async def test_a_forced_choice_names_what_the_model_has_just_asked_for(capabilities: Capabilities, named: str) -> None:
    script = [call("request_more_tools", {"query": "pending salaries"}), *[say("no")] * 5]
    provider = ScriptedProvider(script, wire="messages" if capabilities.deferral else "chat")
    forced = replace(preset("default"), force=True, limits=Limits(forced_attempts=5), budget=Budget(provider_cap=None))
    runtime = Runtime(provider=provider, sources=[gym.source()], preset=forced, capabilities=[capabilities])
    said = (Message(role="user", content=FREEZE), Message(role="assistant", content=LONG))
    await runtime.run(RunRequest(messages=(*said, Message(role="user", content=FREEZE)), conversation="c1"))
    choices = [asked.tool_choice for asked in provider.requests if isinstance(asked.tool_choice, dict)]
    assert [named in choice["function"]["name"] for choice in choices] == [True]


@pytest.mark.parametrize(
    ("mode", "capabilities", "why"),
    [
        ("native", PLAIN, "no means of its own"),
        ("masked", PLAIN, "no mask"),
        ("masked", replace(PLAIN, tool_cap=None), "no mask"),
        ("masked", replace(MASKED, tool_cap=128), "137 tools and 4 meta tools are over the provider's cap of 128"),
    ],
)
async def test_an_impossible_mode_is_reported_and_prices_decide_instead(
    mode: str, capabilities: Capabilities, why: str
) -> None:
    talk = Conversation(capabilities, [say("done")], mode=mode)
    await talk.say(FREEZE)
    delivery = talk.deliveries[0]
    assert why in delivery.note
    assert [option.name for option in delivery.options][:2] == ["the best of the selection", "the selection"]
