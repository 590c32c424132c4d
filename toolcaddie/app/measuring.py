"""Configurations under test, and the finders that select and rank tools as they say, for `toolcaddie eval` and the console."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field

from msgspec.structs import replace

from toolcaddie.app.build import opened
from toolcaddie.app.models import asked_of
from toolcaddie.app.runtimes import host_parts, runtime_of
from toolcaddie.app.settings import EmbeddingSettings, Settings, effective_preset
from toolcaddie.app.unasked import Unasked
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import SIGNALS
from toolcaddie.core.run import RunRequest
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.evaluation.finder import PresetFinder
from toolcaddie.evaluation.logs import entries_of
from toolcaddie.evaluation.misses import patched
from toolcaddie.ports import Store
from toolcaddie.runtime import Runtime

DEFAULT_EMBEDDER = "minilm"

Waiting = Callable[[str], AbstractContextManager[None]]


def _silent(activity: str) -> AbstractContextManager[None]:
    return nullcontext()


def _unsaid(text: str) -> None:
    """Says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One configuration under test."""

    name: str
    settings: Settings
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Words added to tools, by the tool's name."""


def check_selects(configuration: Configuration) -> None:
    """Raises `ConfigError` for a preset that does not select tools."""
    preset = effective_preset(configuration.settings)
    if preset.exposure != "selected":
        raise ConfigError(f"preset {preset.name!r} does not select tools, so there is nothing to measure; name another")


def with_signals(settings: Settings, name: str) -> Settings:
    """Returns the settings with the rankers of this group. Only the group `embedding` has an embedder: that of the settings, or
    `minilm`."""
    changed = replace(settings, selection={**settings.selection, "rankers": SIGNALS[name]})
    if name != "embedding":
        return replace(changed, embedding=EmbeddingSettings())
    if settings.embedding.embedder is None:
        return replace(changed, embedding=replace(settings.embedding, embedder=DEFAULT_EMBEDDER))
    return changed


@asynccontextmanager
async def finders(
    configured: Sequence[Configuration],
    catalog: Catalog,
    requests: Sequence[LabelledRequest],
    training: Sequence[LabelledRequest] = (),
    *,
    waiting: Waiting = _silent,
    note: Callable[[str], None] = _unsaid,
) -> AsyncIterator[list[PresetFinder]]:
    """Yields a finder for each configuration. It has the vectors that it needs, and has learned from the requests of
    `training`. `waiting` makes a context in which something takes long; `note` gets remarks."""
    async with AsyncExitStack() as stack:
        documents: Store | None = None
        if any(configuration.settings.embedding.embedder for configuration in configured):
            try:
                documents = (await stack.enter_async_context(opened(configured[0].settings))).store
            except ConfigError as error:
                note(f"vectors are not stored for the next time: {error}")
        measured = []
        for configuration in configured:
            tools = patched(catalog, configuration.hints) if configuration.hints else catalog
            finder, runtime = _finder(configuration, tools, documents, learns=bool(training))
            stack.push_async_callback(runtime.close)
            if configuration.settings.embedding.embedder:
                with waiting(f"vectors of {len(catalog):,} tools"):
                    await runtime.prepare(
                        catalog, [RunRequest(messages=request.messages) for request in (*requests, *training)]
                    )
            if training:
                with waiting(f"learning from {len(training):,} requests"):
                    await runtime.learn(entries_of(training, tools, settings=finder.preset.selection), tools)
            measured.append(finder)
        yield measured


def _finder(
    configuration: Configuration, catalog: Catalog, documents: Store | None, *, learns: bool
) -> tuple[PresetFinder, Runtime]:
    """Returns the finder of a configuration, and its runtime. `learns`: True if it can learn from training requests; it never
    learns from the trail, which may contain the requests under test. `documents`: the store of vectors."""
    learning = dataclasses.replace(configuration.settings.learning, enabled=learns)
    settings = replace(configuration.settings, learning=learning)
    runtime = runtime_of(
        settings, (), Unasked(asked_of(settings)[0]), asks=False, parts=host_parts(settings, documents)
    )
    view = View(catalog=catalog)
    selector, preset, query = runtime.finds_by(view)
    return PresetFinder(name=configuration.name, view=view, selector=selector, preset=preset, query=query), runtime
