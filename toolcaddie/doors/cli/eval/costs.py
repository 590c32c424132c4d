"""`toolcaddie eval costs`: simulates conversations and shows their costs by strategy (a way of sending tools) and price rule (the
prices of a model and the rules of its prompt cache).

The strategy `planned` is that of Toolcaddie's planner, which chooses the cheapest way for each request. It is compared with all
others. The benchmarks use `print_reports` and `sample` too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from toolcaddie.app.models import likely_provider
from toolcaddie.app.settings import Settings
from toolcaddie.core.capabilities import CAPABILITIES
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.eval.parts import evaluated_catalog
from toolcaddie.doors.cli.options import catalog_option, settings_of
from toolcaddie.doors.cli.output import json_option, print_json, print_table
from toolcaddie.doors.cli.progress import progress
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import counted
from toolcaddie.evaluation.simulation.billing import PriceRule
from toolcaddie.evaluation.simulation.costs import (
    DEFAULT_RULES,
    GOAL_KEPT,
    GOAL_MEDIAN,
    GOAL_MISSED,
    GOAL_P95,
    PLANNED,
    STRATEGIES,
    CostReport,
    StrategyCosts,
    overall,
)
from toolcaddie.evaluation.simulation.scripts import MOST_GENERATED, TUNING_SEED, TURNS
from toolcaddie.evaluation.simulation.simulator import Simulation, needs_interpreter, simulate
from toolcaddie.programs.named import monty
from toolcaddie.util.suggest import close_names

SAMPLE, SAMPLE_SIZE = "gym", 137
"""The sample catalog and its number of tools. It replaces the generated catalog of that size, because its tools were written by
hand."""

SIZES = (40, SAMPLE_SIZE, 500, 5_000)

_MANY = 2
"""The smallest number of tables for which a summary is printed."""

ASSUMED = (
    f"Assumed: scripted conversations of {TURNS} turns, tokens estimated from the size of a request, the list prices of the "
    "capability table, a model that calls a needed tool once it is shown, and no provider that refuses so many tools. A needed "
    "tool that was not called is a miss; a strategy with more misses than the planner never counts as the cheapest."
)


class _List(click.ParamType[tuple[Any, ...]]):
    """The type of an option whose value is a list of values of one type, separated by commas."""

    name = "list"

    def __init__(self, item_type: click.ParamType[Any]) -> None:
        self.item_type = item_type

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        if isinstance(value, tuple):
            return value
        words = [word.strip() for word in str(value).split(",") if word.strip()]
        if not words:
            self.fail("name at least one", param, ctx)
        return tuple(dict.fromkeys(self.item_type.convert(word, param, ctx) for word in words))


class _Size(click.IntRange):
    """The type of an option whose value is a number of tools."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if not str(value).isdecimal():
            self.fail(
                f"{value!r} is not a number of tools; write numbers from {self.min} to {self.max}, separated by commas"
            )
        return int(super().convert(value, param, ctx))


