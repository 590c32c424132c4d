"""What a bot of the settings remembers before it answers: the text that fits the message, and the prompt that speaks of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolcaddie.app.bots import bot_parts
from toolcaddie.app.plugged import sources_of
from toolcaddie.app.recalling import recall_of
from toolcaddie.app.runtimes import host_parts, runtime_of
from toolcaddie.app.settings import Settings, load_settings
from toolcaddie.core.bots import BotWork, ChatKey, ChatTurn
from toolcaddie.core.control import Principal
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.personas import Author, Fact, PersonaKey, Provenance, fact_line
from toolcaddie.guards.markers import CLOSING, OPENING
from toolcaddie.personas import StoredChats
from toolcaddie.registry import Registry
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, say

pytestmark = pytest.mark.anyio

ANN = Principal(id="tg:42", bot="coach", channel="tg")
CHAT = "tg:42"
PEANUTS = "Ann's sister Rosa is allergic to peanuts."
SETTINGS = 'preset = "multibot"\ndefault_bot = "coach"\n[[source]]\ntype = "memory"\n[bots.coach]\n'


def written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Returns the settings that a file in the folder holds."""
    monkeypatch.chdir(folder)
    Path("toolcaddie.toml").write_text(SETTINGS)
    return load_settings(environ={})


def memory_block(request: ModelRequest) -> str:
    prompt = request.messages[0].text
    return next(block for block in re.split(r"\n\n(?=#)", prompt) if "memory_search" in block)


@pytest.mark.proves("R002-100")
async def test_fetched_memories_stand_right_before_the_message_and_the_block_of_memory_speaks_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, store = written(tmp_path, monkeypatch), MemoryStore()
    parts = host_parts(settings, store)
    assert parts.personas is not None
    told = Provenance(who=f"default/{ANN.id}", chat=CHAT, trust="clean")
    known = fact_line(Fact(time="14:05", text=PEANUTS, provenance=told))
    key = PersonaKey(tenant="default", bot="coach")
    await parts.personas.write(key, "memory/2026-05-03.md", known, author=Author(who="import"), expected=None)
    turns = [ChatTurn(role="user", text="good morning", at=1.0, who=f"default/{ANN.id}", key="m1")]
    await StoredChats(store).add(ChatKey(tenant="default", bot="coach", chat=CHAT), turns)
    provider = ScriptedProvider([say("No peanuts."), say("Hi.")])
    runtime = runtime_of(settings, sources_of(settings, Registry(), parts), provider, parts=parts)
    talk = bot_parts(runtime, parts, store=store, recall=recall_of(settings, parts)).talk
    async with runtime:
        question = "May my sister Rosa eat peanuts?"
        await talk.answer(BotWork(id="work_1", principal=ANN, message=question, chat=CHAT))
        await runtime.run("good evening", principal=ANN)  # nothing is fetched for a run of its own
    fetched, without = provider.requests
    assert [message.role for message in fetched.messages] == ["system", "user", "system", "user"]
    assert fetched.messages[1].text == "good morning"
    assert fetched.messages[-1].text == question
    memory = fetched.messages[-2].text
    assert re.search(rf"<<<{OPENING} [^>]*>>>\n.*{re.escape(PEANUTS)}.*\n<<<{CLOSING} \w+>>>\Z", memory, re.DOTALL)
    assert PEANUTS not in fetched.messages[0].text
    assert memory_block(fetched) != memory_block(without)
    assert "near the end of the conversation" in memory_block(fetched)
    assert "near the end of the conversation" not in memory_block(without)
