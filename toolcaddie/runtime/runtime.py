"""The only assembly: sources, model, policy, trail and preset become something that answers.

    runtime = Runtime(provider=OpenAIChat(...), sources=[my_function, gym.source()])
    result = await runtime.run("freeze John's membership")

A request walks down: snapshot -> view -> selection -> delivery -> loop. Nothing below calls back up.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np

from toolcaddie import learning
from toolcaddie.audit.redact import redact_text
from toolcaddie.control.bots import Bot, Bots, Role, unknown_tools
from toolcaddie.control.decided import Decided
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.control.results.cache import DEFAULT_TTL, Cache, CacheStatistics, is_unmarked
from toolcaddie.control.results.held import HeldResults
from toolcaddie.control.results.result_check import ResultCheck
from toolcaddie.control.results.retry import Retry as RetryCall
from toolcaddie.control.results.timeout import Timeout
from toolcaddie.control.results.truncate import Truncate
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.capabilities import CAPABILITIES, Capabilities
from toolcaddie.core.catalog import Catalog, Mask, View
from toolcaddie.core.control import Principal
from toolcaddie.core.delivery import DeliveredTool, Delivery
from toolcaddie.core.errors import ConfigError, ProviderError, RequestError, StorageError
from toolcaddie.core.events import (
    RequestClassified,
    RunEvent,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    ToolsSelected,
)
from toolcaddie.core.message import Message, message_tokens
from toolcaddie.core.meta_names import EXECUTE_TOOL, READ_RESULT, REQUEST_MORE_TOOLS
from toolcaddie.core.presets import SIGNALS, Preset, SelectionSettings, preset
from toolcaddie.core.run import PendingCall, RunContext, RunRequest, RunResult, RunState, RunStatus
from toolcaddie.core.schema import definition_tokens
from toolcaddie.core.selection import Classification, Selection
from toolcaddie.core.tool import ToolCall, ToolResult
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.delivery.planner import DeliveryPlanner
from toolcaddie.embedders.catalogs import CatalogVectors
from toolcaddie.embedders.prepared import PATIENCE, Prepared
from toolcaddie.engine.batch import Batch, unkept
from toolcaddie.engine.broken import end_recorded
from toolcaddie.engine.choice import forced_names
from toolcaddie.engine.executor import Admitted, Emit, Executor
from toolcaddie.engine.first_stage import classified
from toolcaddie.engine.live import Live
from toolcaddie.engine.loop import READER, Engine
from toolcaddie.engine.reveal import known_from, referenced_in, telling
from toolcaddie.guards.aside import aside
from toolcaddie.guards.net import PROOFS
from toolcaddie.inputs.parts import Sources, check_parts, embedder_from, preset_from, sources_from
from toolcaddie.inputs.requests import Asked, request_from
from toolcaddie.learning.co_use import CoUse
from toolcaddie.meta.registry import AnyMetaTool, MetaTools, joined_meta_tools, offered_definitions
from toolcaddie.ports import (
    Approver,
    CacheStore,
    Classifier,
    DeliveryPlan,
    Embedder,
    EventSink,
    MetaOffer,
    Middleware,
    Policy,
    Provider,
    RankerFactory,
    RemoteEmbedder,
    SelectionQuery,
    Store,
)
from toolcaddie.providers.observed import Observed
from toolcaddie.providers.wrapping import Entry, known_of
from toolcaddie.registry import Registry
from toolcaddie.runtime.models import ModelSide, entry_of, provider_named
from toolcaddie.selection.classifier import keeps
from toolcaddie.selection.query import query_words
from toolcaddie.selection.rankers import embedding, static
from toolcaddie.selection.selector import Selector
from toolcaddie.selection.whole import everything
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.merged import MergedCatalogs
from toolcaddie.storage.cache import MemoryCache, StoreCache
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.storage.runs import Claim, StoredRun, StoredRuns
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

T = TypeVar("T")

_CONVERSATION = "conversation"
_CONVERSATION_TTL = 7 * 86_400.0
_EMBEDDING = "embedding"
_NAMED = 20
_PROVIDER = ("name", "complete", "stream", "models", "close")
_HELD_BYTES = 128 * 1024 * 1024
_LATELY = 12
"""Messages of a conversation whose calls keep their tools, where the array is chosen anew."""
_INNER = re.compile(r'"tool_name"\s*:\s*"([^"\\]{1,128})"')
_FEW = 100
"""Tools up to which a new catalog is worked out on the spot. More take so long that every other request would notice, so
that it happens beside the event loop."""
_LARGE = 2_000
"""Tools from which also a selection from a known catalog is made in a thread."""
_LONG = 500
"""Messages from which a conversation is looked through in a thread."""

_Listener = Callable[[RunEvent], Awaitable[None]]
_Away = Callable[..., Awaitable[Any]]
"""Calls a function with its arguments: on the spot, in a thread, or beside the loop and after others."""


class Runtime:
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

    `meta_tools` join those that ship; a preset offers them by name (`Preset.meta`).

    `bounds` says how much of a model's answers and calls is accepted.
    """

    def __init__(
        self,
        *,
        provider: Provider | str | Entry,
        sources: Sources = (),
        preset: str | Preset = "default",
        model: str = "",
        policy: Policy | None = None,
        approver: Approver | None = None,
        middleware: Sequence[Middleware] = (),
        trail: EventSink | None = None,
        sinks: Sequence[EventSink] = (),
        documents: Store | None = None,
        classifier: Classifier | None = None,
        embedder: Embedder | RemoteEmbedder | str | None = None,
        patience: float = PATIENCE,
        rankers: Mapping[str, RankerFactory] | None = None,
        experience: learning.Experience | None = None,
        capabilities: Sequence[Capabilities] = CAPABILITIES,
        bots: Mapping[str, Bot] | None = None,
        roles: Mapping[str, Role] | None = None,
        default_bot: str | None = None,
        categories: Sequence[str] | None = None,
        replace_reserved: Iterable[str] = (),
        fallbacks: Sequence[Provider | str | Entry] = (),
        attempts: int = 1,
        tool_config: ToolConfig | Mapping[str, Any] | None = None,
        cache: CacheStore | None = None,
        meta_tools: Sequence[AnyMetaTool] = (),
        bounds: Bounds = DEFAULT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_parts(
            model=model,
            policy=policy,
            approver=approver,
            middleware=middleware,
            trail=trail,
            sinks=sinks,
            documents=documents,
            classifier=classifier,
            patience=patience,
            rankers=rankers,
            experience=experience,
            bots=bots,
            fallbacks=fallbacks,
            cache=cache,
            clock=clock,
        )
        self._bounds = bounds
        embedder = embedder_from(embedder)
        self.source = CombinedSource(sources_from(sources), replace_reserved=replace_reserved)
        asked = _entry(provider)
        self.provider = asked.provider
        self.model = model or asked.model
        self.tool_config = _config(tool_config)
        self.preset = preset_from(preset)
        self._meta_tools = _meta_tools(self.preset, meta_tools)
        wanted = self.tool_config.fallback_provider if self.tool_config else None
        self._model_side = ModelSide(
            provider=self.provider,
            attempts=attempts,
            fallbacks=tuple(map(_entry, fallbacks)),
            forced_fallback=None if wanted is None else entry_of(wanted),
            capabilities=capabilities,
            observed=Observed(),
        )
        self._cache_store = cache or _memory(self.tool_config)
        self._caches: dict[tuple[bool, bool, float], Cache] = {}
        self._held = HeldResults(
            MemoryCache(max_bytes=_HELD_BYTES) if documents is None else StoreCache(documents, kind="held")
        )
        self._policy = policy or AllowAll()
        self._trail = trail
        self._experience = experience
        self._learning = None if experience is None else self._sink_of(experience)
        self._sinks = tuple(sinks) if self._learning is None else (self._learning, *sinks)
        self._documents = documents or MemoryStore()
        self._classifier = classifier
        self._vectors = None if embedder is None else _vectors(embedder, documents, patience)
        self._asks_for_vectors = isinstance(embedder, RemoteEmbedder)
        self._rankers = {**(rankers or {}), **({_EMBEDDING: self._vectors.ranker} if self._vectors else {})}
        if experience is not None:
            self._rankers[learning.NAME] = learning.factory(experience)
            if self._vectors is not None and not self._asks_for_vectors:
                experience.compare_by(self._vectors.prepared)
        self._co_used = None if experience is None else CoUse(experience)
        self._capabilities = capabilities
        self._bots = Bots(
            bots,
            roles,
            default=default_bot,
            categories=categories,
            expandable=self.preset.selection.expandable_categories,
        )
        self._bots.check(self.source.snapshot())
        self._visibility = Visibility(self._bots)
        self._clock = clock
        self._approver = approver
        self._middleware = tuple(middleware)
        self._assemblies: dict[tuple[str | None, Capabilities], _Assembly] = {}
        self._merged = MergedCatalogs()
        self._runs = StoredRuns(self._documents)
        self.stopping = False
        """The server is being shut down, so a cancellation comes from it."""
        self._unwritten: dict[str, _Conversation] = {}
        """What is on its way to `documents`: a client may be back with its next turn sooner."""
        self._background: set[asyncio.Task[None]] = set()
        self._warn_of_tools()
        self._assembly_of(RunRequest(messages=()))  # a preset that cannot work fails here, not in the first request

    # --- asking ------------------------------------------------------------------------------------------------------

    async def run(self, request: Asked = None, **options: Any) -> RunResult:
        """Answer a message, a conversation that ends with one (`Message`s or OpenAI's dicts), or a request. `options` are fields
        of `RunRequest`; `messages` beside a text are what was said before it.

        Raises `RunError`, `ProviderError`, `RequestError`. Status 'pending': see `resume`; 'client_calls': the caller's
        tools were called, run them and `resume` with the results.
        """
        return await self._answer(self._asked(request, options), live=None)

    def run_sync(self, request: Asked = None, **options: Any) -> RunResult:
        """`run` for callers without an event loop. What it opened it closes: the next call opens its own."""
        return _sync(self._run_and_close(request, options))

    async def _run_and_close(self, request: Asked, options: Mapping[str, Any]) -> RunResult:
        try:
            return await self.run(request, **options)
        finally:
            await self.close()

    async def stream(self, request: Asked = None, **options: Any) -> AsyncIterator[RunEvent]:
        """Answer, yielding every event as it happens; the last is `RunFinished`, `RunPaused`, or an exception.

        Closing the iterator cancels the run and with it the provider's request.
        """
        live = Live()
        task = asyncio.create_task(self._answer(self._asked(request, options), live=live.put))
        task.add_done_callback(lambda _: live.end())
        try:
            async for event in live.events():
                yield event
            await task
        finally:
            live.close()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # a listener who left early is not told; asyncio would complain that nobody looked

    async def resume(
        self,
        run_id: str,
        *,
        approvals: Mapping[str, bool] | None = None,
        results: Mapping[str, str] | None = None,
        principal: Principal | None = None,
    ) -> RunResult:
        """Carry on a run that was put away: decide its questions, or hand in what the caller's own tools gave.

        Both map call ids. The run enters again at the gates, so policy and schema are checked anew. An answer is used once:
        of several who resume a run one carries it on, the others get `RunNotFoundError`. Where that one fails, `resume`
        without answers goes on behind what was done. `principal`: only if the run is theirs.
        """
        stored = await self._runs.find(run_id, principal)
        pending = tuple(_answered(item, approvals or {}, results or {}) for item in stored.state.pending)
        waiting = [item.call.id for item in pending if item.waiting]
        if waiting:
            raise RequestError(
                f"run {run_id} still waits for {', '.join(waiting)}; give each an approval or a result",
                param="approvals",
            )
        principal = self._bots.identified(stored.request.principal if principal is None else principal)
        request = replace(stored.request, principal=principal)
        return await self._carry_on(request, stored, pending, approvals or {})

    async def call(self, name: str, arguments: Mapping[str, Any], **options: Any) -> ToolResult:
        """Run one tool through every gate, without a model."""
        request = self._asked(f"{name}, called directly", options)
        if not isinstance(arguments, Mapping):
            raise RequestError(f"arguments must be a dict by name, not {arguments!r:.80}", param="arguments")
        assembly = self._assembly_of(request)
        context = self._context(request, self._view(request))
        emit = self._emitter(None)
        call = ToolCall(id=f"call_{uuid.uuid4().hex}", name=name, arguments=msgspec.json.encode(arguments).decode())
        async with end_recorded(context.run_id, emit):
            await emit(self._started(request, context, assembly))
            gated = await assembly.engine.executor.admit(PendingCall(call=call), context, emit)
            if isinstance(gated, Admitted):
                result = await self._carried_out(assembly, gated, context, emit)
            else:
                waits = ToolResult(content="The call waits for a person.", is_error=True, error="denied")
                result = gated.result or waits
            state = RunState(run_id=context.run_id, status="completed", turns=1, text=result.content)
            finished = RunResult(run_id=context.run_id, status="completed", text=result.content, state=state)
            await emit(RunFinished(run_id=context.run_id, result=finished))
        return result

    @staticmethod
    async def _carried_out(assembly: _Assembly, call: Admitted, context: RunContext, emit: Emit) -> ToolResult:
        """One call as the turn of a run that has no other."""
        batch = Batch(
            assembly.engine.executor,
            context,
            assembly.preset.limits,
            emit,
            admitted={0: call},
            taken=0,
            outcomes=[PendingCall(call=call.call)],
            before_acting=unkept,
        )
        await batch.run(together=False)
        result = batch.entered()[0].result
        assert result is not None, "a batch that ends has a result of every call"
        return result

    def executor(
        self, *, chat_id: str, bot_id: str, **options: Any
    ) -> Callable[[str, Mapping[str, Any]], Coroutine[Any, Any, ToolResult]]:
        """A callback (name, arguments) -> result for one chat of one bot; `_chatId` and `_botId` join every call."""
        principal = options.pop("principal", None) or Principal()
        if principal.bot not in (None, bot_id):
            raise RequestError(f"the principal is bot {principal.bot!r}, the executor is for {bot_id!r}", param="bot")
        principal = self._bots.identified(replace(principal, bot=bot_id))
        injected = {"_chatId": chat_id, "_botId": bot_id}

        async def execute(name: str, arguments: Mapping[str, Any]) -> ToolResult:
            return await self.call(name, arguments, principal=principal, injected=injected, **options)

        return execute

    @property
    def cache_statistics(self) -> Sequence[CacheStatistics]:
        """What the caches of results did since the runtime was made: one for each way of keeping them that was needed."""
        return [cache.statistics for cache in self._caches.values()]

    @property
    def degraded(self) -> tuple[str, ...]:
        """A sentence for each part that does not work now, and what stands in for it."""
        prepared = None if self._vectors is None else self._vectors.prepared
        if prepared is None or not prepared.problem:
            return ()
        return (f"the embedder {prepared.name} failed ({prepared.problem}); words alone find the tools",)

    # --- looking -----------------------------------------------------------------------------------------------------

    def view(self, request: Asked) -> View:
        """What this request's principal may see: one mask over the current snapshot. Raises `RequestError` for an unknown bot."""
        return self._view(self._asked(request, {}))

    def _view(self, request: RunRequest) -> View:
        """What tools and bots restrict holds beside whatever the policy shows."""
        catalog = self._catalog(request)
        principal = request.principal
        masks = [self._visibility.mask(catalog, principal), self._policy.visible(catalog, principal)]
        if request.disabled_tools:
            hidden = frozenset(request.disabled_tools)
            masks.append(np.array([tool.name not in hidden for tool in catalog.tools], dtype=np.bool_))
        if request.tags is not None:
            wanted = frozenset(request.tags)
            masks.append(np.array([not wanted.isdisjoint(tool.tags) for tool in catalog.tools], dtype=np.bool_))
        mask: Mask | None = None
        for found in masks:
            if found is not None:
                mask = found if mask is None else mask & found
        return View(catalog=catalog, mask=mask)

    def select(self, request: Asked = None, **options: Any) -> Selection:
        """What a request would be given, without asking anybody."""
        asked = self._asked(request, options)
        assembly = self._assembly_of(asked)
        view = self._view(asked)
        self._embed_now(assembly, view, asked)
        return self._select(assembly, view, asked).selection

    def preview(self, request: Asked = None, **options: Any) -> tuple[Selection, Delivery]:
        """`select`, naming every tool left out, and the tool array the model of a new conversation would be sent."""
        asked = self._asked(request, options)
        assembly = self._assembly_of(asked)
        view = self._view(asked)
        self._embed_now(assembly, view, asked)
        chosen = self._select(assembly, view, asked)
        selection, delivery = chosen.selection, self._plan(assembly, view, chosen, asked, None)
        if assembly.preset.exposure == "selected":
            query = self._query(assembly, view, asked)
            selection = replace(selection, dropped=assembly.selector.dropped(view, query, assembly.preset.budget))
        return selection, delivery

    def explain(self, name: str, request: Asked = None, **options: Any) -> Any:
        """Why a tool is in or out for a request."""
        asked = self._asked(request, options)
        assembly = self._assembly_of(asked)
        view = self._view(asked)
        self._embed_now(assembly, view, asked)
        query = self._query(assembly, view, asked)
        return assembly.selector.explain(view, query, assembly.engine.preset.budget, name)

    def remember(self, request: RunRequest, state: RunState, *, conversation: str | None = None) -> None:
        """Keep what a conversation was sent, behind the answer, so that its next turn finds the same tools.

        `conversation`: the name the next turn will have, if it is another than the request's. Where everything was sent,
        the next turn finds that by itself.
        """
        request = self._by_bot(request)
        if (
            not state.meta
            and not state.categories
            and _goes_whole(self._assembly_of(request).preset, self._view(request))
        ):
            return
        key = _conversation_key(request if conversation is None else replace(request, conversation=conversation))
        kept = self._unwritten[key] = _Conversation(
            delivered=state.delivered,
            meta=any(name != READ_RESULT for name in state.meta),
            categories=state.categories,
            allowed=state.allowed,
            reads=READ_RESULT in state.meta,
            at=self._clock(),
        )
        self._later(self._write_down(key, kept))

    def finds_by(self, view: View) -> tuple[Selector, Preset, Callable[[RunRequest], SelectionQuery]]:
        """What finds the tools of requests that name no preset, for whoever measures it: the selector, the preset, and what
        makes a request the selector's query."""
        assembly = self._assembly_of(RunRequest(messages=()))
        return assembly.selector, assembly.preset, partial(self._query, assembly, view)

    async def prepare(self, catalog: Catalog | None = None, requests: Iterable[RunRequest] = ()) -> None:
        """Get the vectors of the whole catalog, however long it takes: some 20 ms a tool by a local model, once, where
        `documents` keep them. None: the catalog of now. `requests`: those of these too, where somebody has to be asked for
        them. Without an embedder there is nothing to do. Raises `ProviderError` where it fails."""
        if self._vectors is None:
            return
        await self._vectors.ready(self.source.snapshot() if catalog is None else catalog, wait=True)
        if self._asks_for_vectors:
            settings = self._assembly_of(RunRequest(messages=())).preset.selection
            texts = [
                text for request in requests for text in _texts(SelectionQuery(messages=request.messages), settings)
            ]
            await self._vectors.prepared.prepare_lasting(texts, written=False)

    async def warm(self) -> None:
        """Begin with the vectors of the catalog, if the preset looks at any, so that the first request finds them or more of
        them; returns when they are there, and after `patience` seconds at most."""
        preset, catalog = self._assembly_of(RunRequest(messages=())).preset, self.source.snapshot()
        if self._vectors is not None and self._looks_at_vectors(preset, View(catalog=catalog)):
            await self._vectors.ready(catalog)

    async def learn(self, entries: Iterable[learning.LogEntry], catalog: Catalog | None = None) -> None:
        """Remember these requests and choose anew how far the memory is believed, in the catalog of now if none is given.
        Raises `ConfigError` where there is no memory."""
        if self._experience is None:
            raise ConfigError("there is nothing to learn into; give the runtime an experience")
        await asyncio.to_thread(self._experience.extend, entries)
        await asyncio.to_thread(self._refit, catalog)

    def begin_shutdown(self) -> None:
        """From now on a run that is cancelled is recorded as cut by a shutdown, not as left by its caller."""
        self.stopping = True

    async def __aenter__(self) -> Runtime:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what is being written and close the provider. Asked again, a runtime opens anew."""
        if self._learning is not None:
            await self._learning.settled()
        if self._vectors is not None:
            await self._vectors.close()
        if self._background:
            await asyncio.gather(*self._background, return_exceptions=True)
        await self._model_side.close()
        if (close := getattr(self._classifier, "close", None)) is not None:
            await close()

    # --- the walk of a request ---------------------------------------------------------------------------------------

    async def _answer(self, request: RunRequest, live: _Listener | None) -> RunResult:
        if not request.messages:
            raise RequestError("there are no messages to answer", param="messages")
        if request.run_id and request.remember:
            await self._runs.check_free(request.run_id)
        assembly = self._assembly_of(request)
        away = self._away(assembly, request)
        view = await away(self._view, request)
        context = self._context(request, view)
        owner = await self._documents.lease()
        if request.lease not in (None, owner):
            raise StorageError("this process lost its lease before the run began; send the request again")
        async with end_recorded(context.run_id, self._emitter(live), stopping=lambda: self.stopping) as emit:
            await emit(self._started(request, context, assembly))
            delivered = await self._delivered(request)
            if self._vectors is not None:
                await self._embed(assembly.preset, view, self._query(assembly, view, request))
            chosen, said = await self._chosen(assembly, view, request, delivered, away)
            if said is not None:
                await emit(RequestClassified(run_id=context.run_id, classification=said))
            await emit(ToolsSelected(run_id=context.run_id, selection=chosen.selection))
            delivery = self._plan(assembly, view, chosen, request, delivered)
            state = _first_state(context, request, delivery, said or Classification())
            result = await chosen.engine.run(
                state, context, chosen.selection, emit, live=live is not None, delivery=delivery
            )
            return await self._ended(request, result, emit, put_away=partial(self._runs.put_away, owner=owner))

    async def _carry_on(
        self, request: RunRequest, stored: StoredRun, pending: tuple[PendingCall, ...], approvals: Mapping[str, bool]
    ) -> RunResult:
        assembly = self._assembly_of(request)
        view = self._view(request)
        context = self._context(replace(request, run_id=stored.state.run_id), view)
        engine = replace(
            assembly.with_meta(stored.meta_categories, approver=Decided(approvals, self._approver)),
            expandable=self._expandable(assembly.preset, request.principal),
        )
        delivered = tuple(sent for sent in stored.state.delivered if view.get(sent.name) is not None)
        # One that is completed already only lacks its end on record.
        status: RunStatus = "completed" if stored.state.status == "completed" else "running"
        state = replace(stored.state, status=status, pending=pending, delivered=delivered)
        answered = tuple(item.call.id for item in stored.state.pending if item.waiting)
        claim = await self._runs.claim(stored)
        try:
            async with end_recorded(
                context.run_id, self._emitter(None), acted=bool(state.called), stopping=lambda: self.stopping
            ) as emit:
                await emit(RunResumed(run_id=context.run_id, principal=context.principal, answered=answered))
                result = await engine.run(state, context, Selection(), emit, live=False, checkpoint=claim.checkpoint)
                return await self._ended(request, result, emit, put_away=claim.put_away, claim=claim)
        except BaseException:
            await claim.give_back()
            raise

    async def _ended(
        self,
        request: RunRequest,
        result: RunResult,
        emit: Emit,
        *,
        put_away: Callable[[StoredRun], Awaitable[None]],
        claim: Claim | None = None,
    ) -> RunResult:
        """The end of a run, stored where it can be carried on, and on record. The stored state of one that is over goes only
        behind that: whoever resumes it in between is given the answer that is there."""
        waits = result.status == "pending" or (result.status == "client_calls" and request.remember)
        if waits:
            names = self._askable(self._assembly_of(request).preset, self._view(request), request.principal)
            await put_away(StoredRun(request=_keyless(request), state=result.state, meta_categories=names))
        elif claim is not None:
            await claim.checkpoint(result.state)
        if result.status == "pending":
            await emit(RunPaused(run_id=result.run_id, state=result.state))
            return result
        if request.conversation and request.remember:
            self.remember(request, result.state)
        await emit(RunFinished(run_id=result.run_id, result=result))
        if claim is not None and not waits:
            self._later(claim.forget())
        return result

    async def _chosen(
        self, assembly: _Assembly, view: View, request: RunRequest, delivered: _Conversation | None, away: _Away
    ) -> tuple[_Chosen, Classification | None]:
        """The selection, and what the first stage said for it, where there is one and it is wanted."""

        async def select(said: Classification | None = None) -> _Chosen:
            chosen: _Chosen = await away(self._select, assembly, view, request, said=said, delivered=delivered)
            return chosen

        when = assembly.preset.selection.classify
        if when == "never" or not self._classifies(assembly, view, request):
            return await select(), None
        found = await select() if when == "needed" else None
        if found is not None and not found.selection.no_match:
            return found, None
        said = await self._classified(assembly, view, request, delivered)
        useful = said.how != "failed" and bool(said.categories or found is None or _decides(assembly.preset))
        return found if found is not None and not useful else await select(said if useful else None), said

    async def _embed(self, preset: Preset, view: View, query: SelectionQuery, *, wait: bool = False) -> None:
        """Have the vectors there that a selection would look at, or go on without them."""
        vectors = self._vectors
        if vectors is None or not self._looks_at_vectors(preset, view):
            return
        texts = _texts(query, preset.selection)
        await asyncio.gather(vectors.ready(view.catalog, wait=wait), vectors.prepared.prepare(texts))

    def _embed_now(self, assembly: _Assembly, view: View, request: RunRequest) -> None:
        """`_embed` for callers who do not await. They wait to the end, in an event loop or not, so that the same request
        finds the same tools in both. A loop that runs stands still meanwhile, and nothing here waits for it.
        """
        if self._vectors is None or not self._looks_at_vectors(assembly.preset, view):
            return
        _run_to_the_end(self._embedded_alone(self._vectors, assembly, view, request))

    async def _embedded_alone(
        self, vectors: CatalogVectors, assembly: _Assembly, view: View, request: RunRequest
    ) -> None:
        try:
            await self._embed(assembly.preset, view, self._query(assembly, view, request), wait=True)
        except ProviderError:
            pass  # logged where it happened
        finally:
            await vectors.prepared.close()  # its connections belong to this loop, which ends here

    @staticmethod
    def _looks_at_vectors(preset: Preset, view: View) -> bool:
        return _EMBEDDING in preset.selection.rankers and _finds(preset, view)

    def _select(
        self,
        assembly: _Assembly,
        view: View,
        request: RunRequest,
        *,
        said: Classification | None = None,
        delivered: _Conversation | None = None,
    ) -> _Chosen:
        """The selection, and the engine whose meta tools fit it."""
        preset, crowded = assembly.preset, False
        if preset.exposure == "compact":
            selection = Selection(catalog_size=len(view), tokens_all=definition_tokens(view))
        elif preset.exposure == "all":
            selection = everything(view, assembly.preset.budget.provider_cap, request.essential)
        else:
            query = self._query(assembly, view, request, said)
            crowded = not query.fixed_count
            selection = assembly.selector.select(view, query, preset.budget)
        offering = self._offering(assembly, view, request.principal)
        engine = offering.engine
        none_needed = said is not None and not said.categories and _decides(preset)
        if crowded or not self._offers_meta(preset, view, selection, delivered, none_needed=none_needed):
            engine = offering.bare
        elif preset.exposure != "compact" and any(view.get(name) is not None for name in engine.meta):
            # The caller's own tool has the name; where only meta tools are sent there is nothing to mix up.
            engine = replace(engine, meta={name: tool for name, tool in engine.meta.items() if view.get(name) is None})
        return _Chosen(engine=engine, selection=selection)

    @staticmethod
    def _offers_meta(
        preset: Preset, view: View, selection: Selection, delivered: _Conversation | None, *, none_needed: bool
    ) -> bool:
        """From the first request of a conversation or not at all, so that they never move the others.

        Not where everything is sent anyway, and not where the first stage says that no tool is needed (plain chat). Where
        nothing was found for any other reason, they alone are sent.
        """
        if not preset.meta or not len(view):
            return False
        if preset.exposure == "compact":
            return True
        if delivered is not None and delivered.delivered:
            return delivered.meta
        if none_needed and preset.selection.on_no_match == "none":
            return False
        return len(selection.tools) < len(view)

    def _query(
        self, assembly: _Assembly, view: View, request: RunRequest, said: Classification | None = None
    ) -> SelectionQuery:
        """The query, with a place for the meta tools unless the caller's choice alone fills the array.

        What a first stage said decides where only categories are looked at, as in source 000; beside other rankers it is
        one voice among them, so that a wrong category costs a place and not the tool that the words point to.
        """
        named = said.categories if said is not None else ()
        decides = said is not None and _decides(assembly.preset)
        pinned = forced_names(request.tool_choice)
        offering = self._offering(assembly, view, request.principal)
        room = _leaves_room(assembly.preset, view, (*pinned, *request.essential))
        offered = offering.engine.meta if room else {}
        return SelectionQuery(
            messages=request.messages,
            categories=named if decides else request.categories,
            suggested=() if decides else named,
            pinned=pinned,
            essential=request.essential,
            fixed_count=len(offered),
            fixed_tokens=offering.tokens if offered else 0,
            expandable=REQUEST_MORE_TOOLS in offered,
            principal=request.principal,
        )

    def _offering(self, assembly: _Assembly, view: View, principal: Principal) -> _Offering:
        preset = assembly.preset
        return assembly.offering(self._askable(preset, view, principal), self._expandable(preset, principal))

    def _askable(self, preset: Preset, view: View, principal: Principal) -> tuple[str, ...]:
        """The visible categories that the model may ask for, in catalog order."""
        names, expandable = view.category_names(), self._expandable(preset, principal)
        return names if expandable is None else tuple(name for name in names if name in expandable)

    def _expandable(self, preset: Preset, principal: Principal) -> frozenset[str] | None:
        return self._bots.expandable(principal, preset.selection.expandable_categories)

    def _plan(
        self, assembly: _Assembly, view: View, chosen: _Chosen, request: RunRequest, before: _Conversation | None
    ) -> Delivery:
        engine, messages = chosen.engine, request.messages
        answered = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].role == "assistant"), -1) + 1
        if not answered:
            answered = sum(1 for message in messages if message.role in ("system", "developer"))
        idle = None if before is None or before.at is None else max(0.0, self._clock() - before.at)
        return engine.planner.plan(
            DeliveryPlan(
                view=view,
                selection=chosen.selection,
                delivered=before.delivered if before else (),
                meta=(
                    *engine.meta.values(),
                    *((READER,) if before and before.reads and view.get(READ_RESULT) is None else ()),
                ),
                budget=assembly.preset.budget,
                capabilities=engine.capabilities,
                known=known_from(messages),
                referenced=referenced_in(messages),
                pinned=_named_in(request, view),
                allowed=before.allowed if before else None,
                called=_called_lately(messages),
                history=message_tokens(messages[:answered]),
                fresh=message_tokens(messages[answered:]),
                idle=idle,
                rounds=sum(1 for message in messages if message.role == "assistant"),
                lasting=bool(request.conversation) or not request.remember,
            )
        )

    def _classifies(self, assembly: _Assembly, view: View, request: RunRequest) -> bool:
        """Whether there is somebody to ask, and something to choose that the caller has not chosen already."""
        preset = assembly.preset
        chosen = _goes_whole(preset, view) or preset.exposure != "selected" or request.categories is not None
        return self._classifier is not None and not chosen and bool(view.category_names())

    async def _classified(
        self, assembly: _Assembly, view: View, request: RunRequest, before: _Conversation | None
    ) -> Classification:
        """What the first stage says, or what it said last where the message goes on with that."""
        assert self._classifier is not None
        kept = before.categories if before is not None else ()
        if keeps(kept, request.messages, view, assembly.selector):
            return Classification(categories=kept, how="kept")
        return await classified(self._classifier, request.messages, view)

    def _away(self, assembly: _Assembly, request: RunRequest) -> _Away:
        """How the heavy parts of a request are called, so that no other request stands still meanwhile."""
        tools = len(self.source.snapshot()) + len(request.client_tools)
        if tools <= _FEW and len(request.messages) <= _LONG:
            return _at_once
        if tools > _FEW and not self._is_known(assembly, request):
            return aside
        return asyncio.to_thread if tools > _LARGE or len(request.messages) > _LONG else _at_once

    def _is_known(self, assembly: _Assembly, request: RunRequest) -> bool:
        """Whether all that is worked out of a catalog is there: the catalog itself, and the index that it is searched by."""
        catalog: Catalog | None = self.source.snapshot() if request.use_catalog else _EMPTY
        if request.client_tools:
            catalog = self._merged.known(request.client_tools, catalog or _EMPTY)
        if catalog is None:
            return False
        return assembly.preset.exposure != "selected" or assembly.selector.is_ready(catalog)

    # --- pieces of a request -----------------------------------------------------------------------------------------

    def _asked(self, request: Asked, options: Mapping[str, Any]) -> RunRequest:
        """The request, made by one of the bots if there are any. Raises `RequestError` for names that nothing has."""
        asked = self._by_bot(request_from(request, options))
        if asked.disabled_tools:
            theirs = {tool.name for tool in asked.client_tools}
            ours = [name for name in asked.disabled_tools if name not in theirs]
            if unknown := list(unknown_tools("disabled_tools", ours, self.source.snapshot())):
                raise RequestError("; ".join(unknown), param="disabled_tools")
        return asked

    def _by_bot(self, request: RunRequest) -> RunRequest:
        principal = self._bots.identified(request.principal)
        return request if principal is request.principal else replace(request, principal=principal)

    def identified(self, principal: Principal) -> Principal:
        """The principal as requests of it are answered: as the default bot, if it names none. Raises `RequestError` for an
        unknown bot, and for none where there are bots and no default."""
        return self._bots.identified(principal)

    def _assembly_of(self, request: RunRequest) -> _Assembly:
        """Selector, planner, executor for a request's preset under its model's cap, made once for each pair."""
        chosen = self.preset if request.preset is None else preset(request.preset)
        capabilities = known_of(Entry(provider=self.provider, model=self._model_of(request)), self._capabilities)
        key = (request.preset, capabilities)
        if key not in self._assemblies:
            chosen = _configured(_capped(chosen, capabilities), self.tool_config)
            self._assemblies[key] = self._assembled(chosen, capabilities)
        return self._assemblies[key]

    def _assembled(self, chosen: Preset, capabilities: Capabilities) -> _Assembly:
        if self._vectors is not None and chosen.selection.rankers == SIGNALS["plain"]:
            chosen = replace(chosen, selection=replace(chosen.selection, rankers=SIGNALS["embedding"]))
        if self._vectors is None and _EMBEDDING in chosen.selection.rankers:
            raise ConfigError("selection.rankers has 'embedding', but there is no embedder; set embedding.embedder")
        if self._experience is not None and set(chosen.selection.rankers) - {"categories", learning.NAME}:
            names = (*(name for name in chosen.selection.rankers if name != learning.NAME), learning.NAME)
            chosen = replace(chosen, selection=replace(chosen.selection, rankers=names))
        selector = Selector(chosen.selection, self._rankers, core=chosen.core_first, co_used=self._co_used)
        executor = self._executor(self._approver, chosen)
        engine = Engine(
            provider=self._model_side.forcing(chosen) if chosen.force else self._model_side.plain(),
            selector=selector,
            planner=DeliveryPlanner(chosen.exposure, mode=chosen.delivery),
            executor=executor,
            preset=chosen,
            capabilities=capabilities,
            prepare=partial(self._embed, chosen),
            held=self._held,
            meta_tools=self._meta_tools,
            bounds=self._bounds,
        )
        return _Assembly(preset=chosen, selector=selector, engine=engine, executor=self._executor, meta={})

    def _warn_of_tools(self) -> None:
        """What an agent's configuration means for tools that were not made for it."""
        config = self.tool_config
        if config is None:
            return
        most, caches = config.tool_timeout, config.cache_results is not None and config.cache_results.enabled
        tools = self.source.snapshot()
        longer = [tool.name for tool in tools if most is not None and tool.timeout is not None and tool.timeout > most]
        if longer:
            log.warning("tool_timeout_is_shorter", tools=longer[:_NAMED], count=len(longer), tool_timeout=most)
        unmarked = [tool.name for tool in tools if caches and is_unmarked(tool) and tool.cache_ttl is None]
        if unmarked:
            hint = "their results are kept; say read_only=True or False of each, so that no write is answered from the cache"
            log.warning("cached_without_saying_read_only", tools=unmarked[:_NAMED], count=len(unmarked), hint=hint)
        unchecked = [tool.name for tool in tools if config.validate_tool_response and tool.output_schema is None]
        if unchecked:
            hint = (
                "only size and encoding of their results are checked; give each an output_schema or a return annotation"
            )
            log.warning("results_without_schema", tools=unchecked[:_NAMED], count=len(unchecked), hint=hint)

    def _executor(self, approver: Approver | None, chosen: Preset) -> Executor:
        """The layers around a call, outermost first.

        A cut result names a handle of one caller, so whole results are cached and cut anew each time; only final, checked
        results are cached; a result that breaks its promise is a failure that may be repeated; each try has its own time.
        """
        config, limits = self.tool_config, chosen.limits
        return Executor(
            source=self.source,
            policy=self._policy,
            approver=approver,
            middleware=(
                Truncate(limits.result_bytes, held=self._held),
                *self._middleware,
                *self._cached(chosen),
                *((RetryCall(limits.tool_retries),) if limits.tool_retries else ()),
                *((ResultCheck(self._bounds),) if config is not None and config.validate_tool_response else ()),
                Timeout(most=limits.tool_seconds_most),
            ),
            bounds=self._bounds,
            meta_tools=self._meta_tools,
        )

    def _cached(self, chosen: Preset) -> Sequence[Middleware]:
        """The cache of a preset, or of the agent's own configuration: one for all that keep results alike."""
        wanted = None if self.tool_config is None else self.tool_config.cache_results
        if wanted is None:
            everything, unmarked, ttl, key = chosen.cache == "everything", False, DEFAULT_TTL, None
        else:
            everything, unmarked, ttl, key = wanted.enabled, wanted.enabled, wanted.ttl, wanted.key
        if (chosen.cache == "off" and wanted is None) or ttl <= 0:
            return ()
        if (everything, unmarked, ttl) not in self._caches:
            more = {} if key is None else {"key": key}
            self._caches[everything, unmarked, ttl] = Cache(
                self._cache_store, everything=everything, unmarked=unmarked, ttl=ttl, **more
            )
        return (self._caches[everything, unmarked, ttl],)

    def _catalog(self, request: RunRequest) -> Catalog:
        """The current snapshot, joined with the caller's own tools, which win over ours of the same name."""
        ours = self.source.snapshot()
        self._bots.notice(ours)
        if not request.client_tools:
            return ours if request.use_catalog else _EMPTY
        return self._merged.of(request.client_tools, ours if request.use_catalog else _EMPTY)

    def _context(self, request: RunRequest, view: View) -> RunContext:
        return RunContext(
            run_id=request.run_id or f"run_{uuid.uuid4().hex}",
            principal=request.principal,
            view=view,
            model=self._model_of(request),
            params=request.params,
            headers=request.headers,
            tool_choice=request.tool_choice,
            essential=tuple(request.essential),
            injected=request.injected,
            cache_key=_cache_key(request),
        )

    def _model_of(self, request: RunRequest) -> str:
        """The model asked for, by the provider's own name of it: `provider:model` may be said here as well."""
        return (request.model or self.model).removeprefix(f"{self.provider.name}:")

    def _started(self, request: RunRequest, context: RunContext, assembly: _Assembly) -> RunStarted:
        messages = request.messages
        current = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].role == "user"), None)
        window = assembly.preset.selection.window
        return RunStarted(
            run_id=context.run_id,
            principal=context.principal,
            preset=assembly.preset.name,
            model=context.model,
            message="" if current is None else messages[current].text,
            history=() if current is None else tuple(messages[max(0, current - window) : current]),
            catalog_version=context.view.catalog.version,
            catalog_size=len(context.view),
        )

    def _emitter(self, live: _Listener | None) -> Emit:
        """The sinks in their order: the trail may stop the run, the others may not, the caller's stream is last."""
        trail, others = self._trail, self._sinks

        async def emit(event: RunEvent) -> None:
            if trail is not None:
                await trail.emit(event)
            for sink in others:
                try:
                    await sink.emit(event)
                except Exception:  # a broken sink of telemetry must not take the answer away
                    log.exception("sink_failed", sink=type(sink).__name__, event_kind=type(event).__name__)
            if live is not None:
                await live(event)

        return emit

    # --- learning from use -------------------------------------------------------------------------------------------

    def _sink_of(self, experience: learning.Experience) -> learning.LearningSink:
        selection = self.preset.selection
        return learning.LearningSink(
            experience,
            redact=redact_text,
            tool_of=lambda name: self.source.snapshot().get(name),
            refit=self._refit,
            window=selection.window,
            window_user=selection.window_user,
        )

    def _refit(self, catalog: Catalog | None = None) -> None:
        self._assembly_of(RunRequest(messages=())).selector.refit(
            self.source.snapshot() if catalog is None else catalog
        )

    # --- what is kept between requests -------------------------------------------------------------------------------

    async def _delivered(self, request: RunRequest) -> _Conversation | None:
        """What this conversation was sent before: the caller says, or we remember."""
        if request.delivered:
            return _Conversation(delivered=tuple(request.delivered), meta=True)
        if not request.conversation:
            return None
        key = _conversation_key(request)
        if key in self._unwritten:
            return self._unwritten[key]
        stored = await self._documents.get(_CONVERSATION, key)
        return None if stored is None else msgspec.json.decode(stored, type=_Conversation)

    async def _write_down(self, key: str, kept: _Conversation) -> None:
        try:
            await self._documents.put(
                _CONVERSATION, key, msgspec.json.encode(kept), ttl=_CONVERSATION_TTL, urgent=False
            )
        finally:
            if self._unwritten.get(key) is kept:
                del self._unwritten[key]

    def _later(self, job: Coroutine[Any, Any, Any]) -> None:
        """Written behind the answer: losing it costs a colder cache, never an answer."""
        task = asyncio.ensure_future(job)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    engine: Engine
    selection: Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conversation:
    delivered: tuple[DeliveredTool, ...]
    meta: bool
    categories: tuple[str, ...] = ()
    """Those a first stage named."""
    allowed: tuple[str, ...] | None = None
    reads: bool = False
    """A result was cut, so that `read_result` joined the array."""
    at: float | None = None
    """When the provider was last sent it, in seconds since the epoch; None: the caller keeps the conversation. It is stored and
    read by other processes, so a wall clock it must be; where that is put back, a cold prompt cache counts as a warm one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Assembly:
    """The parts that serve one preset. Meta tools depend on the categories a caller sees, so engines are kept by those."""

    preset: Preset
    selector: Selector
    engine: Engine
    executor: Callable[[Approver | None, Preset], Executor]
    meta: dict[_OfferingKey, _Offering]

    def with_meta(self, categories: tuple[str, ...], approver: Approver | None = None) -> Engine:
        engine = self.offering(categories, None).engine
        return engine if approver is None else replace(engine, executor=self.executor(approver, self.preset))

    def offering(self, categories: tuple[str, ...], expandable: frozenset[str] | None) -> _Offering:
        """The meta tools for a caller whose model may ask for these categories. Where all of them are taken away,
        `request_more_tools` is not among them."""
        key = (categories, expandable)
        if key not in self.meta:
            nothing = expandable is not None and not categories
            names = (name for name in self.preset.meta if not (nothing and name == REQUEST_MORE_TOOLS))
            offer = MetaOffer(categories=categories, expand_by=self.preset.expand_by, page_size=self.preset.page_size)
            offered = offered_definitions(names, offer, self.engine.meta_tools)
            engine = replace(self.engine, meta=offered, expandable=expandable)
            bare = replace(engine, meta={})
            self.meta[key] = _Offering(engine=engine, bare=bare, tokens=definition_tokens(offered.values()))
        return self.meta[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offering:
    """An engine with its meta tools, and what these cost."""

    engine: Engine
    bare: Engine
    """The same without them."""
    tokens: int


_OfferingKey = tuple[tuple[str, ...], frozenset[str] | None]
"""The categories listed, and those that a model may ask for; None: any."""

_EMPTY = Catalog.of(())


async def _at_once(job: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    return job(*args, **kwargs)


def _vectors(embedder: Embedder | RemoteEmbedder, documents: Store | None, patience: float) -> CatalogVectors:
    prepared = Prepared(embedder, documents, patience=patience)
    make, meanwhile = embedding.factory(prepared), static.factory
    return CatalogVectors(prepared, make, embedding.tool_texts, meanwhile, patience=patience)


def _texts(query: SelectionQuery, settings: SelectionSettings) -> list[str]:
    """What of a query is embedded."""
    words = query_words(query, window=settings.window, window_user=settings.window_user)
    return [text for text, _ in (*words.messages, *words.replies) if text.strip()]


def _meta_tools(chosen: Preset, others: Sequence[AnyMetaTool]) -> MetaTools:
    """The meta tools that ship, those given, and the installed ones that the preset names."""
    shipped = joined_meta_tools(others)
    installed = [Registry().make("meta_tool", name) for name in chosen.meta if name not in shipped]
    return joined_meta_tools((*others, *installed))


def _entry(wanted: Provider | str | Entry) -> Entry:
    """Whom to ask. Raises `ConfigError` where that is no provider: said here, and not by the first request."""
    if isinstance(wanted, str):
        wanted = provider_named(wanted)
    found = wanted if isinstance(wanted, Entry) else Entry(provider=wanted)
    if wrong := _wrong_with(found.provider):
        raise ConfigError(f"{wrong}; see ports.Provider, or name one as provider:model")
    return found


def _wrong_with(provider: Any) -> str:
    """Why this is no provider; empty: it has all that one needs."""
    if isinstance(provider, type):
        return f"{provider.__name__} is a class: give an instance, {provider.__name__}()"
    kind = type(provider).__name__
    missing = [name for name in _PROVIDER if not hasattr(provider, name)]
    if missing:
        return f"{kind} is no provider: it lacks {', '.join(missing)}"
    if inspect.iscoroutinefunction(provider.stream):
        return f"{kind}.stream must give an async iterator: `async def` with a `yield`, or a plain `def`"
    return "" if isinstance(provider.name, str) and provider.name else f"{kind}.name must be a text"


def _config(given: ToolConfig | Mapping[str, Any] | None) -> ToolConfig | None:
    """The configuration of an agent; what is allowed in it and probably not meant is logged."""
    config = given if given is None or isinstance(given, ToolConfig) else ToolConfig.of(given)
    for warning in config.warnings if config else ():
        log.warning("tool_config", warning=warning)
    return config


def _memory(config: ToolConfig | None) -> CacheStore:
    wanted = None if config is None else config.cache_results
    return MemoryCache() if wanted is None else MemoryCache(max_size=wanted.max_size)


def _configured(chosen: Preset, config: ToolConfig | None) -> Preset:
    """The preset of an agent: whether tools must be used is its configuration's to say, and what a tool may take."""
    if config is None:
        return chosen
    limits = replace(
        chosen.limits,
        forced_attempts=config.attempts,
        tool_retries=chosen.limits.tool_retries or config.max_retries,
        tool_seconds_most=chosen.limits.tool_seconds_most if config.tool_timeout is None else config.tool_timeout,
    )
    return replace(chosen, force=config.force_tool_use, on_not_called=config.on_tool_not_called, limits=limits)


