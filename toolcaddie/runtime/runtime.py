"""The face of the runtime: each method hands its request to the stages and returns what they return.

    runtime = Runtime(provider=OpenAIChat(...), sources=[my_function, gym.source()])
    result = await runtime.run("freeze John's membership")

The walk of a request is in `answering.py`, and `assembly.py` makes the stages of the arguments of a runtime. No stage knows the
runtime, so none comes back to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from toolcaddie.control.bots import Bot
from toolcaddie.control.results.cache import CacheStatistics
from toolcaddie.control.visibility import Restriction
from toolcaddie.core.approval import Approval
from toolcaddie.core.capabilities import Prices
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.events import RunEvent
from toolcaddie.core.key_limits import Allowance
from toolcaddie.core.run import RunRequest, RunResult
from toolcaddie.core.selection import Selection
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.desk import ToolDesk
from toolcaddie.engine.live import streamed
from toolcaddie.inputs.parts import sources_from
from toolcaddie.inputs.requests import RequestInput
from toolcaddie.learning import LogEntry
from toolcaddie.ports import EventSink, Policy
from toolcaddie.runtime.assembly import Assembly
from toolcaddie.runtime.bus import Listener
from toolcaddie.runtime.looking import Finder, Preview

T = TypeVar("T")


class Runtime(Assembly):
    """Answers requests. One runtime serves many requests at once: make it once and reuse it.

    Model:

    - `provider`: an object, or a name such as "anthropic:claude-sonnet-5-5"; the API key of a named provider is read from its
      environment variable. `model`: used by requests that name no model.
    - `fallbacks`: providers that are tried in this order if `provider` fails or cannot call tools, each with its own model.
      `attempts`: the number of requests to one provider while its errors are retryable.
    - `instructions`: the system prompt, as text or as a function of `RunContext`. `output`: the type of answers, which are
      checked against it (`RunResult.output`).
    - `tool_config`: the settings of an agent that must use its tools (`ToolConfig`, or a mapping with its fields).

    Tools:

    - `sources`: `ToolSource`s, plain functions, or names of catalogs ("gym"); one of them or a list. `dependencies`: objects
      that are passed to functions with a parameter of their type. If a class is given instead of an object, each request
      supplies its own object of this class.
    - `tenants`: catalogs of tenants, each of which is opened when a request of its tenant needs it (`sources.tenants`).
    - `middleware`, `cache`: what happens around each call, and the store for results that may be reused (default: in memory).
    - `programs`: the interpreter that runs programs of the model, which call many tools at once: "monty" (the package
      `toolcaddie[programs]`). `Preset.programs` says when the model may write them.
    - `meta_tools`: further meta tools, which a preset offers by name (`Preset.meta`).
    - `replace_reserved`: names that are reserved for Toolcaddie's own tools, but may be used by tools of the sources.

    Selection:

    - `preset`: the strategy of selection and delivery, by name or as a value. `rankers`: further rankers.
    - `classifier`: names the categories of a request before tools are selected; `Preset.selection.classify` says when.
    - `embedder`: an embedder or its name ("minilm"), so that tools are found by meaning too. A request waits at most `patience`
      seconds for vectors. Until those of the catalog are complete, and while the embedder fails, words alone select; `prepare`
      makes them before the first request. `vector_index`: a database that holds and searches the vectors of catalogs with more
      than `most_in_memory` tools, for all processes that use it; without one, every process holds those of all tools.
    - `experience`: a memory of past requests and the tools called for them; presets that use more than keywords learn from it.

    Control:

    - `policy`, `approver`: decide about calls; a question to a person expires `approval_expiry` seconds after it was asked.
    - `bots`: if there are any, every request belongs to one of them: the bot of its principal, or `default_bot`. `roles`: what a
      model may request on behalf of callers with a role. `categories`: the enabled categories of all bots. A name in them that
      no tool or category has is an error at start.
    - `bounds`: limits on the size of answers and calls of a model.

    Storage and telemetry:

    - `trail`: the audit trail. If it fails, runs fail. `sinks`: further receivers of events; their failures are logged.
    - `meter`: counts what bots use in a day; needed if one has a budget.
    - `documents`: stores paused runs, approvals, and what conversations were sent. Without it they last as long as the process.
    """

    # --- asking ------------------------------------------------------------------------------------------------------

    async def run(self, request: RequestInput = None, **options: Any) -> RunResult:
        """Answers a text, a conversation whose last message is to be answered (`Message`s, or dicts as in OpenAI's API), or a
        `RunRequest`. `options` are fields of `RunRequest`; with a text, `messages` is the conversation before it.

        The result's status is 'pending' if calls wait for approval, and 'client_calls' if the model called tools that the caller
        runs itself; `resume` continues both. Raises `RunError`, `ProviderError`, `RequestError`.
        """
        return await self._answer(request, options)

    def run_sync(self, request: RequestInput = None, **options: Any) -> RunResult:
        """Does the same as `run` for callers without an event loop. Each call opens its connections and closes them."""
        return _sync(self._run_and_close(request, options))

    async def _run_and_close(self, request: RequestInput, options: Mapping[str, Any]) -> RunResult:
        try:
            return await self.run(request, **options)
        finally:
            await self.close()

    def stream(self, request: RequestInput = None, **options: Any) -> AsyncIterator[RunEvent]:
        """Answers as `run` does, and yields every event as it happens. The last event is `RunFinished` or `RunPaused`, unless the
        run raises. Closing the iterator cancels the run and the request to the provider.
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
        headers: Mapping[str, str] | None = None,
    ) -> RunResult:
        """Resumes a paused run.

        - `approvals`: call id -> True (approved) or False (denied). Calls that were answered through `Runtime.approvals` can be
          omitted. `results`: call id -> result of a tool that the caller ran.
        - `principal`: the run must be theirs, otherwise it is not found. It is recorded as the one who answered, with `reason`.
        - `dependencies`: the same as in the request, because they are not stored. `headers`: those for the model, if the stored
          ones, which prove no identity, are not enough.

        Policy and schema are checked again before a call runs. If several callers resume the same run, one continues it and the
        others get `RunNotFoundError`. If that one fails, `resume` without answers continues after the calls that were made.
        """
        await self.open()
        return await self._resuming.resume(
            run_id,
            approvals=approvals or {},
            results=results or {},
            principal=principal,
            reason=reason,
            dependencies=dependencies,
            headers=headers,
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
        """Resumes a run as `resume` does, and yields its further events as `stream` does."""
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

    async def forget(self, run_id: str) -> None:
        """Deletes the stored state of a durable run (`RunRequest.durable`). Until then, resuming it gives the same answer."""
        await self._runs.forget(run_id)

    def settle_answered(self, run_id: str, *, owner: int, is_kept: bool) -> None:
        """Deletes the stored state of a run that survives (`RunRequest.survives`) soon, if its answer is stored (`is_kept`) and
        this process has not lost the lease `owner`. Otherwise it stays, so that the run can be resumed. Returns at once."""
        if is_kept:
            self._background.begin(self._runs.forget_late(run_id, owner=owner))
        else:
            self._runs.end_late(run_id)

    async def is_stored(self, run_id: str) -> bool:
        """Returns True if a run is stored, so that it can be resumed once no other process continues it."""
        return bool(await self._runs.resumable([run_id]))

    async def waiting(self, run_id: str) -> RunResult:
        """Returns the result of a run that waits, as it was when it paused. Raises `RunNotFoundError`."""
        await self.open()
        return await self._resuming.waiting(run_id)

    async def questions(self, run_id: str) -> Sequence[Approval]:
        """Returns the questions for whose answers a paused run waits, open and answered ones. Raises `RunNotFoundError`."""
        await self.open()
        return await self._resuming.questions(run_id)

    async def call(self, name: str, arguments: Mapping[str, Any], **options: Any) -> ToolResult:
        """Runs one tool without a model. All checks of a run apply: visibility, schema, policy, approval."""
        await self.open()
        async with self.holding(self._read(RunRequest(messages=()), options).principal.tenant):
            return await self.desk(**options).call(name, arguments)

    def desk(self, **options: Any) -> ToolDesk:
        """Returns the tools of one caller, to list, search, read and call. `options` are fields of `RunRequest`, for example
        `principal`; with `conversation`, an untrusted result taints the later calls of that conversation. The desk shows the
        tools of this moment, so open the sources first (`open`, or `async with`)."""
        return self._calling.desk(self._read(RunRequest(messages=()), options))

    def executor(
        self, *, chat_id: str, bot_id: str, **options: Any
    ) -> Callable[[str, Mapping[str, Any]], Coroutine[Any, Any, ToolResult]]:
        """Returns a function (name, arguments) -> result for one chat of one bot. It adds `_chatId` and `_botId` to the arguments
        of every call. The chat is the `conversation` of the calls, so an untrusted result taints the later ones."""
        principal = options.pop("principal", None) or Principal()
        if principal.bot not in (None, bot_id):
            raise RequestError(f"the principal is bot {principal.bot!r}, the executor is for {bot_id!r}", param="bot")
        principal = self.identified(replace(principal, bot=bot_id))
        injected = {"_chatId": chat_id, "_botId": bot_id}
        options = {"conversation": str(chat_id) or None, **options}

        async def execute(name: str, arguments: Mapping[str, Any]) -> ToolResult:
            return await self.call(name, arguments, principal=principal, injected=injected, **options)

        return execute

    def holding(self, tenant: str) -> AbstractAsyncContextManager[None]:
        """Returns the context manager in whose block the catalog of a tenant stays open. `run`, `call` and `resume` open it
        themselves; the methods below that look at tools, and `desk`, need it open. Without `tenants` it does nothing. Raises
        `TenantCatalogError` if the catalog cannot be opened."""
        return self.catalogs.held(tenant)

    # --- looking -----------------------------------------------------------------------------------------------------

    def view(self, request: RequestInput) -> View:
        """Returns the tools that the principal of a request may see. Raises `RequestError` for an unknown bot."""
        return self._views.of(self._read(request, {}))

    def restriction(self, tool: Tool, principal: Principal) -> Restriction | None:
        """Returns what hides a tool from a principal: a restriction of the tool or a bot, or the policy; None: nothing."""
        return self._views.restriction(tool, principal)

    def select(self, request: RequestInput = None, **options: Any) -> Selection:
        """Returns the selection for a request, without a request to a model."""
        return self._looking.select(self._read(request, options))

    def preview(self, request: RequestInput = None, **options: Any) -> Preview:
        """Returns the selection for a request with every omitted tool, and the tool array that a model would receive at the
        beginning of a conversation."""
        return self._looking.preview(self._read(request, options))

    def explain(self, name: str, request: RequestInput = None, **options: Any) -> Any:
        """Returns the reasons for which a tool is selected for a request, or omitted."""
        return self._looking.explain(name, self._read(request, options))

    @property
    def policy(self) -> Policy:
        """The policy that judges now."""
        return self._policy.now

    def change_policy(self, policy: Policy) -> None:
        """Judges by another policy from now on, also in runs that are under way. A run that has begun keeps the tools that it was
        shown, but each of its calls is judged by the new rules. Approvals under another version of the rules no longer count."""
        self._policy.exchange(policy)

    def identified(self, principal: Principal) -> Principal:
        """Returns the principal with its bot: the default bot if it names none. Raises `RequestError` for an unknown bot, and for
        a missing one if there are bots without a default."""
        return self._bots.identified(principal)

    def finds_by(self, view: View) -> Finder:
        """Returns the selector and the preset of requests that name none, and the function that makes a query of a request. For
        measurements of selection."""
        return self._looking.finder(view)

    @property
    def bots(self) -> Mapping[str, Bot]:
        """The configured bots by name."""
        return self._bots.all

    @property
    def default_model(self) -> str:
        """The model of requests that name none."""
        return self._setups.default_model

    def prices_of(self, model: str) -> Prices | None:
        """Returns the prices of a model of the provider, or of another one as `provider:model`; None: they are unknown."""
        return self._setups.prices_of(model)

    async def used_today(self, principal: Principal) -> Sequence[Allowance]:
        """Returns the amounts in the budget of the principal's bot, and what is used of each today; empty: it has no budget."""
        return await self._budgets.used(principal)

    def subscribe(self, listener: Listener) -> AbstractContextManager[None]:
        """Passes the events of all runs to a function until the `with` block ends."""
        return self._bus.subscribe(listener)

    def add_sink(self, sink: EventSink) -> None:
        """Adds a receiver of the events of all runs, for the life of the runtime."""
        self._bus.add_sink(sink)

    @property
    def cache_statistics(self) -> Sequence[CacheStatistics]:
        """Hits, misses and other counts of each cache of results, since the runtime was made."""
        return self._executors.cache_statistics

    @property
    def degraded(self) -> tuple[str, ...]:
        """One sentence for each part that does not work at the moment, with what replaces it."""
        vectors = self._vectors
        return (vectors.problem,) if vectors is not None and vectors.problem else ()

    @property
    def stopping(self) -> bool:
        """True while the server shuts down: a cancellation then comes from the server and not from a caller."""
        return self._shutdown.is_set()

    # --- life --------------------------------------------------------------------------------------------------------

    async def prepare(self, catalog: Catalog | None = None, requests: Iterable[RunRequest] = ()) -> None:
        """Makes the vectors of all tools of a catalog (None: the current one), and those of `requests` if the embedder is a
        server. A local model takes some 20 ms for each tool; with `documents` that time is spent once. Does nothing without an
        embedder. Raises `ProviderError` if the embedder fails."""
        if self._vectors is not None:
            tools = self.source.snapshot() if catalog is None else catalog
            await self._vectors.make_all(tools, self._setups.default.preset.selection, requests)

    async def check_vectors(self) -> None:
        """Raises `ConfigError` if the vectors of the current catalog belong in a `vector_index` that cannot search them."""
        if self._vectors is not None:
            await self._vectors.require(self.source.snapshot())

    async def warm(self) -> None:
        """Starts to make the vectors of the catalog, if the preset uses vectors. Returns when they are complete, or after
        `patience` seconds; the rest is made in the background."""
        await self._setups.default.vectors.begin(self.source.snapshot())

    async def learn(self, entries: Iterable[LogEntry], catalog: Catalog | None = None) -> None:
        """Adds past requests to the experience, and fits its weight again over a catalog (None: the current one). Raises
        `ConfigError` if the runtime has no experience."""
        if self._learning is None:
            raise ConfigError("the runtime has no experience to add requests to; pass experience=...")
        await self._learning.learn(entries, catalog)

    def begin_shutdown(self) -> None:
        """Marks the beginning of a shutdown: runs that are cancelled from now on are recorded as ended by it."""
        self._shutdown.set()

    async def open(self) -> None:
        """Opens the sources that need a connection; the first run does so too. Raises `ConfigError` if one cannot be opened."""
        if not self.source.is_open:
            await self.source.open()

    async def add_source(self, source: Any) -> None:
        """Adds a source while requests are served: what `sources` takes. Opens it if the runtime is open.

        Raises `ConfigError` for a name that is taken and for a source that cannot be opened, and `CatalogError` for tools that
        conflict with those of other sources. Then nothing has changed.
        """
        await self.source.change(add=sources_from(source, self._dependencies.types))

    async def remove_source(self, name: str) -> None:
        """Removes a source by its name and closes it. Requests that have begun keep its tools in their list; calls of them fail
        as revoked. Raises `ConfigError` if no source has this name."""
        await self.source.change(remove=[name])

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
