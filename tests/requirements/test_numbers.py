"""The numbers and texts that presets, limits and settings ship with, each seen by what it does.

Whoever changes one of them on purpose changes a line here. `scripts/mutations.py` changes them one by one and sees that a
test fails.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.requirements.scenes import Recorder, function, names, tool_texts, user_messages, work
from tests.requirements.test_source001 import Watched
from toolcaddie import PRESETS, Runtime, tool
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import LimitExceededError
from toolcaddie.core.events import CallFinished
from toolcaddie.core.message import Force, Message, ModelRequest
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.run import RunRequest
from toolcaddie.core.schema import definition_tokens
from toolcaddie.core.tool import ToolResult
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.meta.registry import offered_definitions
from toolcaddie.ports import CallNext, Invocation, MetaOffer
from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.providers.forced import Forced
from toolcaddie.providers.gemini import Gemini
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.providers.retry import Retry
from toolcaddie.samples import gym
from toolcaddie.selection.classifier import ModelClassifier
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.storage.cache import MemoryCache
from toolcaddie.testing import (
    AnthropicWire,
    GeminiWire,
    ResponsesWire,
    ScriptedProvider,
    ScriptedUpstream,
    call,
    calls,
    refuse,
    say,
)

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


async def first_request(preset: Any, text: str, source: Any, **options: Any) -> Any:
    provider = ScriptedProvider(lambda request: say("hi"))
    await Runtime(provider=provider, sources=[source], preset=preset, **options).run(text)
    return provider.requests[0]


def selected(preset: Any, source: Any, *texts: str, **options: Any) -> Any:
    runtime = Runtime(provider=ScriptedProvider([]), sources=[source], preset=preset)
    return runtime.select(RunRequest(messages=user_messages(*texts), **options))


# ---------------------------------------------------------------- how many are sent


async def test_the_default_preset_sends_24_tools_beside_its_meta_tools() -> None:
    tools = names(await first_request("default", "notes", work(notes=60)))
    assert len([name for name in tools if name.startswith("notes_")]) == 24


async def test_expansions_of_budget_stop_at_128_tools_with_the_meta_tool() -> None:
    categories = [f"c{number}" for number in range(20)]
    loads = [call(REQUEST_MORE_TOOLS, {"categories": [name]}) for name in categories]
    provider = ScriptedProvider([*loads, say("done")])
    base = PRESETS["budget"]
    patient = replace(base, limits=replace(base.limits, rounds=None))
    runtime = Runtime(provider=provider, sources=[work(**dict.fromkeys(categories, 8))], preset=patient)
    await runtime.run("c0")
    assert max(len(names(request)) for request in provider.requests) == 128


@pytest.mark.parametrize("preset", ["multibot", "forced"])
async def test_what_sends_everything_sends_128_at_most(preset: str) -> None:
    assert len(names(await first_request(preset, "go", work(notes=140)))) == 128


def test_a_quarter_of_the_tokens_and_16_places_are_kept_for_what_comes_later() -> None:
    base = PRESETS["default"]
    roomy = replace(base, budget=replace(base.budget, max_tools=None))
    assert len(selected(roomy, work(notes=200), "notes").tools) == 128 - 16 - len(base.meta)
    bare = replace(roomy, meta=())
    everything = selected(replace(bare, budget=replace(bare.budget, provider_cap=None)), work(notes=80), "notes")
    limit = everything.tokens_selected
    for meta, share in (((), 1.0), (base.meta, 0.75)):
        budget = replace(base.budget, max_tools=None, provider_cap=None, max_tokens=limit)
        selection = selected(replace(base, meta=meta, budget=budget), work(notes=80), "notes")
        used = selection.tokens_selected + (_meta_tokens(base) if meta else 0)
        assert limit * share - limit / 80 <= used <= limit * share


def _meta_tokens(preset: Any) -> int:
    """Returns the tokens of its meta tools."""
    return definition_tokens(offered_definitions(preset.meta, MetaOffer(categories=("notes",))).values())


def test_32_of_those_left_out_are_listed() -> None:
    assert len(selected("default", work(notes=80), "notes").dropped) == 32


def test_presets_of_the_sources_leave_nothing_to_the_size_of_a_catalog() -> None:
    """`default` sends a small catalog whole; `keyword` and `budget` choose among three tools too."""
    assert len(selected("default", work(notes=2, web=1), "zzqx").tools) == 3
    assert selected("keyword", work(notes=2, web=1), "web").names == ("web_0",)
    assert selected("budget", work(notes=2, web=1), "web").names == ("web_0",)


def test_keyword_reads_keywords_anywhere_in_a_word_and_default_as_words() -> None:
    assert selected("keyword", gym.source(), "payment history").matched == ("revenue", "salary")
    assert "salary" not in selected("default", gym.source(), "payment history").matched


def test_budget_takes_the_categories_named_and_no_related_ones() -> None:
    assert selected("budget", gym.source(), "show me all clients").categories == ("clients",)
    assert len(selected("keyword", gym.source(), "show me all clients").categories) == 3


def test_a_related_category_counts_half_of_the_one_that_brought_it() -> None:
    runtime = Runtime(provider=ScriptedProvider([]), sources=[gym.source()])
    request = RunRequest(messages=user_messages("freeze"))
    signals = [
        runtime.explain(name, request).signals["categories"] for name in ("freeze_membership", "get_clients_list")
    ]
    assert signals == [1.0, 0.5]


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("preset", ["default", "compact"])
async def test_75_calls_in_one_answer_run_and_a_76th_fails_the_request(preset: str) -> None:
    def script(count: int) -> Any:
        one = ("execute_tool", {"tool_name": "work_0", "arguments": {}}) if preset == "compact" else ("work_0", {})
        return [calls(*[one] * count), say("done") if preset == "default" else call("respond", {"message": "done"})]

    for count in (75, 76):
        recorder = Recorder()
        runtime = Runtime(
            provider=ScriptedProvider(script(count)), sources=[work(work=3)], preset=preset, sinks=[recorder]
        )
        if count == 75:
            assert (await runtime.run("go")).text == "done"
        else:
            with pytest.raises(LimitExceededError, match="75"):
                await runtime.run("go")
        assert len(recorder.of(CallFinished)) == 75


async def test_a_tool_has_30_seconds_and_no_second_try_unless_it_says_otherwise() -> None:
    seen: list[tuple[str, float]] = []

    async def watch(invocation: Invocation, call_next: CallNext) -> ToolResult:
        seen.append((invocation.tool.name, invocation.seconds))
        return await call_next(invocation)

    tries: list[int] = []

    @tool(read_only=True)
    def fails() -> str:
        """Fails."""
        tries.append(1)
        raise OSError("no")

    provider = ScriptedProvider([calls(("fails", {}), ("quick", {})), say("done")])
    sources = [fails, function("quick", timeout=2.0)]
    await Runtime(provider=provider, sources=sources, middleware=[watch]).run("go")
    assert sorted(seen) == [("fails", 30.0), ("quick", 2.0)]
    assert len(tries) == 1


async def test_a_result_of_100_000_bytes_is_whole_and_a_longer_one_is_cut() -> None:
    @tool(read_only=True)
    def write(length: int) -> str:
        """Write so much."""
        return "x" * length

    provider = ScriptedProvider([calls(("write", {"length": 100_000}), ("write", {"length": 100_001})), say("done")])
    await Runtime(provider=provider, sources=[write]).run("go")
    whole, cut = tool_texts(provider.requests[1])
    assert whole == "x" * 100_000
    assert "the whole result has 100001 bytes" in cut
    assert len(cut) <= 100_000


async def test_the_same_call_with_the_same_result_is_warned_about_at_the_third_time_and_ends_at_the_fifth() -> None:
    base = PRESETS["default"]
    many = replace(base, limits=replace(base.limits, rounds=50))
    provider = ScriptedProvider(lambda request: call("work_0") if request.tools else say("I give up."))
    await Runtime(provider=provider, sources=[work(work=2)], preset=many).run("go")
    note = "\n\n(The same call gave the same result {} times in a row. Change something, or answer.)"
    texts = tool_texts(provider.requests[-1])
    assert [text.removeprefix("work_0 ran with ''") for text in texts] == [
        "",
        "",
        *(note.format(count) for count in (3, 4, 5)),
    ]


# ---------------------------------------------------------------- texts that a model reads


async def test_the_capability_note_of_budget() -> None:
    request = await first_request("budget", "notes", work(notes=9, web=1))
    assert request.messages[0].text == (
        "You see only the tools that seem to fit this request. More exist: if none of yours fits, call "
        "request_more_tools and the set is expanded for your next step."
    )


async def test_the_text_where_nothing_was_said_in_the_end() -> None:
    provider = ScriptedProvider(lambda request: call("work_0") if request.tools else say(""))
    result = await Runtime(provider=provider, sources=[work(work=2)], preset="multibot").run("go")
    assert result.text == "I could not finish this within the allowed number of steps."


async def test_what_an_expansion_answers() -> None:
    loads = [call(REQUEST_MORE_TOOLS, {"categories": [name]}) for name in ("web", "web", "nowhere")]
    provider = ScriptedProvider([*loads, say("done")])
    await Runtime(provider=provider, sources=[work(notes=9, web=1)], preset="budget").run("notes")
    nothing = "No new tools added: all that fits is loaded already, or nothing fits."
    assert tool_texts(provider.requests[-1]) == [
        "Loaded 1 tools: web_0. You can call them now.",
        nothing,
        f"{nothing} Unknown categories: 'nowhere'. Known: notes, web.",
    ]


async def test_what_a_forced_attempt_says_behind_the_message() -> None:
    provider = ScriptedProvider([say("no"), say("no"), say("no")])
    await Runtime(provider=provider, sources=[work(work=2)], preset="forced").run("Look it up.")
    texts = [request.messages[-1].text for request in provider.requests]
    assert texts[1] == (
        "Look it up.\n\nAnswer this by calling one of the tools you were given. Do not answer from general knowledge, "
        "and do not only say what you would do."
    )


# ---------------------------------------------------------------- what is kept


@pytest.mark.parametrize(
    ("preset", "says", "reads"),
    [
        ("default", 1, 2),
        ("budget", 2, 2),
        ("keyword", 2, 2),
        ("multibot", 1, 2),
        ("forced", 1, 1),
        ("compact", 2, 2),
    ],
)
async def test_whose_results_a_preset_keeps(preset: str, says: int, reads: int) -> None:
    """Of tools that say so, of tools that only read, or nobody's: how often each runs for two equal calls."""
    ran: list[str] = []

    @tool(category="work", cache_ttl=60, read_only=True)
    def keeps() -> str:
        """Says that it may be kept."""
        ran.append("says")
        return "1"

    @tool(category="work", read_only=True)
    def reads_only() -> str:
        """Only reads."""
        ran.append("reads")
        return "2"

    steps = [("keeps", {}), ("reads_only", {})]
    if preset == "compact":
        steps = [("execute_tool", {"tool_name": name, "arguments": {}}) for name, _ in steps]
    provider = ScriptedProvider([calls(*steps), calls(*steps), say("done")])
    sources = [FunctionSource("work", [keeps, reads_only, function("other", category="others")])]
    await Runtime(provider=provider, sources=sources, preset=preset).run("work")
    assert (ran.count("says"), ran.count("reads")) == (says, reads)