def _capped(chosen: Preset, capabilities: Capabilities) -> Preset:
    """The preset under the provider's own cap."""
    caps = [cap for cap in (chosen.budget.provider_cap, capabilities.tool_cap) if cap is not None]
    return replace(chosen, budget=replace(chosen.budget, provider_cap=min(caps, default=None)))


def _decides(preset: Preset) -> bool:
    """Whether what a first stage says decides alone, as in source 000, instead of being one voice among others."""
    return preset.selection.rankers == ("categories",)


def _finds(preset: Preset, view: View) -> bool:
    """Whether tools are looked for at all, now or when the model asks for more."""
    if not len(view) or preset.exposure == "all":
        return False
    return preset.exposure == "compact" or not _goes_whole(preset, view)


def _goes_whole(preset: Preset, view: View) -> bool:
    """Whether a preset that selects has nothing to choose from so few tools."""
    caps = [n for n in (preset.budget.max_tools, preset.budget.provider_cap) if n is not None]
    fits = preset.selection.whole_if_it_fits and preset.budget.max_tokens is None
    return fits and len(view) <= min(caps, default=len(view))


def _leaves_room(preset: Preset, view: View, pinned: Sequence[str]) -> bool:
    """Whether meta tools fit beside what must be sent. One tool by name leaves room; a list of allowed ones may not."""
    cap = preset.budget.provider_cap
    if cap is None or len(pinned) < 2:
        return True
    return len(preset.meta) + len(pinned) + sum(map(view.catalog.is_core, view)) <= cap


