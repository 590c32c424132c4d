"""Makes the stages of a runtime from the arguments of `Runtime`, and checks these arguments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Never

from toolcaddie import learning
from toolcaddie.audit.redact import redact_secrets
from toolcaddie.control.admission import Gates, wrappers_of
from toolcaddie.control.approvals import StoredApprovals
from toolcaddie.control.approvers import JudgedApprovals
from toolcaddie.control.bots import Bot, Bots, Role
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.control.policy.current import CurrentPolicy
from toolcaddie.control.results.held import HeldResults
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.approval import EXPIRY_SECONDS
from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.capabilities import CAPABILITIES, Capabilities
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.presets import Preset
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.embedders.prepared import PATIENCE
from toolcaddie.engine.engine import Programs
from toolcaddie.inputs.parts import (
    Sources,
    check_parts,
    embedder_from,
    preset_from,
    programs_from,
    refuse_unknown,
    sources_from,
)
from toolcaddie.learning.co_use import CoUse
from toolcaddie.meta.registry import AnyMetaTool, MetaTools, joined_meta_tools
from toolcaddie.ports import (
    Approver,
    CacheStore,
    Classifier,
    Embedder,
    EventSink,
    Interpreter,
    KeyMeter,
    Middleware,
    Policy,
    Provider,
    RankerFactory,
    RemoteEmbedder,
    Store,
    VectorIndex,
)
from toolcaddie.providers.step_statistics import StepStatistics
from toolcaddie.providers.wrapping import Entry
from toolcaddie.registry import Registry
from toolcaddie.runtime.answering import Answering
from toolcaddie.runtime.background import Background
from toolcaddie.runtime.budgets import Budgets
from toolcaddie.runtime.bus import EventBus
from toolcaddie.runtime.calling import Calling
from toolcaddie.runtime.conversations import Conversations
from toolcaddie.runtime.dependencies import Dependencies
from toolcaddie.runtime.ending import Ending
from toolcaddie.runtime.executors import Executors
from toolcaddie.runtime.instructions import Instructions, check_instructions
from toolcaddie.runtime.learning import Learning
from toolcaddie.runtime.looking import Looking
from toolcaddie.runtime.models import ModelSide, entry_from, entry_of
from toolcaddie.runtime.output import default_output
from toolcaddie.runtime.requests import read_request
from toolcaddie.runtime.resuming import Resuming
from toolcaddie.runtime.setups import Setups
from toolcaddie.runtime.tool_warnings import warn_of_tools
from toolcaddie.runtime.vectors import MOST_IN_MEMORY, Vectors
from toolcaddie.runtime.views import Views
from toolcaddie.sources.combined import combined
from toolcaddie.sources.tenant_parts import Tenants
from toolcaddie.sources.tenants import TenantCatalogs
from toolcaddie.storage.cache import MemoryCache, StoreCache
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.storage.runs import StoredRuns
from toolcaddie.util.log import Logger

log = Logger(__name__)

_HELD_BYTES = 128 * 1024 * 1024
"""The largest size in bytes of all cut results that are held in memory for `read_result`."""


class Assembly:
    """The stages of a runtime, made from its arguments. `Runtime` extends this class with the public methods."""

    def __init__(
        self,
        *,
        provider: Provider | str | Entry,
        sources: Sources = (),
        tenants: Tenants | None = None,
        preset: str | Preset = "default",
        model: str = "",
        policy: Policy | None = None,
        approver: Approver | None = None,
        approval_expiry: float = EXPIRY_SECONDS,
        middleware: Sequence[Middleware] = (),
        trail: EventSink | None = None,
        sinks: Sequence[EventSink] = (),
        documents: Store | None = None,
        meter: KeyMeter | None = None,
        classifier: Classifier | None = None,
        embedder: Embedder | RemoteEmbedder | str | None = None,
        patience: float = PATIENCE,
        vector_index: VectorIndex | None = None,
        most_in_memory: int = MOST_IN_MEMORY,
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
        instructions: Instructions | None = None,
        output: Any = None,
        dependencies: Sequence[Any] = (),
        programs: Interpreter | Programs | str | None = None,
        check_claims: bool = True,
        bounds: Bounds = DEFAULT,
        clock: Callable[[], float] = time.time,
        **unknown: Never,
    ) -> None:
        """Makes the stages. Raises `ConfigError` for every argument that cannot work, so that no request has to fail because of
        it."""
        refuse_unknown(unknown)
        check_parts(
            model=model,
            policy=policy,
            approver=approver,
            approval_expiry=approval_expiry,
            middleware=middleware,
            trail=trail,
            sinks=sinks,
            documents=documents,
            meter=meter,
            classifier=classifier,
            patience=patience,
            vector_index=vector_index,
            rankers=rankers,
            experience=experience,
            bots=bots,
            fallbacks=fallbacks,
            cache=cache,
            clock=clock,
        )
        embedder, known_programs = embedder_from(embedder), programs_from(programs)
        known_dependencies, output_type = Dependencies(dependencies), default_output(output)
        check_instructions(instructions)
        source = combined(sources_from(sources, known_dependencies.types), replace_reserved=replace_reserved)
        entry = entry_from(provider)
        config = _config(tool_config)
        default_preset = preset_from(preset)
        models = _models(entry, fallbacks, attempts, config, capabilities)
        known_bots = Bots(
            bots,
            roles,
            default=default_bot,
            categories=categories,
            expandable=default_preset.selection.expandable_categories,
        )
        catalogs = TenantCatalogs(source, tenants)
        if source.is_open and tenants is None:  # names of tools that are not connected yet cannot be judged
            known_bots.check(source.snapshot())
        current_policy = CurrentPolicy(policy or CedarPolicy())
        views = Views(catalogs, current_policy, known_bots)
        held = HeldResults(
            MemoryCache(max_bytes=_HELD_BYTES) if documents is None else StoreCache(documents, kind="held")
        )
        all_meta_tools = _meta_tools(default_preset, meta_tools)
        executors = Executors(
            source_of=catalogs.source_of,
            middleware=middleware,
            config=config,
            cache_store=cache or _memory(config),
            held=held,
            bounds=bounds,
        )
        stored = documents or MemoryStore()
        bus = EventBus(trail, sinks)
        gates = Gates(
            policy=current_policy,
            approvals=StoredApprovals(stored, clock=clock, emit=bus.emitter(), redact=redact_secrets),
            source_of=catalogs.source_of,
            approver=approver,
            wrappers=wrappers_of(all_meta_tools),
            bounds=bounds,
            clock=clock,
            approval_expiry=approval_expiry,
        )
        vectors = (
            None
            if embedder is None
            else Vectors(
                embedder,
                documents,
                patience=patience,
                index=vector_index,
                most_in_memory=most_in_memory,
                clock=clock,
            )
        )
        setups = Setups(
            default=default_preset,
            model=model or entry.model,
            models=models,
            executors=executors,
            bots=known_bots,
            rankers=_rankers(rankers, vectors, experience),
            co_used=None if experience is None else CoUse(experience),
            vectors=vectors,
            config=config,
            held=held,
            gates=gates,
            meta_tools=all_meta_tools,
            bounds=bounds,
            programs=known_programs,
            catalogs=catalogs.most_used,
        )
        budgets = Budgets(bots=known_bots, meter=meter, prices_of=setups.prices_of, clock=clock)
        learning = None
        if experience is not None:
            learning = Learning(experience, catalogs, setups.default.selector, default_preset.selection)
            bus.add_sink(learning.sink)
        background, shutdown = Background(), threading.Event()
        conversations = Conversations(stored, background, clock=clock, ttl=approval_expiry)
        ending = Ending(conversations=conversations, background=background, check_claims=check_claims)
        runs = StoredRuns(stored, ttl=approval_expiry)
        if config is not None:
            warn_of_tools(config, source.snapshot())
        catalogs.forget = partial(_forget, views, setups)
        self.source = source
        self.catalogs = catalogs
        """The shared catalog, and those of tenants."""
        self._dependencies = known_dependencies
        self.provider = entry.provider
        self.model = model or entry.model
        self.tool_config = config
        self.preset = default_preset
        self.approvals = JudgedApprovals(
            gates.approvals, current_policy, Visibility(known_bots), tool_now=catalogs.tool
        )
        """The questions that policies ask, and their answers. A person answers only what the policy lets this person approve."""
        self._policy = current_policy
        self._bots = known_bots
        self._models = models
        self._views = views
        self._setups = setups
        self._budgets = budgets
        self._executors = executors
        self._vectors = vectors
        self._learning = learning
        self._programs = known_programs
        self._bus = bus
        self._background = background
        self._classifier = classifier
        self._shutdown = shutdown
        """Set when the server is being shut down."""
        self._read = partial(read_request, bots=known_bots)
        self._looking = Looking(setups=setups, views=views, clock=clock)
        self._resuming = Resuming(
            setups=setups,
            catalogs=catalogs,
            views=views,
            bots=known_bots,
            budgets=budgets,
            gates=gates,
            bus=bus,
            runs=runs,
            ending=ending,
            dependencies=known_dependencies,
            output=output_type,
            stopping=shutdown.is_set,
        )
        self._runs = runs
        self._answering = Answering(
            setups=setups,
            catalogs=catalogs,
            views=views,
            budgets=budgets,
            classifier=classifier,
            conversations=conversations,
            bus=bus,
            runs=runs,
            documents=stored,
            ending=ending,
            resuming=self._resuming,
            dependencies=known_dependencies,
            instructions=instructions,
            output=output_type,
            clock=clock,
            stopping=shutdown.is_set,
        )
        self._calling = Calling(
            setups=setups,
            catalogs=catalogs,
            views=views,
            conversations=conversations,
            bus=bus,
            dependencies=known_dependencies,
            runs=runs,
            documents=stored,
            ending=ending,
            stopping=shutdown.is_set,
        )

    async def close(self) -> None:
        """Waits for background writes, then closes the vectors, the provider, the sources and the classifier: all of them, even
        if closing one of them fails. A closed runtime opens again with its next request."""
        async with AsyncExitStack() as closing:  # the last callback runs first
            if (close := getattr(self._classifier, "close", None)) is not None:
                closing.push_async_callback(close)
            closing.push_async_callback(self.source.close)
            closing.push_async_callback(self.catalogs.close)
            if self._programs is not None:
                closing.push_async_callback(self._programs.interpreter.close)
            closing.push_async_callback(self._models.close)
            closing.push_async_callback(self._background.finished)
            if self._vectors is not None:
                closing.push_async_callback(self._vectors.close)
            if self._learning is not None:
                closing.push_async_callback(self._learning.settled)


def _forget(views: Views, setups: Setups, catalog: Catalog) -> None:
    """Drops what the stages have cached about a catalog."""
    views.forget(catalog)
    setups.forget(catalog)


def _models(
    entry: Entry,
    fallbacks: Sequence[Provider | str | Entry],
    attempts: int,
    config: ToolConfig | None,
    capabilities: Sequence[Capabilities],
) -> ModelSide:
    """Returns the provider to ask with its fallbacks. `config` may name the provider that is asked if a forced call fails."""
    forced_fallback = None if config is None else config.fallback_provider
    return ModelSide(
        provider=entry.provider,
        attempts=attempts,
        fallbacks=tuple(map(entry_from, fallbacks)),
        forced_fallback=None if forced_fallback is None else entry_of(forced_fallback),
        capabilities=capabilities,
        step_statistics=StepStatistics(),
    )


def _rankers(
    others: Mapping[str, RankerFactory] | None, vectors: Vectors | None, experience: learning.Experience | None
) -> Mapping[str, RankerFactory]:
    """Returns the caller's rankers (`others`), with the ranking by meaning if there are `vectors`, and the ranking by experience
    if there is an `experience`."""
    rankers = dict(others or {})
    if vectors is not None:
        rankers |= vectors.rankers
    if experience is not None:
        rankers[learning.NAME] = learning.factory(experience)
        if vectors is not None and not vectors.is_remote:
            experience.compare_by(vectors.prepared)
    return rankers


def _meta_tools(preset: Preset, others: Sequence[AnyMetaTool]) -> MetaTools:
    """Returns the meta tools of Toolcaddie, those in `others`, and the installed ones that the preset names."""
    shipped = joined_meta_tools(others)
    installed = [Registry().make("meta_tool", name) for name in preset.meta if name not in shipped]
    return joined_meta_tools((*others, *installed))


def _config(config: ToolConfig | Mapping[str, Any] | None) -> ToolConfig | None:
    """Returns the configuration of an agent. A setting that is allowed but probably a mistake is logged."""
    config = config if config is None or isinstance(config, ToolConfig) else ToolConfig.of(config)
    for warning in config.warnings if config else ():
        log.warning("tool_config", warning=warning)
    return config


def _memory(config: ToolConfig | None) -> CacheStore:
    rule = None if config is None else config.cache_results
    return MemoryCache() if rule is None else MemoryCache(max_size=rule.max_size)
