"""The face of the runtime: each method hands its request to the stages and returns what they return.

    runtime = Runtime(provider=OpenAIChat(...), sources=[my_function, gym.source()])
    result = await runtime.run("freeze John's membership")

The walk of a request is in `answering.py`, and `assembly.py` makes the stages of the arguments of a runtime. No stage knows the
runtime, so none comes back to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from toolcaddie.control.results.cache import CacheStatistics
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.events import RunEvent
from toolcaddie.core.run import RunRequest, RunResult
from toolcaddie.core.selection import Selection
from toolcaddie.core.tool import ToolResult
from toolcaddie.desk import ToolDesk
from toolcaddie.engine.live import streamed
from toolcaddie.inputs.requests import RequestInput
from toolcaddie.learning import LogEntry
from toolcaddie.runtime.assembly import Assembly
from toolcaddie.runtime.bus import Listener
from toolcaddie.runtime.looking import Finder, Preview

T = TypeVar("T")


class Runtime(Assembly):
    """Answers requests. Safe for many at once; make one and keep it.

    `sources` are `ToolSource`s, plain functions, or catalogs by name ("gym"), one or a list. `trail` is the audit sink: when it
    fails, runs fail. `documents` keeps paused runs and what conversations were sent; without it both last as long as the
    process. `classifier` is a first stage that names categories; the preset's `selection.classify` says when it is asked, and
    only `budget` says so by itself.

    `embedder`, or the name of one ("minilm"), lets presets that find tools by every signal there is find them by meaning too. No
    request waits for vectors longer than `patience` seconds; until those of a catalog are there, and wherever the embedder
    fails, words alone find its tools. `await prepare()` at start gets them before the first request.

    `provider` may be named, as `provider:model` ("anthropic:claude-sonnet-5-5"); its key is then in its own environment variable.
    `fallbacks` are asked in order where it fails or cannot call tools, each for its own model; `attempts` is how often one of
    them is tried where it says that trying again may help. `tool_config` is that of an agent whose tools must be used
    (`ToolConfig`, or its mapping); `cache` keeps results of tools that may be kept, by default in memory.

    Where there are `bots`, every request is one of theirs: the principal's bot, or `default_bot`; others are refused. `roles` say
    what the model may ask for on behalf of callers with a role. `categories` are the enabled ones, for everybody; tools of others
    are not there. Names in these that no tool or category has are an error at start. `replace_reserved` lets the sources' tools
    have names that are reserved for the product's own (`reserved.RESERVED_NAMES`).

    `experience` remembers what was called after which request and lets presets that find tools by more than keywords learn
    from it; runs add to it as they end. Without it nothing is remembered, and the same request always finds the same tools.

    `instructions` are the system prompt: a text, or a function of `RunContext`. `output` is the type of the answers
    (`RunResult.output`). `dependencies` are handed to functions that have a parameter of their type; of a class, each request
    gives its own.

    `meta_tools` join those that ship; a preset offers them by name (`Preset.meta`).

    Questions to a person expire `approval_expiry` seconds after they are asked.

    `bounds` says how much of a model's answers and calls is accepted.
    """

    # --- asking ------------------------------------------------------------------------------------------------------

    async def run(self, request: RequestInput = None, **options: Any) -> RunResult:
        """Answer a message, a conversation that ends with one (`Message`s or OpenAI's dicts), or a request. `options` are fields
        of `RunRequest`; `messages` beside a text are what was said before it.

        Raises `RunError`, `ProviderError`, `RequestError`. Status 'pending': see `resume`; 'client_calls': the caller's
        tools were called, run them and `resume` with the results.
        """
        return await self._answer(request, options)

    def run_sync(self, request: RequestInput = None, **options: Any) -> RunResult:
        """`run` for callers without an event loop. What it opened it closes: the next call opens its own."""
        return _sync(self._run_and_close(request, options))

    async def _run_and_close(self, request: RequestInput, options: Mapping[str, Any]) -> RunResult:
        try:
            return await self.run(request, **options)
        finally:
            await self.close()

    def stream(self, request: RequestInput = None, **options: Any) -> AsyncIterator[RunEvent]:
        """Answer, yielding every event as it happens; the last is `RunFinished`, `RunPaused`, or an exception.

        Closing the iterator cancels the run and with it the provider's request.
        """
        return streamed(lambda live: self._answer(request, options, live))

    async def _answer(
        self, request: RequestInput, options: Mapping[str, Any], live: Listener | None = None
    ) -> RunResult:
        await self.open()
        return await self._answering.answer(self._read(request, options), live)

    async def resume(
        self,
        run_id: str,
        *,
        approvals: Mapping[str, bool] | None = None,
        results: Mapping[str, str] | None = None,
        principal: Principal | None = None,
        reason: str = "",
        dependencies: Sequence[Any] = (),
    ) -> RunResult:
        """Carry on a run that was put away: decide its questions, or hand in what the caller's own tools gave.

        Both map call ids. The run enters again at the gates, so policy and schema are checked again. An answer is used once:
        of several who resume a run one carries it on, the others get `RunNotFoundError`. Where that one fails, `resume`
        without answers goes on behind what was done. `principal`: only if the run is theirs; with `reason` it is recorded as
        the one who decided. Questions answered through `approvals` of the runtime need no answer here. `dependencies`: those
        that the request gave; they are not stored.
        """
        await self.open()
        return await self._resuming.resume(
            run_id,
            approvals=approvals or {},
            results=results or {},
            principal=principal,
            reason=reason,
            dependencies=dependencies,
        )

    def resume_stream(
        self,
        run_id: str,
        *,
        approvals: Mapping[str, bool] | None = None,
        results: Mapping[str, str] | None = None,
        principal: Principal | None = None,
        reason: str = "",
        dependencies: Sequence[Any] = (),
    ) -> AsyncIterator[RunEvent]:
        """`resume`, yielding every event from there on as `stream` does."""
        resume = partial(
            self._resuming.resume,
            run_id,
            approvals=approvals or {},
            results=results or {},
            principal=principal,
            reason=reason,
            dependencies=dependencies,
        )
        return streamed(lambda live: resume(live=live))

    async def call(self, name: str, arguments: Mapping[str, Any], **options: Any) -> ToolResult:
        """Run one tool through every gate, without a model."""
        await self.open()
        return await self.desk(**options).call(name, arguments)

    def desk(self, **options: Any) -> ToolDesk:
        """The tools of one caller: list, search, schema, call. `options` are fields of `RunRequest` (`principal=...`). Its tools
        are those of now: sources that must be opened (`open`, or `async with`) come before it."""
        return self._calling.desk(self._read(RunRequest(messages=()), options))

    def executor(
        self, *, chat_id: str, bot_id: str, **options: Any
    ) -> Callable[[str, Mapping[str, Any]], Coroutine[Any, Any, ToolResult]]:
        """A callback (name, arguments) -> result for one chat of one bot; `_chatId` and `_botId` join every call."""
        principal = options.pop("principal", None) or Principal()
        if principal.bot not in (None, bot_id):
            raise RequestError(f"the principal is bot {principal.bot!r}, the executor is for {bot_id!r}", param="bot")
        principal = self.identified(replace(principal, bot=bot_id))
        injected = {"_chatId": chat_id, "_botId": bot_id}

        async def execute(name: str, arguments: Mapping[str, Any]) -> ToolResult:
            return await self.call(name, arguments, principal=principal, injected=injected, **options)

        return execute

    # --- looking -----------------------------------------------------------------------------------------------------

    def view(self, request: RequestInput) -> View:
        """Returns the tools that a request's principal may see: one mask over the current snapshot. Raises `RequestError` for an
        unknown bot."""
        return self._views.of(self._read(request, {}))

    def select(self, request: RequestInput = None, **options: Any) -> Selection:
        """Returns the tools that a request would be given, without asking a model."""
        return self._looking.select(self._read(request, options))

    def preview(self, request: RequestInput = None, **options: Any) -> Preview:
        """Returns `select`, naming every tool left out, and the tool array the model of a new conversation would be sent."""
        return self._looking.preview(self._read(request, options))

    def explain(self, name: str, request: RequestInput = None, **options: Any) -> Any:
        """Returns why a tool is in or out for a request."""
        return self._looking.explain(name, self._read(request, options))

    def identified(self, principal: Principal) -> Principal:
        """The principal as requests of it are answered: as the default bot, if it names none. Raises `RequestError` for an
        unknown bot, and for none where there are bots and no default."""
        return self._bots.identified(principal)

    def finds_by(self, view: View) -> Finder:
        """Returns selector, preset, and the function from a request to its query, for requests that name no preset: for those who
        measure what is found."""
        return self._looking.finder(view)

    def subscribe(self, listener: Listener) -> AbstractContextManager[None]:
        """Pass the events of all runs to a function for as long as the `with` block lasts."""
        return self._bus.subscribe(listener)

    @property
    def cache_statistics(self) -> Sequence[CacheStatistics]:
        """Counts of what the caches of results did since the runtime was made."""
        return self._executors.cache_statistics

    @property
    def degraded(self) -> tuple[str, ...]:
        """A sentence for each part that does not work now, and what stands in for it."""
        vectors = self._vectors
        return (vectors.problem,) if vectors is not None and vectors.problem else ()

    @property
    def stopping(self) -> bool:
        """The server is being shut down, so a cancellation comes from it."""
        return self._shutdown.is_set()

    # --- life --------------------------------------------------------------------------------------------------------

    async def prepare(self, catalog: Catalog | None = None, requests: Iterable[RunRequest] = ()) -> None:
        """Get the vectors of the whole catalog, however long it takes: some 20 ms a tool by a local model, once, where
        `documents` keep them. None: the catalog of now. `requests` whose vectors are made too, if a server has to be asked for
        them. Without an embedder there is nothing to do. Raises `ProviderError` where it fails."""
        if self._vectors is not None:
            tools = self.source.snapshot() if catalog is None else catalog
            await self._vectors.make_all(tools, self._setups.default.preset.selection, requests)

    async def warm(self) -> None:
        """Begin with the vectors of the catalog, if the preset looks at any, so that the first request finds them or more of
        them; returns when they are there, and after `patience` seconds at most."""
        await self._setups.default.vectors.begin(self.source.snapshot())

    async def learn(self, entries: Iterable[LogEntry], catalog: Catalog | None = None) -> None:
        """Remember these requests and choose again how far the memory is believed, in the catalog of now if none is given.
        Raises `ConfigError` where there is no memory."""
        if self._learning is None:
            raise ConfigError("there is nothing to learn into; give the runtime an experience")
        await self._learning.learn(entries, catalog)

    def begin_shutdown(self) -> None:
        """From now on a run that is cancelled is recorded as cut by a shutdown, not as left by its caller."""
        self._shutdown.set()

    async def open(self) -> None:
        """Open the sources that connect to something; a run does so too. Raises `ConfigError` where one cannot be opened."""
        if not self.source.is_open:
            await self.source.open()

    async def __aenter__(self) -> Runtime:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _sync(job: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(job)
    job.close()
    raise RequestError("run_sync was called inside a running event loop; await run() there")
