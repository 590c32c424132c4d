"""The contract of every socket: our own parts keep it, and spoiled ones are caught."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from tests.tools.host.shelf import Shelf
from tests.tools.host.spoiled_shelves import SPOILED_SHELVES
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.control.policy.every import EveryPolicy
from toolcaddie.control.results.retry import Retry
from toolcaddie.control.results.timeout import Timeout
from toolcaddie.control.results.truncate import Truncate
from toolcaddie.core.channels import ChannelFacts, ChannelReply, ChannelRequest, Incoming, Outgoing
from toolcaddie.core.content import Image
from toolcaddie.core.control import Decision
from toolcaddie.core.errors import OutboundError
from toolcaddie.core.programs import Program, ProgramResult
from toolcaddie.core.storage import CacheLevel
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.meta.registry import OURS
from toolcaddie.parts import Parts
from toolcaddie.ports import (
    CallOrder,
    CallReport,
    ChannelInbox,
    Command,
    OnOutput,
    PlacedCall,
    RefusedCall,
    Review,
    Reviewed,
    SearchHit,
)
from toolcaddie.ports.ranking import Ranking
from toolcaddie.programs.named import monty
from toolcaddie.registry import SOCKETS, Registry
from toolcaddie.sandbox.plain import Plain
from toolcaddie.selection.classifier import ModelClassifier
from toolcaddie.sources.definitions import DefinitionSource
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.storage.cache import MemoryCache, StoreCache
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.telemetry import OpenTelemetrySink, StructlogSink
from toolcaddie.testing import ScriptedProvider, part_contracts, say
from toolcaddie.testing.part_contracts import (
    APPROVER,
    CACHE,
    CHANNEL,
    CLASSIFIER,
    EMBEDDER,
    INTERPRETER,
    META_TOOL,
    MIDDLEWARE,
    POLICY,
    RANKER,
    REVIEWER,
    SANDBOX,
    SEARCH,
    SINK,
    SOURCE,
    STATE,
    TELEPHONY,
    BrokenPromises,
    Check,
    StateSubject,
    Subject,
    check_all,
)
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio


class Spelling:
    """An embedder by letters."""

    name, dimensions = "spelling", 26

    def embed(self, texts: Sequence[str]) -> Any:
        counts = np.array([[text.lower().count(chr(97 + at)) for at in range(26)] for text in texts], dtype=np.float32)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)


class Quiet:
    """An approver that is never there."""

    async def approve(self, approval: Any) -> bool | None:
        return None


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def keywords(messages: Sequence[Any], view: Any) -> list[str]:
    """A classifier: the categories that the last message names by a keyword."""
    text = messages[-1].text.lower()
    return [
        category.name
        for category in view.catalog.categories
        if category.name in view.category_names() and any(word in text for word in category.keywords)
    ]


class ByteMask(AllowAll):
    """Shows every tool by a mask with one byte for each, the type that `Policy.visible` declares."""

    def visible(self, catalog: Any, principal: Any) -> Any:
        return b"\1" * len(catalog)


OWN: list[tuple[Sequence[Check[Any]], str, Callable[[], Any]]] = [
    (SOURCE, "functions", lambda: FunctionSource("sums", [add])),
    (SOURCE, "definitions", lambda: DefinitionSource("known", [Tool(name="a", source="known")], origin="x")),
    (SOURCE, "gym", lambda: Registry().make("source", "gym")),
    (EMBEDDER, "spelling", Spelling),
    (MIDDLEWARE, "truncate", lambda: Truncate(100_000)),
    (MIDDLEWARE, "retry", lambda: Retry(1)),
    (MIDDLEWARE, "timeout", Timeout),
    (POLICY, "allow", AllowAll),
    (POLICY, "every", lambda: EveryPolicy(ByteMask())),
    (APPROVER, "quiet", Quiet),
    *((RANKER, name, partial(Registry().make, "ranker", name)) for name in Registry().names("ranker")),
    (SINK, "log", StructlogSink),
    (SINK, "traces", OpenTelemetrySink),
    (SINK, "metrics", lambda: Registry().make("sink", "metrics", {}, Parts(metrics=CollectorRegistry()))),
    (CLASSIFIER, "keywords", lambda: keywords),
    (
        CLASSIFIER,
        "model",
        lambda: ModelClassifier(ScriptedProvider(lambda request: say('["invoices", "x"]')), owns=True),
    ),
    (CACHE, "memory", MemoryCache),
    (CACHE, "store", lambda: StoreCache(MemoryStore())),
    (INTERPRETER, "monty", monty),
    *((META_TOOL, name, lambda tool=tool: tool) for name, tool in OURS.items()),
]


@pytest.mark.parametrize(
    ("check", "name", "make"),
    [
        pytest.param(check, name, make, id=f"{name}: {check}")
        for checks, name, make in OWN
        for check in checks
        if check.applies_to(Subject(name=name, make=make))
    ],
)
async def test_our_own_parts_keep_the_contract(check: Check[Any], name: str, make: Callable[[], Any]) -> None:
    await check(Subject(name=name, make=make))


# --- spoiled parts ---------------------------------------------------------------------------------------------------


class Stranger(DefinitionSource):
    """Its tools say that another source runs them."""

    def __init__(self) -> None:
        super().__init__("here", [Tool(name="a", source="there")], origin="x")


class Raising(DefinitionSource):
    def __init__(self) -> None:
        super().__init__("raising", [Tool(name="a", source="raising")], origin="x")

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: Any) -> ToolResult:
        raise KeyError(tool.name)


class Restless(DefinitionSource):
    """Other tools each time, under one revision."""

    def __init__(self) -> None:
        super().__init__("restless", [], origin="x")
        self._numbers = itertools.count()

    def tools(self) -> Sequence[Tool]:
        return [Tool(name=f"tool_{next(self._numbers)}", source="restless")]


class Once(DefinitionSource):
    """Opens a single time."""

    def __init__(self) -> None:
        super().__init__("once", [Tool(name="a", source="once")], origin="x")
        self._opened = False

    async def open(self) -> None:
        if self._opened:
            raise RuntimeError("opened already")
        self._opened = True

    async def close(self) -> None:
        if not self._opened:
            raise RuntimeError("never opened")


class Doubles(Spelling):
    def embed(self, texts: Sequence[str]) -> Any:
        return super().embed(texts).astype(np.float64)


class Unscaled(Spelling):
    def embed(self, texts: Sequence[str]) -> Any:
        return super().embed(texts) * np.float32(3)


class Relative(Spelling):
    """A vector that depends on its neighbours."""

    def embed(self, texts: Sequence[str]) -> Any:
        moved = super().embed(texts) - super().embed(texts).mean(axis=0)
        return (moved / np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-9)).astype(np.float32)


async def _text(invocation: Any, call_next: Any) -> Any:
    return (await call_next(invocation)).text


async def _hides_errors(invocation: Any, call_next: Any) -> ToolResult:
    return ToolResult(content=(await call_next(invocation)).text)


async def _swallows(invocation: Any, call_next: Any) -> ToolResult:
    try:
        result: ToolResult = await call_next(invocation)
    except asyncio.CancelledError:
        return ToolResult(content="never mind")
    return result


class Shared:
    """Holds the invocation in itself, so that calls side by side meet."""

    async def __call__(self, invocation: Any, call_next: Any) -> ToolResult:
        self.invocation = invocation
        await asyncio.sleep(0)
        result: ToolResult = await call_next(self.invocation)
        return result


class HalfMask(AllowAll):
    def visible(self, catalog: Any, principal: Any) -> Any:
        return np.ones(1, dtype=bool)


class Silent(AllowAll):
    async def decide(self, request: Any) -> Decision:
        return Decision(verdict="deny", reason="", rule="", policy_version=self.version)


class OldVersion(AllowAll):
    async def decide(self, request: Any) -> Decision:
        return Decision(verdict="allow", policy_version="yesterday")


class Bare(AllowAll):
    async def decide(self, request: Any) -> Any:
        return True


class Wordy(Quiet):
    async def approve(self, approval: Any) -> Any:
        return "yes"


class Failing(Quiet):
    async def approve(self, approval: Any) -> bool | None:
        raise ConnectionError("no desk")


class OneAtATime(Quiet):
    def __init__(self) -> None:
        self._busy = False

    async def approve(self, approval: Any) -> bool | None:
        if self._busy:
            raise RuntimeError("busy")
        self._busy = True
        await asyncio.sleep(0)
        self._busy = False
        return True


class FromTheStart:
    """Knows only runs whose beginning it saw."""

    def __init__(self) -> None:
        self.runs: dict[str, int] = {}

    async def emit(self, event: Any) -> None:
        if type(event).__name__ == "RunStarted":
            self.runs[event.run_id] = 0
        self.runs[event.run_id] += 1


class KnownKinds:
    async def emit(self, event: Any) -> None:
        if "Version" in type(event).__name__:
            raise TypeError(f"what is a {type(event).__name__}?")


class OneRun:
    run_id = ""

    async def emit(self, event: Any) -> None:
        if self.run_id not in ("", event.run_id):
            raise ValueError(f"another run: {event.run_id}")
        self.run_id = event.run_id


class Flat:
    """A ranker for which every tool fits alike; it forgets to look at who may see what."""

    name = "flat"

    def __init__(self, catalog: Any, previous: Any = None) -> None:
        self.size = len(catalog)

    def rank(self, words: Any, visible: Any) -> Ranking:
        return Ranking(scores=np.ones(self.size, dtype=np.float32))


class Endless(Flat):
    def rank(self, words: Any, visible: Any) -> Ranking:
        return Ranking(scores=np.full(self.size, np.nan, dtype=np.float32))


class Wavering(Flat):
    turns = itertools.count()

    def rank(self, words: Any, visible: Any) -> Ranking:
        return Ranking(scores=np.full(self.size, next(self.turns), dtype=np.float32))


class Overdone(Flat):
    def rank(self, words: Any, visible: Any) -> Ranking:
        return Ranking(scores=np.full(self.size, 7, dtype=np.float32), calibrated=True)


async def _in_one_text(messages: Any, view: Any) -> Any:
    return "clients"


async def _needs_a_word(messages: Any, view: Any) -> Any:
    return [name for name in view.category_names() if name == messages[-1].text.split()[0]]


async def _names_all(messages: Any, view: Any) -> Any:
    return [category.name for category in view.catalog.categories]


async def _shortens(messages: Any, view: Any) -> Any:
    if isinstance(messages, list):
        messages.clear()
    return []


async def _goes_on(messages: Any, view: Any) -> Any:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0.01)
    return []


class LastView:
    """Holds the view in itself, so that conversations side by side meet."""

    async def __call__(self, messages: Any, view: Any) -> Any:
        self.view = view
        await asyncio.sleep(0)
        return list(self.view.category_names())


class Connecting:
    """Closes what only its first call opens."""

    connection: Any = None

    async def __call__(self, messages: Any, view: Any) -> Any:
        self.connection = object()
        return []

    async def close(self) -> None:
        if self.connection is None:
            raise RuntimeError("not connected")


class Forever(MemoryCache):
    async def put(self, key: str, value: bytes, *, ttl: float) -> bool:
        return await super().put(key, value, ttl=1_000)


class First(MemoryCache):
    async def put(self, key: str, value: bytes, *, ttl: float) -> bool:
        return True if await self.get(key) else await super().put(key, value, ttl=ttl)


class Blurred(MemoryCache):
    async def get(self, key: str) -> bytes | None:
        return await super().get(key[:3])


class Negative(MemoryCache):
    @property
    def level(self) -> CacheLevel:
        return CacheLevel(entries=-1)


class Meta:
    name = "ask_a_person"

    def definition(self, offer: Any) -> Tool:
        return Tool(name=self.name, description="Ask a person.")

    async def answer(self, arguments: Any, scene: Any) -> ToolResult:
        return ToolResult(content="asked")


class OtherName(Meta):
    def definition(self, offer: Any) -> Tool:
        return Tool(name="ask", description="Ask a person.")


class Nameless(Meta):
    def definition(self, offer: Any) -> Tool:
        return Tool(name=self.name)


class Dated(Meta):
    numbers = itertools.count()

    def definition(self, offer: Any) -> Tool:
        return Tool(name=self.name, description=f"Ask a person, for the {next(self.numbers)}th time.")


class Changed:
    """An interpreter that runs other programs, or hands over other results, than it was given."""

    def __init__(self) -> None:
        self._monty = monty()

    def program(self, program: Program) -> Program:
        return program

    def results(self, results: Mapping[int, ProgramResult]) -> Mapping[int, ProgramResult]:
        return results

    @asynccontextmanager
    async def session(self, program: Program) -> AsyncIterator[Any]:
        async with self._monty.session(self.program(program)) as session:
            yield SimpleNamespace(start=session.start, go_on=lambda results: session.go_on(self.results(results)))

    async def close(self) -> None:
        await self._monty.close()


class Forgetful(Changed):
    def results(self, results: Mapping[int, ProgramResult]) -> Mapping[int, ProgramResult]:
        return {number: ProgramResult() for number in results}


class Careless(Changed):
    def results(self, results: Mapping[int, ProgramResult]) -> Mapping[int, ProgramResult]:
        return {number: ProgramResult(value=result.error) for number, result in results.items()}


class Restarted(Changed):
    seeds = itertools.count()

    def program(self, program: Program) -> Program:
        return replace(program, seed=next(self.seeds))


class Generous:
    """Returns as many pages as it has."""

    name = "generous"

    async def search(self, query: str, *, count: int, seconds: float) -> Sequence[SearchHit]:
        return [SearchHit(title=query, url=f"https://example.com/{number}") for number in range(10)]

    async def close(self) -> None:
        pass


class Nowhere(Generous):
    """Forgets the addresses."""

    async def search(self, query: str, *, count: int, seconds: float) -> Sequence[SearchHit]:
        return [SearchHit(title=query, url="")][:count]


class Fragile(Generous):
    """Breaks at a query with control characters."""

    async def search(self, query: str, *, count: int, seconds: float) -> Sequence[SearchHit]:
        if not query.isprintable():
            raise ValueError("what is this?")
        return []


class Stubborn(Generous):
    """Takes its time, whatever it was given."""

    async def search(self, query: str, *, count: int, seconds: float) -> Sequence[SearchHit]:
        if seconds < 1:
            await asyncio.Event().wait()
        return []


class OneUse(Generous):
    """Does not answer after it was closed."""

    is_open = True

    async def search(self, query: str, *, count: int, seconds: float) -> Sequence[SearchHit]:
        if not self.is_open:
            raise OutboundError("closed")
        return []

    async def close(self) -> None:
        self.is_open = False


class Ringing:
    """Makes every call."""

    name = "ringing"

    def __init__(self) -> None:
        self._ids = itertools.count(1)

    async def place(self, order: CallOrder, *, seconds: float) -> PlacedCall | RefusedCall:
        if not order.to[2:]:
            return RefusedCall(reason="no number")
        return PlacedCall(id=str(next(self._ids)))

    def report(self, url: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> CallReport | None:
        return None

    async def close(self) -> None:
        pass


class Monotonous(Ringing):
    """Gives all calls the same id."""

    async def place(self, order: CallOrder, *, seconds: float) -> PlacedCall | RefusedCall:
        return PlacedCall(id="1")


class Careful(Ringing):
    """Raises an error for a call that it certainly did not make."""

    async def place(self, order: CallOrder, *, seconds: float) -> PlacedCall | RefusedCall:
        if not order.to[2:]:
            raise OutboundError("no number")
        return await super().place(order, seconds=seconds)


class Slow(Ringing):
    """Takes its time, whatever it was given."""

    async def place(self, order: CallOrder, *, seconds: float) -> PlacedCall | RefusedCall:
        if seconds < 1:
            await asyncio.Event().wait()
        return await super().place(order, seconds=seconds)


class Credulous(Ringing):
    """Believes whoever reports."""

    def report(self, url: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> CallReport | None:
        return CallReport(id=parameters.get("CallSid", ""), status="completed", is_final=True)


class NamelessReviewer:
    """A reviewer without a name."""

    name = ""
    contained = True

    async def review(self, review: Review) -> Reviewed:
        return Reviewed(summary="nothing to change")


class RemovingReviewer(NamelessReviewer):
    """Removes the folder that it was given."""

    name = "removing"

    async def review(self, review: Review) -> Reviewed:
        shutil.rmtree(review.folder)
        return Reviewed(summary="tidied up")


class WordyReviewer(NamelessReviewer):
    """Returns the text alone."""

    name = "wordy"

    async def review(self, review: Review) -> Any:
        return "done"


class Naive:
    """A channel that believes every request."""

    longest, busy_seconds = 100, 0.0

    async def open(self, inbox: ChannelInbox) -> None:
        self.inbox = inbox

    async def listen(self) -> None: ...

    async def receive(self, request: ChannelRequest) -> ChannelReply:
        await self.inbox.put(Incoming(key="1", chat="1", person="1"))
        return ChannelReply(status=200)

    async def send(self, message: Outgoing) -> None: ...
    async def show_busy(self, message: Incoming) -> None: ...

    async def picture(self, reference: str) -> Image:
        raise OutboundError("gone")

    async def facts(self) -> ChannelFacts:
        return ChannelFacts(bot="credulous")

    async def close(self) -> None: ...


class Explaining(Naive):
    """Tells whoever fails at it what was expected."""

    async def receive(self, request: ChannelRequest) -> ChannelReply:
        return ChannelReply(status=401, body=b"the signature should have been " + b"0" * 500)


class Unending(Naive):
    """Goes on listening when it is told to stop."""

    async def receive(self, request: ChannelRequest) -> ChannelReply:
        return ChannelReply(status=401)

    async def listen(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise KeyError("stopped")


class Leaky(Plain):
    async def start(self, command: Command, on_output: OnOutput | None = None) -> Any:
        return await super().start(replace(command, env={**os.environ, **command.env}), on_output)


class Hoarding(Plain):
    async def start(self, command: Command, on_output: OnOutput | None = None) -> Any:
        return await super().start(replace(command, output_bytes=1 << 30), on_output)


class Boastful(Plain):
    holds = True


_FOLDER = tempfile.TemporaryDirectory()


def _shelf(kind: type[Shelf]) -> StateSubject:
    return StateSubject(name="spoiled", make=lambda: kind(Path(_FOLDER.name)), desired={"new": {"text": "a"}})


SPOILED: list[tuple[Sequence[Check[Any]], Callable[[], Any] | Subject[Any], str]] = [
    (SOURCE, Stranger, "its tools are valid and make a catalog"),
    (SOURCE, Raising, "a call of a tool that it does not have returns an error"),
    (SOURCE, Restless, "the same revision gives the same tools"),
    (SOURCE, Once, "it may be opened again after it was closed"),
    (EMBEDDER, Doubles, "a text is a row of float32 of the size it says"),
    (EMBEDDER, Unscaled, "every row has length one or is zero"),
    (EMBEDDER, Relative, "a text has the same vector whatever stands beside it"),
    (MIDDLEWARE, lambda: _text, "a result passes through"),
    (MIDDLEWARE, lambda: _hides_errors, "an error stays an error"),
    (MIDDLEWARE, lambda: _swallows, "a cancelled call is cancelled"),
    (MIDDLEWARE, Shared, "calls side by side keep their own results"),
    (POLICY, HalfMask, "what is visible is a mask over the catalog or nothing"),
    (POLICY, Silent, "a refusal or a question says why"),
    (POLICY, OldVersion, "every call gets a decision under its version"),
    (POLICY, Bare, "every call gets a decision under its version"),
    (APPROVER, Wordy, "its answer is yes no or not yet"),
    (APPROVER, Failing, "its answer is yes no or not yet"),
    (APPROVER, OneAtATime, "questions side by side are all answered"),
    (SINK, FromTheStart, "it takes the end of a run whose beginning it never saw"),
    (SINK, KnownKinds, "it takes events of a kind it does not know"),
    (SINK, OneRun, "it takes runs side by side"),
    (RANKER, lambda: Flat, "a tool that the caller may not see scores 0"),
    (RANKER, lambda: Endless, "every tool has a score that is a number and not negative"),
    (RANKER, lambda: Wavering, "the same request gets the same scores also after others"),
    (RANKER, lambda: Overdone, "a calibrated score is at most one"),
    (CLASSIFIER, lambda: _in_one_text, "it answers every conversation with a list of names or a classification"),
    (CLASSIFIER, lambda: _needs_a_word, "it answers every conversation with a list of names or a classification"),
    (CLASSIFIER, lambda: _names_all, "it names only categories that the caller may see"),
    (CLASSIFIER, lambda: _shortens, "the conversation stays as it was"),
    (CLASSIFIER, lambda: _goes_on, "a cancelled call is cancelled"),
    (CLASSIFIER, LastView, "conversations side by side get answers of their own"),
    (CLASSIFIER, Connecting, "closing it works before and after a call"),
    (SANDBOX, Leaky, "nothing of the host s environment is passed on"),
    (SANDBOX, Hoarding, "output beyond its limit is counted and dropped"),
    (SANDBOX, Boastful, "its facts say whether it holds"),
    (SEARCH, Generous, "it returns at most as many pages as it was asked for"),
    (SEARCH, Nowhere, "it returns search hits with addresses"),
    (SEARCH, Fragile, "an odd query is answered or refused with an outbound error"),
    (SEARCH, Stubborn, "a search without time ends soon"),
    (SEARCH, OneUse, "it can be closed twice and used again"),
    (TELEPHONY, Monotonous, "a call is placed with an id of its own"),
    (TELEPHONY, Careful, "a number that cannot be called is refused with a reason"),
    (TELEPHONY, Slow, "a call without time ends soon and is not said to be refused"),
    (TELEPHONY, Credulous, "a report that nobody signed is none"),
    (REVIEWER, NamelessReviewer, "its name is a text and it says whether it is contained"),
    (REVIEWER, RemovingReviewer, "it returns a summary and leaves the folder in its place"),
    (REVIEWER, WordyReviewer, "it returns a summary and leaves the folder in its place"),
    (CHANNEL, Naive, "a request without a valid signature is refused and puts nothing"),
    (CHANNEL, Explaining, "a request without a valid signature is refused and puts nothing"),
    (CHANNEL, Unending, "listening ends when it is cancelled"),
    *((STATE, _shelf(kind), promise) for kind, promise in SPOILED_SHELVES),
    (CACHE, Forever, "an expired value is never returned"),
    (CACHE, First, "the last of two values counts"),
    (CACHE, Blurred, "a key that was never put is none"),
    (CACHE, Negative, "the counters of its level are never negative"),
    (INTERPRETER, Forgetful, "calls that are gathered wait together"),
    (INTERPRETER, Careless, "an error of a call is raised in the program"),
    (INTERPRETER, Restarted, "the same program takes the same way"),
    (META_TOOL, OtherName, "its definition is a valid tool of its own name"),
    (META_TOOL, Nameless, "its definition is a valid tool of its own name"),
    (META_TOOL, Dated, "the same offer gives the same definition"),
]


@pytest.mark.parametrize(("checks", "make", "promise"), SPOILED, ids=[str(at) for at in range(len(SPOILED))])
async def test_a_spoiled_part_is_caught_by_the_promise_it_breaks(
    checks: Sequence[Check[Any]], make: Callable[[], Any] | Subject[Any], promise: str
) -> None:
    with pytest.raises(BrokenPromises) as raised:
        await check_all(make if isinstance(make, Subject) else Subject(name="spoiled", make=make), checks)
    assert promise in raised.value.failures


async def test_a_meta_tool_of_another_package_keeps_the_contract() -> None:
    await check_all(Subject(name="meta", make=Meta), META_TOOL)


def test_every_suite_catches_at_least_three_spoiled_parts() -> None:
    suites = {name: getattr(part_contracts, name) for name in part_contracts.__all__ if name.isupper()}
    for name, suite in suites.items():
        assert sum(checks is suite for checks, _, _ in SPOILED) >= 3, name


def test_every_socket_has_a_suite() -> None:
    of_their_own = {"provider", "store"}  # testing.provider_contract, testing.store_contract
    assert {name for name in SOCKETS if not hasattr(part_contracts, name.upper())} == of_their_own