def _named_in(request: RunRequest, view: View) -> tuple[str, ...]:
    """What must stand in the array: the tools of the caller's choice, and those it cannot do without."""
    return (*forced_names(request.tool_choice), *(name for name in request.essential if view.get(name) is not None))


def _first_state(context: RunContext, request: RunRequest, delivery: Delivery, said: Classification) -> RunState:
    messages = tuple(request.messages)
    added = [tool for name in delivery.added if (tool := context.view.get(name)) is not None]
    return RunState(
        run_id=context.run_id,
        messages=(*messages, telling(added, delivery.added_by)) if added else messages,
        first_new=len(messages),
        delivered=delivery.tools,
        meta=delivery.meta,
        known=(*known_from(messages), *delivery.added),
        referenced=(*referenced_in(messages), *(delivery.added if delivery.added_by == "reference" else ())),
        allowed=None if delivery.allowed is None else tuple(n for n in delivery.allowed if n not in delivery.meta),
        later_by=delivery.later_by,
        categories=said.categories,
        usage=said.usage,
        seconds=said.seconds,
        catalog_version=context.view.catalog.version,
    )


def _called_lately(messages: Sequence[Message]) -> tuple[str, ...]:
    """Tools that the conversation's last messages call, also through `execute_tool`: its arguments are looked at as text."""
    calls = [call for message in messages[-_LATELY:] for call in message.tool_calls]
    inner = (_INNER.search(call.arguments) for call in calls if call.name == EXECUTE_TOOL)
    return (*(call.name for call in calls), *(found[1] for found in inner if found))


