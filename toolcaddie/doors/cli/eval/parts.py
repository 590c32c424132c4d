"""Parts that the commands of `eval` share: configurations from settings, labelled requests, the log, and progress."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from toolcaddie.app.build import opened
from toolcaddie.app.models import asked_of
from toolcaddie.app.runtimes import catalog_of, host_parts, runtime_of
from toolcaddie.app.settings import EmbeddingSettings, Settings, effective_preset, load_settings
from toolcaddie.app.unasked import Unasked
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import CatalogError, ConfigError
from toolcaddie.core.presets import PRESETS, SIGNALS
from toolcaddie.core.run import RunRequest
from toolcaddie.doors.cli.output import note
from toolcaddie.evaluation.datasets import LabelledRequest, read_tools
from toolcaddie.evaluation.finder import PresetFinder
from toolcaddie.evaluation.logs import entries_of
from toolcaddie.evaluation.misses import patched
from toolcaddie.evaluation.recorded import Log, read_log
from toolcaddie.ports import Store
from toolcaddie.runtime import Runtime

DEFAULT_EMBEDDER = "minilm"

limit_option = click.option(
    "--limit", type=click.IntRange(min=1), default=100_000, show_default=True, help="Newest runs to look at."
)
signals_choice = click.Choice(sorted(SIGNALS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The configurations under test, by name."""

    name: str
    settings: Settings
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Words added to tools."""


def configurations(settings: Settings, signals: Sequence[str], others: Sequence[str]) -> list[Configuration]:
    """The settings with each of the `signals`, or as they are; then the presets and settings files to compare with.

    Raises `ConfigError` for a preset that does not choose.
    """
    configured = [Configuration(name=name, settings=with_signals(settings, name)) for name in dict.fromkeys(signals)]
    configured = configured or [Configuration(name=settings.preset, settings=settings)]
    configured.extend(_other(other, settings) for other in others)
    names = [each.name for each in configured]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"{twice!r} would be compared with itself; name it once")
    for each in configured:
        chosen = effective_preset(each.settings)
        if chosen.exposure != "selected":
            raise ConfigError(
                f"preset {chosen.name!r} does not select tools, so there is nothing to measure; name another"
            )
    return configured


def with_signals(settings: Settings, name: str) -> Settings:
    """The settings with the rankers of these signals; only `embedding` has an embedder, and brings one where none is set."""
    chosen = replace(settings, selection={**settings.selection, "rankers": SIGNALS[name]})
    if name != "embedding":
        return replace(chosen, embedding=EmbeddingSettings())
    if settings.embedding.embedder is None:
        return replace(chosen, embedding=replace(settings.embedding, embedder=DEFAULT_EMBEDDER))
    return chosen


def _other(name: str, settings: Settings) -> Configuration:
    if name in PRESETS:
        return Configuration(name=name, settings=replace(settings, preset=name))
    if not name.endswith(".toml"):
        raise ConfigError(
            f"--compare {name}: neither a preset ({', '.join(sorted(PRESETS))}) nor a settings file ending in .toml"
        )
    return Configuration(name=Path(name).stem, settings=load_settings(Path(name)))


# --- catalogs and configurations --------------------------------------------------------------------------------------


def evaluated_catalog(settings: Settings) -> Catalog:
    """The tools of the settings' catalogs. Of a single .jsonl file also tools that could not be served: here they are only
    looked for. Raises `ConfigError`."""
    try:
        return catalog_of(settings)
    except CatalogError as error:
        if len(settings.catalogs) != 1 or not settings.catalogs[0].endswith(".jsonl"):
            raise
        catalog = Catalog.of(read_tools(Path(settings.catalogs[0])), check_schemas=False)
        first, *more = str(error).splitlines()
        others = f" (and {len(more)} more)" if more else ""
        note(f"this catalog could not be served as it is: {first}{others}; it is measured all the same")
        return catalog


@asynccontextmanager
async def finders(
    chosen: Sequence[Configuration],
    catalog: Catalog,
    requests: Sequence[LabelledRequest],
    taught: Sequence[LabelledRequest] = (),
) -> AsyncIterator[list[PresetFinder]]:
    """Returns a finder per configuration, with the vectors it needs, and having learned from what is `taught`."""
    async with AsyncExitStack() as stack:
        documents: Store | None = None
        if any(each.settings.embedding.embedder for each in chosen):
            try:
                documents = (await stack.enter_async_context(opened(chosen[0].settings))).store
            except ConfigError as error:
                note(f"vectors are not kept for the next time: {error}")
        measured = []
        for each in chosen:
            tools = patched(catalog, each.hints) if each.hints else catalog
            finder, runtime = _finder(each, tools, documents, learns=bool(taught))
            stack.push_async_callback(runtime.close)
            if each.settings.embedding.embedder:
                with waiting(f"vectors of {len(catalog):,} tools"):
                    await runtime.prepare(
                        catalog, [RunRequest(messages=each.messages) for each in (*requests, *taught)]
                    )
            if taught:
                with waiting(f"learning from {len(taught):,} requests"):
                    await runtime.learn(entries_of(taught, tools, settings=finder.preset.selection), tools)
            measured.append(finder)
        yield measured


def _finder(
    chosen: Configuration, catalog: Catalog, documents: Store | None, *, learns: bool
) -> tuple[PresetFinder, Runtime]:
    """With what was taught and nothing else: what the trail teaches may be what is asked here."""
    learning = replace(chosen.settings.learning, enabled=learns)
    settings = replace(chosen.settings, learning=learning)
    runtime = runtime_of(
        settings, (), Unasked(asked_of(settings)[0]), asks=False, parts=host_parts(settings, documents)
    )
    view = View(catalog=catalog)
    selector, preset, query = runtime.finds_by(view)
    return PresetFinder(name=chosen.name, view=view, selector=selector, preset=preset, query=query), runtime


class _Hints(msgspec.Struct):
    name: str
    hints: tuple[str, ...]


def read_hints(path: Path, catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """The hints of a file as `eval misses --write` makes it. Raises `ConfigError` naming the line."""
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            read = msgspec.json.decode(line, type=_Hints)
        except msgspec.DecodeError as error:
            raise ConfigError(f'{path}, line {number}: {error}; write {{"name": "...", "hints": ["..."]}}') from error
        if catalog.position(read.name) is None:
            raise ConfigError(f"{path}, line {number}: the catalog has no tool {read.name!r}")
        found[read.name] = read.hints
    return found


# --- the log ----------------------------------------------------------------------------------------------------------


async def log_of(settings: Settings, limit: int) -> Log:
    """The recorded runs. Raises `ConfigError` where there are none."""
    async with opened(settings) as database:
        with progress("reading the log") as report_progress:
            log = await read_log(database.events, limit=limit, done=report_progress)
    if log.unread:
        note(f"{log.unread} runs could not be understood and are left out")
    if not log.runs:
        raise ConfigError(
            f"{settings.database_url} holds no run that selected tools; runs are recorded by `toolcaddie run`, `chat` and "
            "`serve`, or name another database with --database-url"
        )
    return log


# --- progress ---------------------------------------------------------------------------------------------------------


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, if that is a terminal; told how many of how many are done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A sign of life on stderr, if that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield
