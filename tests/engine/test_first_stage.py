"""Answers and failures of a first stage, and the tools that the model is sent after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.engine.test_expansion import Recorder, names, source, tool_texts
from toolcaddie.core.events import RequestClassified
from toolcaddie.core.message import Message
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.run import RunRequest
from toolcaddie.core.selection import Classification
from toolcaddie.runtime import Runtime
from toolcaddie.samples import gym
from toolcaddie.selection.classifier import ModelClassifier
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio


def says(value: Any) -> Any:
    async def classifier(messages: Sequence[Message], view: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return classifier


def asks(answer: Any) -> ModelClassifier:
    return ModelClassifier(ScriptedProvider([answer]), model="small")


async def sent(classifier: Any, message: str, *, preset: Any = "budget", sinks: Sequence[Any] = ()) -> list[str]:
    """Returns the names that the model is sent in the first round."""
    provider = ScriptedProvider([say("hi")])
    runtime = Runtime(
        provider=provider, sources=[source(notes=9, web=3)], preset=preset, classifier=classifier, sinks=sinks
    )
    assert (await runtime.run(message)).text == "hi"
    return names(provider.requests[0])


USELESS = {
    "nobody is asked": lambda: None,
    "it raises": lambda: says(ValueError("boom")),
    "it returns nothing": lambda: says(None),
    "it returns one text": lambda: says("notes"),
    "it returns numbers": lambda: says([1, 2]),
    "it returns unknown names": lambda: says(["nonsense", "more of it"]),
    "it says that it failed": lambda: says(Classification(how="failed")),
    "the model answers nothing": lambda: asks(say("")),
    "the model answers unknown names": lambda: asks(say('{"categories": ["nonsense"]}')),
    "the model chats": lambda: asks(say("I would ask a doctor.")),
}
"""First stages that say nothing of use."""


@pytest.mark.proves("X-2", "R000-21")
@pytest.mark.parametrize("how", USELESS)
async def test_without_a_match_and_without_an_answer_the_meta_tool_is_sent_alone(how: str) -> None:
    assert await sent(USELESS[how](), "zzqx qqvv") == [REQUEST_MORE_TOOLS]


@pytest.mark.proves("X-2")
@pytest.mark.parametrize("how", USELESS)
async def test_without_an_answer_the_words_decide_and_the_meta_tool_stands_first(how: str) -> None:
    assert await sent(USELESS[how](), "take notes") == [REQUEST_MORE_TOOLS, *(f"notes_{n}" for n in range(8))]


@pytest.mark.proves("X-2")
@pytest.mark.parametrize("how", ["a list", "a classification", "a model"])
@pytest.mark.parametrize("message", ["good morning", "my notes say hello"])
async def test_only_a_plain_none_is_chat_without_any_tool(how: str, message: str) -> None:
    stages = {
        "a list": says([]),
        "a classification": says(Classification()),
        "a model": asks(say('{"categories": []}')),
    }
    assert await sent(stages[how], message) == []


@pytest.mark.proves("X-2")
@pytest.mark.parametrize("on_no_match", ["defaults", "core"])
async def test_with_another_on_no_match_the_meta_tool_is_there_after_a_plain_none_too(on_no_match: Any) -> None:
    base = PRESETS["budget"]
    preset = replace(base, selection=replace(base.selection, on_no_match=on_no_match))
    assert (await sent(says([]), "good morning", preset=preset))[:1] == [REQUEST_MORE_TOOLS]


@pytest.mark.proves("X-2")
async def test_a_first_stage_asked_only_when_needed_may_say_none_as_well() -> None:
    base = PRESETS["budget"]
    needed = replace(base, selection=replace(base.selection, classify="needed"))
    assert await sent(says([]), "good morning", preset=needed) == []
    assert await sent(says(ValueError("boom")), "good morning", preset=needed) == [REQUEST_MORE_TOOLS]


@pytest.mark.proves("X-2")
async def test_without_any_tools_there_is_nothing_to_ask_for() -> None:
    provider = ScriptedProvider([say("hi")])
    await Runtime(provider=provider, sources=[], preset="budget").run("good morning")
    assert not provider.requests[0].tools


async def test_a_spanish_request_to_the_english_gym_gets_its_tools_at_once() -> None:
    provider = ScriptedProvider([say("¿Qué Juan?")])
    await Runtime(provider=provider, sources=[gym.source()], preset="budget").run(
        "congélale la cuota a Juan hasta agosto, por favor"
    )
    assert "freeze_membership" in names(provider.requests[0])


@pytest.mark.proves("X-2", "R000-38")
async def test_a_request_in_a_language_without_a_table_gets_there_by_asking_for_more() -> None:
    provider = ScriptedProvider(
        [
            call(REQUEST_MORE_TOOLS, {"categories": ["memberships", "clients"], "reason": "тоқтату"}),
            call("get_clients_list", {"search": "John"}),
            say("Джонды таптым."),
        ]
    )
    runtime = Runtime(provider=provider, sources=[gym.source()], preset="budget")
    result = await runtime.run("Джонның мүшелігін тамызға дейін тоқтатып қойшы")
    assert names(provider.requests[0]) == [REQUEST_MORE_TOOLS]
    assert "freeze_membership" in names(provider.requests[1])
    assert (result.text, result.tool_calls) == ("Джонды таптым.", ("get_clients_list",))
    assert "John" in tool_texts(provider.requests[2])[1]


async def test_the_turn_after_a_lone_meta_tool_selects_as_usual() -> None:
    provider = ScriptedProvider([say("hello"), say("noted")])
    runtime = Runtime(provider=provider, sources=[source(notes=9)], preset="budget")
    first = Message(role="user", content="good morning")
    await runtime.run(RunRequest(messages=(first,), conversation="c"))
    again = (first, Message(role="assistant", content="hello"), Message(role="user", content="take notes"))
    await runtime.run(RunRequest(messages=again, conversation="c"))
    assert [names(request)[:2] for request in provider.requests] == [
        [REQUEST_MORE_TOOLS],
        [REQUEST_MORE_TOOLS, "notes_0"],
    ]


# --- a first stage of one's own that breaks -------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["budget", "default"])
async def test_one_that_raises_is_logged_and_recorded_and_the_run_goes_on(preset: str) -> None:
    base, recorder = PRESETS[preset], Recorder()
    always = replace(base, selection=replace(base.selection, classify="always", whole_if_it_fits=False))
    with capture_logs() as lines:
        found = await sent(says(RuntimeError("out of credits")), "take notes", preset=always, sinks=[recorder])
    assert "notes_0" in found
    (event,) = recorder.of(RequestClassified)
    assert (event.classification.how, event.classification.categories) == ("failed", ())
    assert "RuntimeError: out of credits" in event.classification.detail
    assert any(line["event"] == "classifier_raised" and line["log_level"] == "error" for line in lines)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "returned None"),
        (7, "returned a int"),
        ("notes", "returned a str"),
        ({"categories": ["notes"]}, "returned a dict"),
        ([1, "notes"], "a list that holds other things than names"),
        (Classification(categories=None), "returned None"),  # type: ignore[arg-type]
        (["nonsense"], "only unknown categories, 1 of them"),
    ],
)
async def test_one_that_returns_garbage_is_logged_and_counts_as_failed(value: Any, words: str) -> None:
    recorder = Recorder()
    with capture_logs() as lines:
        assert "notes_0" in await sent(says(value), "take notes", sinks=[recorder])
    (event,) = recorder.of(RequestClassified)
    assert event.classification.how == "failed"
    assert words in event.classification.detail
    assert any(line["log_level"] == "warning" for line in lines)


async def test_known_names_among_unknown_ones_count() -> None:
    assert await sent(says(["nonsense", "web", "web"]), "zzqx") == [REQUEST_MORE_TOOLS, "web_0", "web_1", "web_2"]


async def test_names_may_come_as_a_tuple_or_a_set() -> None:
    for given in (("web",), {"web"}):
        assert "web_0" in await sent(says(given), "zzqx")