def _keyless(request: RunRequest) -> RunRequest:
    """The request as it may lie in a database for weeks: without the headers that prove who somebody is."""
    kept = {name: value for name, value in request.headers.items() if name.lower() not in PROOFS}
    return replace(request, headers=kept)


def _cache_key(request: RunRequest) -> str:
    """What a provider routes a conversation by. A caller's own key is among the parameters and stays."""
    if "prompt_cache_key" in request.params or not (request.cache_key or request.conversation):
        return ""
    owner = f"{request.principal.tenant}\n{request.principal.id}\n{request.cache_key or request.conversation}"
    return hashlib.sha256(owner.encode()).hexdigest()[:32]


def _answered(item: PendingCall, approvals: Mapping[str, bool], results: Mapping[str, str]) -> PendingCall:
    if item.waiting == "client" and item.call.id in results:
        return replace(item, result=ToolResult(content=results[item.call.id]), waiting="")
    if item.waiting == "approval" and item.call.id in approvals:
        return replace(item, waiting="", decision=None)  # decided anew: policy may have changed meanwhile
    return item


def _conversation_key(request: RunRequest) -> str:
    """A conversation belongs to who has it: nobody reaches another's by guessing its name."""
    return f"{request.principal.tenant}\n{request.principal.id}\n{request.conversation}"


def _run_to_the_end(job: Coroutine[Any, Any, None]) -> None:
    """Runs it in a loop of its own: inside of another one in a thread, because a thread has one loop at a time."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(job)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="toolcaddie-embed") as thread:
        thread.submit(copy_context().run, asyncio.run, job).result()


def _sync(job: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(job)
    job.close()
    raise RequestError("run_sync was called inside a running event loop; await run() there")
