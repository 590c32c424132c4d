"""One part of each socket from outside the package: from Python, and from a settings file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.databases import new_url
from toolcaddie.app.build import assembled
from toolcaddie.app.settings import load_settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import Preset, preset
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.testing import ScriptedProvider, call, say
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio

PACKAGE = '''
import numpy as np

from toolcaddie.core.control import Decision
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.parts import Parts, Variable
from toolcaddie.ports.ranking import Ranking
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.storage.cache import MemoryCache
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, say

seen = []


class Remote:
    """A source with a connection."""

    def __init__(self, name):
        self.name, self.revision, self.connected = name, 0, False

    async def open(self):
        self.connected, self.revision = True, self.revision + 1
        seen.append("source opened")

    async def close(self):
        self.connected, self.revision = False, self.revision + 1
        seen.append("source closed")

    def tools(self):
        tool = Tool(name="look_up_ticket", description="Look up a ticket.", category="tickets", source=self.name)
        return [tool] if self.connected else []

    def categories(self):
        return ()

    async def call_tool(self, tool, arguments, context):
        return ToolResult(content="ticket 7: the printer is on fire")


def source(*, name: str = "tickets", token_env: Variable, parts: Parts) -> Remote:
    seen.append("token " + parts.secrets.require(token_env, what="the key of the ticket system"))
    return Remote(name)


class Sink:
    def __init__(self, *, prefix: str):
        self.prefix = prefix

    async def emit(self, event):
        if type(event).__name__ == "CallFinished":
            seen.append(self.prefix + event.result.text)


def middleware(*, suffix: str):
    async def around(invocation, call_next):
        result = await call_next(invocation)
        return ToolResult(content=result.text + suffix)

    return around


class Policy:
    version = "acme-1"

    def visible(self, catalog, principal):
        return None

    async def decide(self, request):
        return Decision(verdict="ask", reason="a person decides", rule="acme", policy_version=self.version)


class Approver:
    async def approve(self, approval):
        seen.append("asked about " + approval.tool)
        return True


class Store(MemoryStore):
    async def get(self, kind, key):
        seen.append("store asked")
        return await super().get(kind, key)


class AskAPerson:
    name = "ask_a_person"

    def definition(self, offer):
        return Tool(name=self.name, description="Ask a person.")

    async def answer(self, arguments, scene):
        return ToolResult(content="the person says: " + self.answer_text)

    def __init__(self, *, answer: str):
        self.answer_text = answer


class Flat:
    """A ranker for which every tool fits alike."""

    name = "flat"

    def __init__(self, catalog, score):
        self.score, self.size = score, len(catalog)

    def rank(self, words, visible):
        seen.append(f"ranked with {self.score}")
        scores = np.full(self.size, self.score, dtype=np.float32)
        return Ranking(scores=scores if visible is None else np.where(visible, scores, 0).astype(np.float32))


def ranker(catalog, previous=None, /, *, score: float = 0.5):
    return Flat(catalog, score)


class Embedder:
    name, dimensions, languages = "letters", 2, None

    def __init__(self, *, letter: str = "a"):
        seen.append("embeds by " + letter)
        self.letter = letter

    def embed(self, texts):
        rows = np.array([[1.0, text.count(self.letter)] for text in texts], dtype=np.float32).reshape(-1, 2)
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class Topics:
    def __init__(self, *, topic: str):
        self.topic = topic

    async def __call__(self, messages, view):
        seen.append("classified as " + self.topic)
        return [self.topic]


class Cache(MemoryCache):
    pass


def provider(*, base_url, api_key, model, mood: str = "calm", **more):
    return ScriptedProvider([say(f"the scripted provider answers, {mood}")])
'''

POINTS = """
[toolcaddie.sources]
tickets = acme:source
[toolcaddie.sinks]
acme = acme:Sink
[toolcaddie.middleware]
stamp = acme:middleware
[toolcaddie.policies]
acme = acme:Policy
[toolcaddie.approvers]
desk = acme:Approver
[toolcaddie.stores]
acme = acme:Store
[toolcaddie.meta_tools]
ask = acme:AskAPerson
[toolcaddie.rankers]
flat = acme:ranker
[toolcaddie.embedders]
letters = acme:Embedder
[toolcaddie.classifiers]
topics = acme:Topics
[toolcaddie.caches]
acme = acme:Cache
[toolcaddie.providers]
scripted = acme:provider
"""

SETTINGS = """
model = "scripted:any"
database_url = "{url}"

[[source]]
type = "tickets"
token_env = "TICKETS_TOKEN"

[[sink]]
type = "acme"
prefix = "sink saw "

[[middleware]]
type = "stamp"
suffix = ", stamped"

[[meta_tool]]
type = "ask"
answer = "yes"

[policy]
type = "acme"

[approver]
type = "desk"

[store]
type = "acme"

[selection]
rankers = ["flat"]
whole_if_it_fits = false
classify = "always"

[ranker.flat]
score = 0.25

[embedding]
embedder = "letters"

[embedder.letters]
letter = "e"

[provider.scripted]
mood = "cheerful"

[cache]
keep = "acme"

