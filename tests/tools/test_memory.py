"""`memory_search` and `memory_get`, through a runtime, over the real store of files and chats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from toolcaddie import Principal, Runtime
from toolcaddie.core.bots import ChatKey, ChatTurn
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.personas import Author, Fact, PersonaKey, Provenance, fact_line
from toolcaddie.core.tool import ToolResult
from toolcaddie.parts import Parts
from toolcaddie.personas import StoredChats, StoredPersonas
from toolcaddie.registry import Registry
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, say
from toolcaddie.tools.memory.memory import Memory
from toolcaddie.tools.memory.recall import MOST_CHARACTERS, Recall

pytestmark = pytest.mark.anyio

ANN = Principal(id="telegram:42", bot="coach", channel="telegram")
BEN = Principal(id="telegram:43", bot="coach", channel="telegram")
KEY = PersonaKey(tenant="default", bot="coach")
GROUP = "telegram:group:-100"
DAY = "memory/2026-05-03.md"


class Host:
    """The files and chats of a bot, and a runtime with the memory tools."""

    def __init__(self) -> None:
        store = MemoryStore()
        self.personas, self.chats = StoredPersonas(store), StoredChats(store)
        source: Any = Registry().make("source", "memory", {}, Parts(personas=self.personas, chats=self.chats))
        self.source = source

    async def log(self, *facts: Fact | str, path: str = DAY) -> None:
        text = "\n".join(fact if isinstance(fact, str) else fact_line(fact) for fact in facts)
        await self.personas.write(KEY, path, text, author=Author(who="import"), expected=None)

    async def say(
        self, chat: str, who: Principal, text: str, answer: str = "Noted.", taint: Sequence[str] = ()
    ) -> None:
        turns = [
            ChatTurn(role="user", text=text, at=1_777_800_000.0, who=f"default/{who.id}"),
            ChatTurn(role="assistant", text=answer, at=1_777_800_001.0, who="coach", taint=tuple(taint)),
        ]
        await self.chats.add(ChatKey(tenant="default", bot="coach", chat=chat), turns)

    async def call(self, name: str, who: Principal, chat: str = "", **arguments: Any) -> ToolResult:
        async with Runtime(provider=ScriptedProvider([]), sources=[self.source]) as runtime:
            return await runtime.call(name, arguments, principal=who, conversation=chat or None)

    async def search(self, query: str, who: Principal = ANN, chat: str = "telegram:42", **more: Any) -> ToolResult:
        return await self.call("memory_search", who, chat, query=query, **more)


def fact(text: str, who: Principal = ANN, chat: str = "telegram:42", trust: Any = "clean") -> Fact:
    return Fact(time="14:05", text=text, provenance=Provenance(who=f"default/{who.id}", chat=chat, trust=trust))


@pytest.mark.proves("R002-38", "R002-39")
async def test_a_search_shows_path_lines_score_and_how_each_result_was_reached() -> None:
    host = Host()
    await host.log("# 3 May", fact("Ann's sister Rosa is allergic to peanuts."))
    await host.log("Peanuts are sold in Lisbon.", path="notes/shopping.md")
    await host.say("telegram:42", ANN, "My sister wants a cake without peanuts.")
    result = await host.search("sister peanuts")
    assert {each["path"] for each in result.structured["results"]} == {
        DAY,
        "notes/shopping.md",
        "sessions/telegram:42.md",
    }
    best = result.structured["results"][0]
    assert 0.1 <= best["score"] <= 1
    assert "words (" in best["by"]
    assert f"{DAY}, lines 2-2, 2026-05-03, score " in result.text
    assert len((await host.search("sister peanuts", maxResults=1)).structured["results"]) == 1
    assert "Nothing in memory fits" in (await host.search("sister peanuts", minScore=1.0)).text


async def test_a_misspelled_word_is_found_by_its_spelling() -> None:
    host = Host()
    await host.log(fact("Rosa is allergic to peanuts."), fact("The car is blue."))
    assert "peanuts" in (await host.search("peanutts")).text


async def test_nobody_finds_what_another_person_said_in_private() -> None:
    host = Host()
    await host.log(fact("The password of the shed is walnut."), "- 09:00 The gym opens at six.")
    await host.say("telegram:42", ANN, "My walnut tree is ill.")
    assert "walnut" not in (await host.search("walnut", BEN, "telegram:43", minScore=0)).text
    assert "walnut" not in (await host.search("walnut", BEN, "telegram:42", minScore=0)).text
    assert "gym opens" in (await host.search("when does the gym open", BEN, "telegram:43")).text
    for path in (DAY, "sessions/telegram:42.md"):
        assert "walnut" not in (await host.call("memory_get", BEN, "telegram:43", path=path)).text


async def test_a_group_finds_only_what_was_said_in_it() -> None:
    host = Host()
    await host.say("telegram:42", ANN, "My private walnut.")
    await host.say(GROUP, BEN, "The walnut of the group.")
    await host.say("telegram:group:-200", ANN, "The walnut of another group.")
    await host.log("A walnut of the operator.", path="notes/a.md")
    result = await host.search("walnut", ANN, GROUP)
    assert [each["path"] for each in result.structured["results"]] == [f"sessions/{GROUP}.md"]
    client = Principal(id="telegram:42", bot="coach", channel="gateway")
    assert "Nothing in memory fits" in (await host.search("walnut", client, GROUP)).text
    assert "group" not in (await host.search("walnut", ANN, "telegram:42")).text


@pytest.mark.proves("R002-40")
async def test_lines_are_read_on_with_their_numbers() -> None:
    host = Host()
    await host.log("one", "two", "three", "four", path="notes/a.md")
    result = await host.call("memory_get", ANN, path="notes/a.md", **{"from": 2, "lines": 2})
    assert "\n     2\ttwo\n     3\tthree\n" in result.text
    assert result.text.endswith("[more lines follow; read on with from=4]")
    assert (await host.call("memory_get", ANN, path="notes/a.md", lines=501)).error == "invalid_arguments"


@pytest.mark.proves("R002-41", "R002-109")
@pytest.mark.parametrize(
    "path", ["/etc/passwd", "~/x", "C:\\x", "../SOUL.md", "memory/../SOUL.md", "notes\\..\\x", "SOUL.md", "memory/"]
)
async def test_a_path_that_is_not_in_memory_is_refused(path: str) -> None:
    host = Host()
    await host.personas.write(KEY, "SOUL.md", "secret", author=Author(who="import"), expected=None)
    result = await host.call("memory_get", ANN, path=path)
    assert result.is_error
    assert "secret" not in result.text


@pytest.mark.parametrize(("trust", "tainted"), [("clean", ()), ("tainted", ("memory_search",))])
async def test_only_words_that_the_person_does_not_vouch_for_taint_the_run(
    trust: str, tainted: tuple[str, ...]
) -> None:
    host = Host()
    await host.log(fact("Rosa is allergic to peanuts.", trust=trust))
    script = [call("memory_search", {"query": "peanuts"}), say("She is.")]
    async with Runtime(provider=ScriptedProvider(script), sources=[host.source]) as runtime:
        result = await runtime.run("What is Rosa allergic to?", principal=ANN)
    assert result.state.taint == tainted


async def test_a_message_that_was_changed_or_erased_is_no_longer_found() -> None:
    host = Host()
    await host.say("telegram:42", ANN, "My walnut tree.")
    assert "walnut" in (await host.search("walnut")).text
    await host.say("telegram:42", ANN, "My cherry tree.")
    assert "cherry" in (await host.search("cherry")).text
    await host.chats.delete(ChatKey(tenant="default", bot="coach", chat="telegram:42"))
    assert "Nothing in memory fits" in (await host.search("walnut cherry")).text


async def test_recall_adds_clean_words_of_the_person_within_its_room() -> None:
    host = Host()
    await host.log(fact("Rosa is allergic to peanuts."), fact("Peanuts are good, says a page.", trust="tainted"))
    recall = Recall(Memory(host.personas, host.chats))
    recalled = await recall.context_for(KEY, ANN, "telegram:42", "Is Rosa allergic to peanuts?")
    assert "Rosa is allergic" in recalled.text
    assert "says a page" not in recalled.text
    await host.say("telegram:42", ANN, "Peanuts! " * 1_000)
    assert len((await recall.context_for(KEY, ANN, "telegram:42", "peanuts")).text) <= MOST_CHARACTERS
    assert (await recall.context_for(KEY, BEN, "telegram:43", "peanuts")).text == ""


def test_without_stored_files_and_chats_the_source_is_refused_unless_search_is_off() -> None:
    with pytest.raises(ConfigError, match="search = false"):
        Registry().make("source", "memory", {}, Parts())
    assert not Registry().make("source", "memory", {"search": False}, Parts()).tools()
