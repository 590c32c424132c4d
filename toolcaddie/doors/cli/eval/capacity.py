"""`toolcaddie eval capacity`: computes the machines that a number of requests a minute needs, and shows what is used up first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from toolcaddie.app.settings.load import age_seconds
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import json_option, print_json, print_table
from toolcaddie.doors.texts import counted
from toolcaddie.evaluation.capacity.constants import Constants, read_constants, shipped_constants
from toolcaddie.evaluation.capacity.load import Load, Site
from toolcaddie.evaluation.capacity.plan import Plan, plan

MOST_REQUESTS = 100_000_000
_DAY = 86_400
_SHARE = click.FloatRange(0, 1)
_DEFAULT_LOAD, _DEFAULT_SITE = Load(requests_per_minute=0), Site()

_LOAD_OPTIONS = (
    ("calls", click.FloatRange(0, 1_000), "Calls of tools in a run."),
    ("writing", _SHARE, "Share of calls that change something."),
    ("passed", _SHARE, "Share of requests that are passed on without the catalog's tools."),
    ("streaming", _SHARE, "Share of runs whose answer is streamed."),
    ("keyed", _SHARE, "Share of runs with an idempotency key."),
    ("tools", click.IntRange(0, 1_000_000), "Tools in the catalog."),
    ("tenants", click.IntRange(1, 10_000_000), "Tenants."),
    ("average", click.FloatRange(0, 1, min_open=True), "Mean rate of a day, as a share of the busiest minute."),
)
_SITE_OPTIONS = (
    ("utilisation", click.FloatRange(0.05, 0.95), "Share of each resource to use in the busiest minute."),
    ("server_cores", click.IntRange(1, 1_024), "Cores of a machine with servers."),
    ("database_cores", click.IntRange(1, 1_024), "Cores of a machine with PostgreSQL."),
    ("network_ms", click.FloatRange(0, 1_000), "Round trip from a server to PostgreSQL, in milliseconds."),
    ("iops", click.FloatRange(0, min_open=True), "Writes a second of PostgreSQL's disk."),
    ("disk_mb", click.FloatRange(0, min_open=True), "Megabytes a second of PostgreSQL's disk."),
    ("max_connections", click.IntRange(1), "Connections that one PostgreSQL is given."),
)


def _options(
    options: Sequence[tuple[str, click.ParamType[Any], str]], defaults: Load | Site
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator that adds an option for each field of a load or a site."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        for name, kind, text in reversed(options):
            option = click.option(
                f"--{name.replace('_', '-')}", type=kind, default=getattr(defaults, name), show_default=True, help=text
            )
            function = option(function)
        return function

    return add


@click.command(
    name="capacity",
    epilog="\b\nExamples:\n"
    "  toolcaddie eval capacity --requests-per-minute 12000 --calls 2 --keep 90d\n"
    "  toolcaddie eval capacity --requests-per-minute 1000000 --passed 0.5 --json",
)
@click.option(
    "--requests-per-minute",
    required=True,
    type=click.FloatRange(0, MOST_REQUESTS, min_open=True),
    help="Requests of the busiest minute.",
)
@click.option("--rounds", type=click.FloatRange(1, 1_000), help="Answers of the model in a run. [default: calls + 1]")
@click.option(
    "--keep", default="90d", show_default=True, metavar="AGE", help="Time for which runs are kept: 12h, 90d, 8w."
)
@_options(_LOAD_OPTIONS, _DEFAULT_LOAD)
@_options(_SITE_OPTIONS, _DEFAULT_SITE)
@click.option(
    "--constants",
    "constants_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Costs that were measured on your machine. [default: those that ship]",
)
@json_option
def capacity(
    requests_per_minute: float,
    rounds: float | None,
    keep: str,
    constants_file: Path | None,
    as_json: bool,
    **values: Any,
) -> None:
    """Show the machines that a load needs, and what is used up first."""
    # Options of `eval` may also precede the subcommand: `toolcaddie eval --json capacity`.
    parent = click.get_current_context().parent
    as_json = as_json or bool(parent and parent.params.get("as_json"))
    keep_seconds = age_seconds(keep)
    if keep_seconds is None:
        raise ConfigError("--keep off keeps everything, which no disk is enough for; write an age such as 90d")
    constants = read_constants(constants_file) if constants_file else shipped_constants()
    load = Load(
        requests_per_minute=requests_per_minute,
        rounds=values["calls"] + 1 if rounds is None else rounds,
        keep_days=keep_seconds / _DAY,
        **{name: values[name] for name, *_ in _LOAD_OPTIONS},
    )
    result = plan(load, constants, Site(**{name: values[name] for name, *_ in _SITE_OPTIONS}))
    if as_json:
        print_json(
            {**msgspec.to_builtins(result), "constants": {"command": constants.command, "machine": constants.machine}}
        )
    else:
        _print(load, result, constants)


def _print(load: Load, result: Plan, constants: Constants) -> None:
    echo(
        f"{load.requests_per_minute:,.0f} requests a minute ({load.per_second:,.0f} a second), {load.calls:g} calls in a run, "
        f"{counted(load.tools, 'tool')}, {counted(load.tenants, 'tenant')}, kept for {load.keep_days:g} days"
    )
    echo()
    each = " each" if result.databases > 1 else ""
    held = f"{constants.connections} of each process, for as long as it runs"
    used = f"{result.server_utilisation:.0%} used, {result.server_ms:.2f} ms of CPU a request"
    trail = f"{result.rows_per_second:,.0f} rows a second; its lock is held {result.lock_utilisation:.0%} of the time"
    commits = f"commits, of {result.rows_per_commit:.0f} rows"
    rows = (
        ("processes of servers", f"{result.processes:,}", used),
        ("machines for them", f"{result.machines:,}", f"{result.process_mb:,.0f} MB of memory a process"),
        ("databases", f"{result.databases:,}", _split(load, result)),
        (f"cores of PostgreSQL{each}", f"{result.database_cores:,}", f"{result.database_ms:.2f} ms of CPU a request"),
        (f"connections{each}", f"{result.connections:,}", held),
        (f"disk{each}", _bytes(result.disk_bytes), "tables and indexes of the runs that are kept, at the mean rate"),
        (f"writes to disk a second{each}", f"{result.disk_writes_per_second:,.0f}", commits),
        (f"MB to disk a second{each}", f"{result.disk_mb_per_second:,.1f}", "PostgreSQL's log, and the tables"),
        (f"use of the trail{each}", f"{result.trail_utilisation:.0%}", trail),
        ("added latency", f"{result.p50_ms:,.1f} ms", f"p99 {result.p99_ms:,.1f} ms; without the model and the tools"),
    )  # fmt: skip
    print_table(("needed", "", "about it"), rows, right=("",))
    echo()
    ceilings = [
        (f"{ceiling.requests_per_minute:,.0f}", ceiling.resource, ceiling.remedy) for ceiling in result.ceilings
    ]
    print_table(("requests a minute", "use up one", "then add"), ceilings, right=("requests a minute",))
    echo()
    echo(
        f"Costs: {constants.command}, on {constants.machine}. Yours differ: measure them there, and give them with --constants."
    )


def _split(load: Load, result: Plan) -> str:
    if result.databases == 1:
        return "one trail"
    if result.databases > load.tenants:
        return f"with more databases than tenants ({load.tenants:,}), a tenant's runs are spread over several trails"
    return "each with its own servers, and some of the tenants"


def _bytes(amount: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1_000:
            return f"{amount:,.0f} {unit}" if amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1_000
    return f"{amount:,.1f} PB"