[classifier]
type = "topics"
options = { topic = "tickets" }
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Another package with a part of each socket, installed as far as Python can see."""
    (tmp_path / "acme.py").write_text(PACKAGE)
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TICKETS_TOKEN", "t-1")
    __import__("acme")
    yield sys.modules["acme"]
    del sys.modules["acme"]


async def test_a_part_of_each_socket_from_a_settings_file(acme: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "toolcaddie.toml").write_text(SETTINGS.replace("{url}", new_url()))
    settings = load_settings(environ={})
    async with assembled(settings) as parts:
        assert "ask_a_person" in parts.runtime.preset.meta
        result = await parts.runtime.call("look_up_ticket", {})
        answer = await parts.runtime.run("hello", conversation="c")
        assert [state.status for state in parts.source_states()] == ["connected"]
    assert result.text == "ticket 7: the printer is on fire, stamped"
    assert answer.text == "the scripted provider answers, cheerful"
    for fact in (
        "token t-1",
        "source opened",
        "asked about look_up_ticket",
        "sink saw ticket 7: the printer is on fire, stamped",
        "store asked",
        "ranked with 0.25",
        "embeds by e",
        "classified as tickets",
        "source closed",
    ):
        assert fact in acme.seen, fact


async def test_a_provider_that_a_program_adds_answers_for_the_settings(acme: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "toolcaddie.toml").write_text('model = "own:any"\n[provider.own]\nmood = "new"\n')
    registry = Registry()
    registry.add("provider", "own", acme.provider)
    settings = replace(load_settings(environ={}, registry=registry), database_url=new_url())
    async with assembled(settings, registry=registry) as parts:
        assert (await parts.runtime.run("hello")).text == "the scripted provider answers, new"


async def test_a_part_of_each_socket_from_python(acme: ModuleType) -> None:
    registry, parts = Registry(), Parts()
    registry.add("ranker", "even", acme.ranker)
    made: Any = registry.make
    spoken = made("provider", "scripted", {"base_url": None, "api_key": None, "model": None, "mood": "loud"}, parts)
    async with Runtime(provider=spoken) as runtime:
        assert (await runtime.run("hello")).text == "the scripted provider answers, loud"
    async with Runtime(
        provider=ScriptedProvider([call("ask_a_person"), call("look_up_ticket"), say("done")]),
        sources=[made("source", "tickets", {"token_env": "TICKETS_TOKEN"}, parts)],
        sinks=[made("sink", "acme", {"prefix": "sink saw "})],
        middleware=[made("middleware", "stamp", {"suffix": "!"})],
        policy=made("policy", "acme"),
        approver=made("approver", "desk"),
        documents=made("store", "acme"),
        embedder=made("embedder", "letters"),
        classifier=made("classifier", "topics", {"topic": "tickets"}),
        cache=made("cache", "acme"),
        rankers={"flat": made("ranker", "even", {"score": 0.75})},
        meta_tools=[made("meta_tool", "ask", {"answer": "no"})],
        preset=_with_flat_ranker(),
    ) as runtime:
        result = await runtime.run("look up the ticket")
    assert result.text == "done"
    facts = {
        "ranked with 0.75",
        "sink saw ticket 7: the printer is on fire!",
        "classified as tickets",
        "source closed",
    }
    assert facts <= set(acme.seen)


def _with_flat_ranker() -> Preset:
    settings = preset("default")
    selection = replace(settings.selection, rankers=("flat",), whole_if_it_fits=False, classify="always")
    return replace(settings, meta=(*settings.meta, "ask_a_person"), selection=selection)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '\n[[source]]\ntype = "ticktes"',
            "toolcaddie.toml:3: source.1.type: no source 'ticktes'; did you mean 'tickets'?",
        ),
        ('[[source]]\nname = "x"', "toolcaddie.toml:1: source.1: name its type, a text in quotes: "),
        (
            '[[source]]\ntype = "tickets"\n\ntoken = "t"\ntoken_env = "T"',
            "toolcaddie.toml:4: unknown key 'source.1.token'; did you mean 'token_env'?",
        ),
        (
            '[[source]]\ntype = "tickets"\ntoken_env = "sk-0123456789"',
            "toolcaddie.toml:3: source.1.token_env: this looks like a key; name the environment variable that holds it",
        ),
        (
            '[[sink]]\ntype = "acme"\nprefix = 3',
            "toolcaddie.toml:3: sink.1.prefix: Expected `str`, got `int`; write a text",
        ),
        ('[policy]\ntype = "acmee"', "toolcaddie.toml:2: policy.type: no policy 'acmee'; did you mean 'acme'?"),
        ('[embedder.leters]\nletter = "e"', "toolcaddie.toml:1: embedder.leters: no embedder 'leters'; did you mean"),
        (
            '[provider.scripte]\nmood = "sad"',
            "toolcaddie.toml:1: provider.scripte: no provider 'scripte'; did you mean 'scripted'?",
        ),
        (
            "[provider.scripted]\nmood = 3",
            "toolcaddie.toml:2: provider.scripted.mood: Expected `str`, got `int`; write a text",
        ),
        (
            "[provider.groq]\n\ntimout = 3",
            "toolcaddie.toml:3: unknown key 'provider.groq.timout'; did you mean 'timeout'?",
        ),
        (
            '[provider.openai]\napi_key = "sk-0123456789"',
            "toolcaddie.toml:2: provider.openai.api_key: a key is never written into this file; name the environment variable",
        ),
        (
            '[provider.gemini]\nkey_env = "sk-0123456789"',
            "toolcaddie.toml:2: provider.gemini.key_env: this looks like a key; name the environment variable",
        ),
        (
            '[provider.anthropic.headers]\nx-team = "a"\nX-Api-Key = "sk-0123456789"',
            "toolcaddie.toml:3: provider.anthropic.headers.X-Api-Key: a key is never written into this file",
        ),
        ('[cache]\nkeep = "acmee"', "toolcaddie.toml:2: cache.keep: no cache 'acmee'; did you mean 'acme'?"),
        ('[[sink]]\ntype = "acme"\nprefix = "x"\nrequired = false', "only a source has this key"),
    ],
)
def test_a_wrong_table_is_an_error_at_start_with_its_line(
    acme: ModuleType, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "toolcaddie.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_settings(environ={})
    assert message in str(raised.value)