@pytest.mark.parametrize("config", [None, {"cacheResults": {}}], ids=["preset", "tool_config"])
async def test_a_kept_result_lives_for_five_minutes(config: Any) -> None:
    now, ran = [1_000.0], list[int]()

    @tool(read_only=True)
    def look() -> str:
        """Look."""
        ran.append(1)
        return "seen"

    provider = ScriptedProvider([call("look"), say("done")] * 3)
    store = MemoryCache(clock=lambda: now[0])
    runtime = Runtime(provider=provider, sources=[look], preset="forced", tool_config=config, cache=store)
    for later, times in ((0.0, 1), (299.5, 1), (1.0, 2)):
        now[0] += later
        await runtime.run("look")
        assert len(ran) == times


def test_an_agents_configuration_has_the_defaults_of_its_source() -> None:
    config = ToolConfig.of({"cacheResults": {}})
    assert (config.force_tool_use, config.on_tool_not_called, config.max_retries) == (False, "retry", 3)
    assert (config.tool_timeout, config.validate_tool_response, config.fallback_provider) == (None, False, None)
    assert config.cache_results is not None
    cache = config.cache_results
    assert (cache.enabled, cache.ttl, cache.max_size) == (True, 300.0, 100)
    assert ToolConfig(max_retries=10, tool_timeout=1.0).warnings == ()
    assert len(ToolConfig(max_retries=11, tool_timeout=0.999).warnings) == 2


