"""`toolcaddie eval`: measures how well a configuration finds the tools of labelled requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from toolcaddie.app.measuring import Configuration
from toolcaddie.app.measuring_process import Measurement
from toolcaddie.app.settings import Settings
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.eval.chart import print_assessed, print_fitted, print_floor
from toolcaddie.doors.cli.eval.parts import (
    configurations,
    evaluated_catalog,
    finders,
    limit_option,
    log_of,
    read_hints,
    signals_choice,
    waiting,
)
from toolcaddie.doors.cli.eval.queued import hand_in
from toolcaddie.doors.cli.failure import CommandFailed
from toolcaddie.doors.cli.options import catalog_option, database_option, preset_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json
from toolcaddie.doors.cli.progress import progress
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import counted
from toolcaddie.evaluation.assess import Assessed, assess
from toolcaddie.evaluation.datasets import LabelledRequest, read_requests
from toolcaddie.evaluation.finder import PresetFinder
from toolcaddie.evaluation.fit import Fitted, by_selection, fitted, fragment
from toolcaddie.evaluation.floor import FittedFloor
from toolcaddie.evaluation.measure import DEPTH
from toolcaddie.evaluation.recorded import labelled
from toolcaddie.evaluation.records import checked_requests, comparisons_of, evaluation_record, interval_of, rounded
from toolcaddie.evaluation.report import html_report

_DEFAULT_AT = 5
_LONGEST_SECONDS = 86_400.0
"""Seconds after which a server ends an evaluation that was handed in."""


@click.group(
    name="eval",
    invoke_without_command=True,
    epilog="\b\nExamples:\n"
    "  toolcaddie eval --catalog tools.jsonl --queries queries.jsonl\n"
    "  toolcaddie eval --catalog gym --log --min-recall 0.95\n"
    "  toolcaddie eval --catalog gym --log --signals lexical --signals embedding\n"
    "  toolcaddie eval --catalog gym --log --compare keyword --report report.html\n"
    "  toolcaddie eval --catalog gym --log --fit --write weights.toml\n"
    "  toolcaddie eval --catalog gym --log --queue\n"
    "  toolcaddie eval usage",
)
@catalog_option
@click.option(
    "--queries",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Labelled requests, one JSON object a line: {"query": ..., "history": [...], "gold": [...]}.',
)
@click.option(
    "--log", "from_log", is_flag=True, help="Use the requests of the trail; the tools that were called count as right."
)
@click.option(
    "--train",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Labelled requests that a memory learns from before the measurement, in the form of --queries.",
)
@click.option(
    "--signals",
    type=signals_choice,
    multiple=True,
    help="Group of rankers that selects the tools. Can be repeated, to compare groups.",
)
@click.option(
    "--compare", "others", metavar="PRESET|FILE", multiple=True, help="A preset or settings file to compare with."
)
@click.option(
    "--hints",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of `eval misses --write`: also measure the first configuration with these hints.",
)
@preset_option
@click.option(
    "--at",
    type=click.IntRange(1, DEPTH),
    default=_DEFAULT_AT,
    show_default=True,
    help="Number of places that count for the recall.",
)
@click.option(
    "--min-recall", type=click.FloatRange(0, 1), help="Exit with 1 if the recall of the first configuration is lower."
)
@click.option("--fit", is_flag=True, help="Search for better weights of the rankers, and show what they gain.")
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the settings that --fit recommends to this file.",
)
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), help="Write a report with plots to this .html file."
)
@click.option("--queue", is_flag=True, help="Hand it to the servers of the database instead of measuring here.")
@limit_option
@database_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    catalogs: tuple[str, ...],
    queries: Path | None,
    from_log: bool,
    train: Path | None,
    signals: tuple[str, ...],
    others: tuple[str, ...],
    hints: Path | None,
    preset: str | None,
    at: int,
    min_recall: float | None,
    fit: bool,
    write: Path | None,
    report: Path | None,
    queue: bool,
    limit: int,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Measure how well tools are selected."""
    if ctx.invoked_subcommand is not None:
        return
    if (queries is None) is not from_log:
        raise click.UsageError("give labelled requests: --queries FILE, or --log for those of the trail")
    if write is not None and not fit:
        raise click.UsageError("--write goes with --fit")
    if queue and (fit or train or report or min_recall is not None):
        raise click.UsageError("--queue goes without --fit, --train, --report and --min-recall")
    common = ctx.find_object(Common) or Common()
    settings = settings_of(common, catalogs=catalogs, preset=preset, database_url=database_url)
    configured = configurations(settings, signals, others)
    catalog = evaluated_catalog(settings)
    if hints is not None:
        added = read_hints(hints, catalog)
        configured.insert(
            1, Configuration(name=f"{configured[0].name}+hints", settings=configured[0].settings, hints=added)
        )
    if queue:
        hand_in(settings, _measurement(configured, catalog, queries, at, limit), as_json=as_json)
        return
    requests = read_requests(queries) if queries is not None else _logged(settings, catalog, limit)
    _check(requests, catalog, origin=str(queries or "the log"))
    training = read_requests(train) if train is not None else ()
    assessed, weights = asyncio.run(_assessed(configured, catalog, requests, training, fit=fit))
    comparisons = comparisons_of(assessed, at)
    record = evaluation_record(assessed, comparisons, catalog, requests, at)
    if weights is not None:
        record["fit"] = _fit_json(weights, assessed[0].floor())
    if report is not None:
        _write(report, html_report(assessed, comparisons, title=_title(queries, settings)))
    if as_json:
        print_json(record)
    else:
        print_assessed(assessed, comparisons, at=at)
        if weights is not None:
            print_fitted(weights)
            if (floor := assessed[0].floor()) is not None:
                print_floor(floor)
        if report is not None:
            note(f"wrote {report}")
    if write is not None and weights is not None:
        _write_weights(write, weights, assessed[0].floor())
    if min_recall is not None:
        _gate(assessed[0], at, min_recall)