@click.command(
    name="costs",
    epilog="\b\nExamples:\n"
    "  toolcaddie eval costs --sizes 40,500 --scripts 10\n"
    "  toolcaddie eval costs --catalog tools.jsonl --rules openai:gpt-5.4\n"
    "  toolcaddie eval costs --strategies compact,planned --json",
)
@catalog_option
@click.option(
    "--sizes",
    type=_List(_Size(1, MOST_GENERATED)),
    help=f"Sizes of the catalogs in tools, separated by commas; {SAMPLE_SIZE} is the gym. "
    f"[default: {','.join(map(str, SIZES))}, or none with --catalog]",
)
@click.option(
    "--rules",
    type=_List(click.STRING),
    metavar="MODELS",
    help="Models whose prices are used, as provider:model, separated by commas. [default: one of each price rule]",
)
@click.option(
    "--strategies",
    type=_List(click.Choice(sorted(STRATEGIES))),
    metavar="NAMES",
    default=",".join(STRATEGIES),
    show_default=True,
    help="Ways of sending tools, separated by commas.",
)
@click.option("--scripts", type=click.IntRange(min=1), default=20, show_default=True, help="Number of conversations.")
@click.option(
    "--seed",
    type=int,
    default=TUNING_SEED,
    show_default=True,
    help="Seed of the conversations; another seed makes other conversations.",
)
@json_option
@click.pass_context
def costs(
    ctx: click.Context,
    catalogs: tuple[str, ...],
    sizes: tuple[int, ...] | None,
    rules: tuple[str, ...] | None,
    strategies: tuple[str, ...],
    scripts: int,
    seed: int,
    as_json: bool,
) -> None:
    """Show the cost of conversations, by strategy and price rule."""
    # Options of `eval` may also precede the subcommand: `toolcaddie eval --json costs`.
    as_json = as_json or bool(ctx.parent and ctx.parent.params.get("as_json"))
    catalogs = catalogs or (ctx.parent.params.get("catalogs", ()) if ctx.parent else ())
    common = ctx.find_object(Common) or Common()
    settings = settings_of(common, catalogs=catalogs)
    missing = _without_interpreter(strategies)
    if missing and ctx.get_parameter_source("strategies") is not ParameterSource.DEFAULT:
        raise ConfigError(f"--strategies: {missing}")
    if missing:
        strategies = tuple(name for name in strategies if not needs_interpreter(name))
        echo(f"Left out: {missing}\n", err=True)
    simulation = Simulation(
        catalogs=_catalogs(settings, catalogs, sizes),
        models=tuple(map(_priced_model, rules or DEFAULT_RULES)),
        strategies=strategies,
        scripts=scripts,
        seed=seed,
    )
    with progress("having conversations") as report_progress:
        reports = simulate(simulation, on_progress=report_progress)
    if as_json:
        totals = msgspec.to_builtins(overall(reports))
        head = {"scripts": scripts, "seed": seed, "assumed": ASSUMED, "overall": totals}
        if missing:
            head["left_out"] = missing
        print_json({**head, "reports": msgspec.to_builtins(reports)})
        return
    print_reports(reports, scripts)


def _without_interpreter(strategies: Sequence[str]) -> str:
    """Returns a sentence about the strategies that need an interpreter, if there is none; an empty text if nothing is missing."""
    needing = [name for name in strategies if needs_interpreter(name)]
    try:
        monty()
    except ConfigError as error:
        return f"{' and '.join(needing)}: {error}" if needing else ""
    return ""


def _priced_model(model: str) -> str:
    """Returns the model if it has a price. Raises `ConfigError`, which names the model that was probably meant."""
    advice = f"such as {', '.join(DEFAULT_RULES)}"
    try:
        rule = PriceRule.of(model)
    except ConfigError as error:
        provider, _, name = model.rpartition(":")
        priced = {row.pattern.rpartition(":")[2].rstrip("*-") for row in CAPABILITIES if row.prices is not None}
        close = close_names(name, [*(rule.rpartition(":")[2] for rule in DEFAULT_RULES), *priced], limit=1)
        if close:
            advice = f"did you mean {likely_provider(close[0]) or provider or 'provider'}:{close[0]}?"
        raise ConfigError(f"--rules: {error}; {advice}") from error
    if not rule.prices.input:
        raise ConfigError(
            f"--rules: {model} is free, so its costs cannot be compared; name a model with a price, {advice}"
        )
    return rule.model


def _catalogs(settings: Settings, specs: tuple[str, ...], sizes: Sequence[int] | None) -> tuple[Catalog | int, ...]:
    """Returns the catalog of `--catalog`, if it is used, and the sizes of the catalogs that the simulation generates."""
    catalogs: list[Catalog | int] = [evaluated_catalog(settings)] if specs else []
    if sizes is None:
        sizes = () if specs else SIZES
    return (*catalogs, *(sample() if size == SAMPLE_SIZE else size for size in sizes))


def sample() -> Catalog:
    """Returns the catalog of the gym."""
    return evaluated_catalog(Settings(catalogs=(SAMPLE,)))


