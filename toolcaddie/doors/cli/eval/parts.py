"""Functions that the commands of `eval` share.

A configuration is a set of settings under test. A finder selects and ranks the tools of a catalog as its configuration says. The
log is the recorded runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace
from rich.console import Console

from toolcaddie.app import measuring
from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.measuring import Configuration, check_selects, with_signals
from toolcaddie.app.runtimes import catalog_of
from toolcaddie.app.settings import Settings, load_settings
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import CatalogError, ConfigError
from toolcaddie.core.presets import PRESETS, SIGNALS
from toolcaddie.doors.cli.output import note
from toolcaddie.doors.cli.progress import progress
from toolcaddie.evaluation.datasets import read_tools
from toolcaddie.evaluation.recorded import Log, read_log

limit_option = click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="Maximum number of runs to read, the newest first.",
)
signals_choice = click.Choice(sorted(SIGNALS))


def configurations(settings: Settings, signals: Sequence[str], others: Sequence[str]) -> list[Configuration]:
    """Returns the configurations to measure: the settings with each of the `signals` (groups of rankers), or as they are if there
    are none; then the presets and settings files in `others`.

    Raises `ConfigError` for a preset that does not select tools.
    """
    configured = [Configuration(name=name, settings=with_signals(settings, name)) for name in dict.fromkeys(signals)]
    configured = configured or [Configuration(name=settings.preset, settings=settings)]
    configured.extend(_other(other, settings) for other in others)
    names = [configuration.name for configuration in configured]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"{twice!r} would be compared with itself; name it once")
    for configuration in configured:
        check_selects(configuration)
    return configured


def _other(name: str, settings: Settings) -> Configuration:
    """Returns the configuration that `--compare` names, a preset or a settings file."""
    if name in PRESETS:
        return Configuration(name=name, settings=replace(settings, preset=name))
    if not name.endswith(".toml"):
        raise ConfigError(
            f"--compare {name}: neither a preset ({', '.join(sorted(PRESETS))}) nor a settings file ending in .toml"
        )
    return Configuration(name=Path(name).stem, settings=load_settings(Path(name)))


# --- catalogs and configurations --------------------------------------------------------------------------------------


def evaluated_catalog(settings: Settings) -> Catalog:
    """Returns the tools of the settings' catalogs. A single .jsonl file may contain tools that a server would refuse, because the
    tools are only searched here. Raises `ConfigError`."""
    try:
        return catalog_of(settings)
    except CatalogError as error:
        if len(settings.catalogs) != 1 or not settings.catalogs[0].endswith(".jsonl"):
            raise
        catalog = Catalog.of(read_tools(Path(settings.catalogs[0])), check_schemas=False)
        first, *more = str(error).splitlines()
        others = f" (and {len(more)} more)" if more else ""
        note(f"a server would refuse this catalog: {first}{others}; it is measured nevertheless")
        return catalog


class _Hints(msgspec.Struct):
    """A line of a file of hints."""

    name: str
    hints: tuple[str, ...]


def read_hints(path: Path, catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """Returns the hints of a file that `eval misses --write` wrote. Raises `ConfigError` with the wrong line."""
    hints: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry = msgspec.json.decode(line, type=_Hints)
        except msgspec.DecodeError as error:
            raise ConfigError(f'{path}, line {number}: {error}; write {{"name": "...", "hints": ["..."]}}') from error
        if catalog.position(entry.name) is None:
            raise ConfigError(f"{path}, line {number}: the catalog has no tool {entry.name!r}")
        hints[entry.name] = entry.hints
    return hints


# --- the log ----------------------------------------------------------------------------------------------------------


async def log_of(settings: Settings, limit: int) -> Log:
    """Returns the recorded runs. Raises `ConfigError` if there are none."""
    async with existing_or_empty(settings) as database:
        with progress("reading the log") as report_progress:
            log = await read_log(database.events, limit=limit, on_progress=report_progress)
    if log.unread:
        note(f"recorded runs that could not be read and are omitted: {log.unread}")
    if not log.runs:
        raise ConfigError(
            f"{settings.database_url} holds no run that selected tools; runs are recorded by `toolcaddie run`, `chat` and "
            "`serve`, or name another database with --database-url"
        )
    return log


# --- progress ---------------------------------------------------------------------------------------------------------


@contextmanager
def waiting(activity: str) -> Iterator[None]:
    """Shows a spinner on stderr, if stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(activity):
        yield


finders = partial(measuring.finders, waiting=waiting, note=note)
"""Opens the finders of configurations, with spinners and remarks on stderr."""