# ---------------------------------------------------------------- asking a model


@pytest.mark.parametrize(
    ("make", "wire"),
    [
        (OpenAIChat, None),
        (OpenAIResponses, ResponsesWire()),
        (Anthropic, AnthropicWire()),
        (Gemini, GeminiWire()),
    ],
    ids=["chat", "responses", "messages", "gemini"],
)
async def test_every_wire_gives_a_model_ten_minutes(make: Any, wire: Any) -> None:
    options = {} if wire is None else {"wire": wire}
    async with ScriptedUpstream([say("hi")], **options) as upstream, aiohttp.ClientSession() as session:
        watched: Any = Watched(session)
        provider = make(upstream.base_url, "test-key", session=watched)
        await provider.complete(ModelRequest(model="gpt-test", messages=(Message(role="user", content="hello"),)))
    assert watched.seconds == [600.0]


async def test_a_retrying_provider_asks_three_times_and_waits_half_a_second_and_more_up_to_thirty() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    request = ModelRequest(model="gpt-test", messages=(Message(role="user", content="hello"),))
    for chance, attempts in ((0.0, None), (1.0, 9)):
        async with ScriptedUpstream([refuse(503)] * 9) as upstream:
            options: dict[str, Any] = {} if attempts is None else {"attempts": attempts}
            provider = Retry(
                OpenAIChat(upstream.base_url, "test-key"), sleep=sleep, chance=partial(float, chance), **options
            )
            with pytest.raises(Exception, match="503"):
                await provider.complete(request)
            await provider.close()
    assert waits[:2] == [0.5, 1.0]
    assert waits[2:] == pytest.approx([0.65, 1.3, 2.6, 5.2, 10.4, 20.8, 39.0, 39.0])