def _measurement(
    configured: Sequence[Configuration], catalog: Catalog, queries: Path | None, at: int, limit: int
) -> Measurement:
    """Returns what a server is to measure. `queries` None: the requests are those of the trail."""
    if queries is not None:
        _check(read_requests(queries), catalog, origin=str(queries))
    return Measurement(
        configurations=tuple(configured),
        tools=tuple(catalog.tools),
        categories=tuple(catalog.categories),
        requests=None if queries is None else queries.read_bytes(),
        tenant=None,
        most=limit,
        runs=limit,
        at=at,
        seconds=_LONGEST_SECONDS,
    )


async def _assessed(
    configured: Sequence[Configuration],
    catalog: Catalog,
    requests: Sequence[LabelledRequest],
    training: Sequence[LabelledRequest],
    *,
    fit: bool,
) -> tuple[list[Assessed], Fitted | None]:
    """Returns the figures of all configurations. With `fit`, it also returns weights that fit the first configuration. Each
    configuration first learns from the requests of `training`."""
    async with finders(configured, catalog, requests, training) as open_finders:
        measured = []
        for finder in open_finders:
            with progress(finder.name) as report_progress:
                measured.append(assess(finder, requests, on_progress=report_progress))
        return measured, _fitted(open_finders[0], requests) if fit else None


def _fitted(finder: PresetFinder, requests: Sequence[LabelledRequest]) -> Fitted:
    """Returns weights of the rankers that fit the requests. Raises `ConfigError` if there are too few requests."""
    with progress("the scores of each ranker") as report_progress:
        cases, start = finder.cases(requests, on_progress=report_progress)
    try:
        with waiting("looking for weights"):
            return fitted(cases, by_selection, start)
    except ValueError as error:
        raise ConfigError(f"--fit: {error}") from error


def _fit_json(weights: Fitted, floor: FittedFloor | None) -> dict[str, Any]:
    """Returns the JSON of `--fit`. `floor`: the score of the best tool below which no tool fits a request; None: there are too
    few requests to fit one."""
    return {
        "nothing_fits": None if floor is None else rounded(floor.floor),
        "nothing_fits_false": None if floor is None else rounded(floor.false_nothing.value),
        "nothing_fits_caught": None if floor is None else rounded(floor.caught.value),
        "recommended": weights.recommended,
        "weights": weights.weights,
        "start": weights.start,
        "before": rounded(weights.before.value),
        "after": rounded(weights.after.value),
        "gain": rounded(weights.gain.value),
        "gain_interval": interval_of(weights.gain),
        "recall@5_gain": rounded(weights.recall.value),
        "recall@5_interval": interval_of(weights.recall),
        "requests": weights.requests,
        "folds": weights.folds,
        "toml": fragment(weights.weights) if weights.recommended else None,
    }


def _write_weights(path: Path, weights: Fitted, floor: FittedFloor | None) -> None:
    """Writes the weights, if they are recommended, and the floor, if there is one, as settings."""
    text = "" if floor is None else f"[selection]\nnothing_fits = {floor.floor:.4g}\n"
    if weights.recommended:
        text += ("\n" if text else "") + fragment(weights.weights)
    if not text:
        note(f"{path} is not written: no weights gain beyond chance, and there are too few requests to fit a floor")
        return
    _write(path, text)
    note(f"wrote {path}; put it into toolcaddie.toml")


def _logged(settings: Settings, catalog: Catalog, limit: int) -> list[LabelledRequest]:
    """Returns the recorded requests, each with the tools that its run called as the right ones. Raises `ConfigError` if no run
    called a tool of the catalog."""
    log = asyncio.run(log_of(settings, limit))
    requests = labelled(log.runs, catalog)
    if not requests:
        raise ConfigError(
            f"of {len(log.runs)} recorded runs none called a tool of this catalog, so nothing says which tools were right"
        )
    unlabelled = len(log.runs) - len(requests)
    note(
        f"{counted(len(requests), 'recorded request')}; the tools that were called count as right, which favours the tools that "
        "were sent" + (f"; {counted(unlabelled, 'run')} without a call omitted" if unlabelled else "")
    )
    return requests


def _check(requests: Sequence[LabelledRequest], catalog: Catalog, *, origin: str) -> None:
    """Raises `ConfigError` if nothing can be measured with these requests, and prints a remark if the catalog lacks some of their
    right tools. `origin`: the file of the requests, or "the log"."""
    unknown = checked_requests(requests, catalog, origin=origin)
    if unknown:
        note(
            f"not in the catalog, so counted as not found: {counted(len(unknown), 'right tool')}: {', '.join(unknown[:5])}"
        )


def _gate(first: Assessed, at: int, least: float) -> None:
    """Raises `CommandFailed` if the recall of the first configuration at `at` places is below `least`."""
    recall = sum(first.values(f"recall@{at}")) / len(first.fitting)
    if recall < least:
        raise CommandFailed(f"recall@{at} of {first.name} is {recall:.4f}, below --min-recall {least:g}")
    note(f"recall@{at} of {first.name} is {recall:.4f}, at least {least:g}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}; name another file") from error


def _title(queries: Path | None, settings: Settings) -> str:
    """Returns the title of the report: the source of the requests and the catalogs."""
    catalogs = ", ".join(Path(spec).name if spec.endswith(".jsonl") else spec for spec in settings.catalogs)
    return f"{queries.name if queries else 'the log'} on {catalogs}"