def print_reports(reports: Sequence[CostReport], scripts: int) -> None:
    """Prints a table for each price rule and catalog, then the assumptions and the totals. `scripts`: the number of
    conversations."""
    for report in reports:
        _print_report(report, scripts)
    echo(f"{ASSUMED}\n")
    _print_summary(reports)
    if len(reports) > 1 and (total := overall(reports)) is not None:
        echo(
            f"Everything together: {PLANNED} costs {total.median:.3f} times the cheapest other strategy (median; goal: at most "
            f"{GOAL_MEDIAN}), in one of twenty conversations {total.p95:.3f} times or more (goal: at most {GOAL_P95}); "
            f"sums: {_sums(total.beaten)} (goal: below 1 of each)"
        )
        echo(
            f"{total.met} of {total.of} tables meet the goals for the median, for one of twenty, for the sums, and for needed "
            f"tools that are never called (at most {GOAL_MISSED:.1%})"
        )
        if total.least_prefix_kept is not None:
            echo(
                f"Smallest share of the prompt's prefix that stayed the same while no tools were added: "
                f"{total.least_prefix_kept:.1%} (goal: at least {GOAL_KEPT:.0%})"
            )


def _print_summary(reports: Sequence[CostReport]) -> None:
    """Prints for each size of a catalog the costs of `planned` divided by those of every other strategy, summed over all price
    rules."""
    sizes: dict[int, list[CostReport]] = {}
    for report in reports:
        sizes.setdefault(report.tools, []).append(report)
    totals = {size: overall(group) for size, group in sizes.items()}
    shares = {size: total.beaten for size, total in totals.items() if total is not None}
    names = list(dict.fromkeys(name for beaten in shares.values() for name in beaten))
    if len(reports) < _MANY or not shares:
        return
    echo(
        f"In short: the costs of {PLANNED} divided by those of each other strategy, by catalog size, all price rules together"
    )
    rows = [
        (f"{size:,}", *(f"{beaten[name]:.3f}" if name in beaten else "" for name in names))
        for size, beaten in sorted(shares.items())
    ]
    columns = ("tools", *names)
    print_table(columns, rows, right=columns)
    echo()


def _print_report(report: CostReport, scripts: int) -> None:
    """Prints the table of one catalog and price rule: a row for each strategy, then `planned` compared with the others."""
    echo(f"{counted(report.tools, 'tool')}, {report.model}, {counted(scripts, 'conversation')}")
    columns = (
        "strategy",
        "tokens",
        "$",
        "$ together",
        "read",
        "misses",
        "extra requests",
        "prefix kept",
        "after reveal",
    )
    print_table(
        columns, [_row(row_costs) for row_costs in report.strategies], right=columns[1:], spare=("after reveal", "read")
    )
    if (comparison := report.comparison) is not None:
        echo(
            f"{PLANNED} costs {comparison.median:.2f} times the cheapest other strategy (median of the conversations), in one of "
            f"twenty {comparison.p95:.2f} times or more; all together {_sums(comparison.beaten)}"
        )
    echo()


def _row(costs: StrategyCosts) -> tuple[str, ...]:
    """Returns the cells of one strategy, in the order of the columns of `_print_report`."""
    return (
        costs.strategy,
        f"{costs.median_tokens:,.0f}",
        f"{costs.median_dollars:.4f}",
        f"{costs.dollars:.3f}",
        f"{costs.read:.0%}",
        f"{costs.misses:,} of {costs.needs:,}",
        f"{costs.extra:,}",
        _percent(costs.prefix_kept),
        _percent(costs.prefix_kept_after_reveal),
    )


def _sums(beaten: Mapping[str, float]) -> str:
    """Returns the costs of `planned` divided by those of each other strategy: `0.812 of all, 0.950 of fresh`."""
    return ", ".join(f"{share:.3f} of {name}" for name, share in beaten.items())


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


__all__ = ["SAMPLE_SIZE", "SIZES", "costs", "print_reports", "sample"]