async def test_forcing_takes_three_attempts_by_itself() -> None:
    inner = ScriptedProvider(lambda request: say("no"))
    definition = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    request = ModelRequest(
        model="m",
        messages=(Message(role="user", content="look"),),
        tools=(definition,),
        force=Force(candidates=("look",), ignored=frozenset()),
    )
    await Forced(inner).complete(request)
    assert len(inner.requests) == 3


async def test_a_first_stage_names_five_categories_at_most() -> None:
    categories = [f"c{number}" for number in range(7)]
    small = ScriptedProvider([say(msgspec.json.encode({"categories": categories}).decode())])
    request = await first_request(
        "budget", "go", work(**dict.fromkeys(categories, 3)), classifier=ModelClassifier(small, model="small")
    )
    assert len({name.split("_")[0] for name in names(request)[1:]}) == 4, "five of two tools, cut at eight"
    assert Settings().classifier.most == 5
    everything = replace(PRESETS["budget"], budget=replace(PRESETS["budget"].budget, max_tools=None))
    small = ScriptedProvider([say(msgspec.json.encode({"categories": categories}).decode())])
    request = await first_request(
        everything, "go", work(**dict.fromkeys(categories, 3)), classifier=ModelClassifier(small, model="small")
    )
    assert len({name.split("_")[0] for name in names(request)[1:]}) == 5


# ---------------------------------------------------------------- settings


def test_the_page_of_settings_shows_the_defaults_of_what_no_preset_has() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    example = tomllib.loads(page.partition("```toml\n")[2].partition("\n```")[0])
    learning = asdict(Settings().learning)
    assert {key: learning[key] for key in example["learning"]} == example["learning"]
    classifier = Settings().classifier
    assert (classifier.timeout, classifier.most) == (example["classifier"]["timeout"], example["classifier"]["most"])
    assert Settings().embedding.patience == example["embedding"]["patience"]
