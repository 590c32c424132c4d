"""A runtime with an embedder finds tools by meaning, and is never held up or failed by it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.embedders.models import Meanings, RemoteMeanings
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.events import RunEvent, ToolsSelected
from toolcaddie.core.message import Message
from toolcaddie.core.presets import SIGNALS, preset
from toolcaddie.core.run import RunRequest
from toolcaddie.core.tool import Tool
from toolcaddie.learning import Experience
from toolcaddie.runtime import Runtime
from toolcaddie.sources.definitions import DefinitionSource
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

ASKED = "I am away in August, pause everything please"
"""Shares no word with the tool that does it."""
WANTED = "stop_membership"
LEXICAL = replace(preset("default"), selection=replace(preset("default").selection, rankers=SIGNALS["lexical"]))


def tools(count: int = 60) -> list[Tool]:
    made = [
        Tool(name=WANTED, description="Freeze a membership.", input_schema={}),
        Tool(name="send_message", description="Write a letter to a member.", input_schema={}),
    ]
    return [
        *made,
        *(Tool(name=f"report_{n}", description=f"Figures of area {n}.", input_schema={}) for n in range(count)),
    ]


def runtime(embedder: Any = None, *, replies: Any = None, count: int = 60, **options: Any) -> Runtime:
    return Runtime(
        provider=ScriptedProvider(replies or [say("done")] * 20),
        sources=[DefinitionSource("work", tools(count), origin="a test")],
        embedder=embedder,
        **options,
    )


def names(selection: Any) -> list[str]:
    return [chosen.tool.name for chosen in selection.tools]


def sent(made: Runtime, turn: int = -1) -> list[str]:
    return [definition["function"]["name"] for definition in made.provider.requests[turn].tools]


@pytest.mark.parametrize("embedder", [Meanings, RemoteMeanings])
async def test_a_tool_is_found_that_shares_no_word_with_the_request(embedder: Any) -> None:
    by_words, by_meaning = runtime(preset=LEXICAL), runtime(embedder())
    await by_words.run(ASKED)
    await by_meaning.run(ASKED)
    assert WANTED not in sent(by_words)
    assert WANTED in sent(by_meaning)


def test_without_an_event_loop_it_is_found_too() -> None:
    embedder = RemoteMeanings()
    made = runtime(embedder)
    assert names(made.select(ASKED))[0] == WANTED
    assert made.explain(WANTED, ASKED).chosen
    assert embedder.closed


async def test_what_a_model_asks_for_later_is_found_by_meaning_too() -> None:
    more = call("request_more_tools", {"query": "bill"})
    embedder = RemoteMeanings()
    made = Runtime(
        provider=ScriptedProvider([more, say("done")]),
        sources=[
            DefinitionSource(
                "work", [*tools(), Tool(name="print_it", description="Invoice.", input_schema={})], origin="a test"
            )
        ],
        embedder=embedder,
    )
    await made.run(ASKED)
    assert "print_it" not in sent(made, 0)
    assert "print_it" in sent(made, 1)


async def test_an_embedder_that_is_down_changes_nothing_and_fails_nothing() -> None:
    embedder = RemoteMeanings()
    embedder.fails = True
    by_words, made = runtime(), runtime(embedder)
    assert names(made.select(ASKED)) == names(by_words.select(ASKED))
    for _ in range(3):
        assert (await made.run(ASKED)).status == "completed"
        await by_words.run(ASKED)
        assert sent(made) == sent(by_words)
    assert embedder.times_asked <= 2  # the catalog and the message of the first request


async def test_the_record_of_a_request_says_that_the_embedder_failed_but_not_where_it_is() -> None:
    """Tenants read what is recorded of their requests; the name of an endpoint has its address."""
    embedder, recorded = RemoteMeanings(), list[tuple[str, ...]]()
    embedder.fails = True
    made = runtime(embedder)

    async def record(event: RunEvent) -> None:
        if isinstance(event, ToolsSelected):
            recorded.append(event.selection.degraded)

    with made.subscribe(record):
        await made.run(ASKED)
    assert recorded == [("the embedder failed; words alone find the tools",)]
    assert embedder.name in made.degraded[0]


async def test_an_embedder_that_hangs_holds_a_request_up_no_longer_than_the_patience() -> None:
    embedder = RemoteMeanings()
    embedder.hangs = True
    made = runtime(embedder, patience=0.02)
    async with asyncio.timeout(5):
        assert (await made.run(ASKED)).status == "completed"
        await made.close()


async def test_what_was_said_before_is_not_embedded_again() -> None:
    embedder = Meanings()
    made = runtime(embedder)
    first = Message(role="user", content="send a letter to Anna")
    reply = Message(role="assistant", content="Shall I write the letter now?")
    await made.run(RunRequest(messages=(first,)))
    before = len(embedder.asked)
    await made.run(RunRequest(messages=(first, reply, Message(role="user", content="yes"))))
    assert sorted(embedder.asked[before:]) == ["Shall I write the letter now?", "yes"]


async def test_a_restart_embeds_nothing_of_the_catalog_again() -> None:
    documents = MemoryStore()
    await runtime(Meanings(), documents=documents).prepare()
    embedder = Meanings()
    made = runtime(embedder, documents=documents, count=61)
    await made.run(ASKED)
    assert WANTED in sent(made)
    assert [text for text in embedder.asked if "report" in text] == ["report 60: Figures of area 60.", "report 60"]


@pytest.mark.parametrize("embedder", [Meanings, RemoteMeanings])
async def test_a_tool_that_comes_later_is_found_by_meaning_at_once_and_one_that_went_is_not(embedder: Any) -> None:
    source = Changing("work", tools())
    made = Runtime(provider=ScriptedProvider([say("done")] * 9), sources=[source], embedder=embedder())
    await made.run("the bill")
    assert "print_it" not in sent(made)
    source.put(*tools(), Tool(name="print_it", description="Invoice.", input_schema={}, source="work"))
    await made.run("the bill")
    assert "print_it" in sent(made)
    source.put(*tools()[1:], Tool(name="print_it", description="Invoice.", input_schema={}, source="work"))
    await made.run(ASKED)
    assert WANTED not in sent(made)
    await made.run("the bill")
    assert "print_it" in sent(made)


async def test_a_catalog_that_is_sent_whole_needs_no_vectors() -> None:
    embedder = Meanings()
    await runtime(embedder, count=5).run(ASKED)
    assert embedder.asked == []


@pytest.mark.parametrize("name", ["keyword", "budget"])
async def test_presets_that_find_by_something_else_never_ask_it(name: str) -> None:
    embedder = Meanings()
    with_it, without = runtime(embedder, preset=name), runtime(preset=name)
    await with_it.run(ASKED)
    await without.run(ASKED)
    assert embedder.asked == []
    assert with_it.provider.requests[-1].tools == without.provider.requests[-1].tools


def test_ranking_by_meaning_without_an_embedder_is_refused_at_start() -> None:
    chosen = preset("default")
    chosen = replace(chosen, selection=replace(chosen.selection, rankers=SIGNALS["embedding"]))
    with pytest.raises(ConfigError, match=r"embedding\.embedder"):
        runtime(preset=chosen)


class Changing(DefinitionSource):
    """Definitions that can be replaced."""

    def __init__(self, name: str, made: list[Tool]) -> None:
        super().__init__(name, made, origin="a test")
        self._changes = 0
        self._now = list(super().tools())

    @property
    def revision(self) -> int:
        return self._changes

    def tools(self) -> list[Tool]:
        return self._now

    def put(self, *made: Tool) -> None:
        self._now = [replace(tool, source=self.name) for tool in made]
        self._changes += 1


class Raising(Meanings):
    def embed(self, texts: Any) -> Any:
        raise RuntimeError("out of memory")


class Nowhere(Meanings):
    def embed(self, texts: Any) -> Any:
        return super().embed(texts) * float("nan")


class RaisingRemote(RemoteMeanings):
    async def fetch(self, texts: Any) -> Any:
        raise ValueError("not what I expected")


@pytest.mark.parametrize("embedder", [Raising, Nowhere, RaisingRemote])
@pytest.mark.parametrize("experience", [False, True])
async def test_an_embedder_that_raises_whatever_it_likes_fails_no_request(embedder: Any, experience: bool) -> None:
    made = runtime(embedder(), experience=Experience() if experience else None)
    for _ in range(2):
        await made.run("freeze a membership")
        assert WANTED in sent(made), "words find it"
