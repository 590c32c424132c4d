"""The text output of `toolcaddie eval`: figures with their intervals, bars, and comparisons in words."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import print_table
from toolcaddie.doors.texts import counted
from toolcaddie.evaluation.assess import Assessed, Compared
from toolcaddie.evaluation.fit import DEPTHS, Fitted, fragment
from toolcaddie.evaluation.floor import FittedFloor
from toolcaddie.evaluation.metrics import Estimate

_WIDTH = 40
"""Number of characters of a full bar."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
"""A character for each number of eighths by which it is filled, 0 to 7."""
_COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red")
_ENOUGH = 20
"""The smallest number of independent requests for which an interval can be trusted."""
_CURVE = (1, 2, 3, 5, 10, 20)
"""The depths (numbers of places) at which bars show the recall."""


def print_assessed(assessed: Sequence[Assessed], comparisons: Sequence[Compared], *, at: int) -> None:
    """Prints all figures of configurations that were measured on the same requests. `at`: the number of places of the recall in
    the table."""
    first = assessed[0]
    none_fits = len(first.requests) - len(first.fitting)
    groups = len({request.group for request in first.requests})
    apart = f", {groups:,} independent" if groups < len(first.requests) else ""
    echo(
        f"{counted(len(first.catalog), 'tool')}, {counted(len(first.requests), 'request')}{apart}"
        + (f"; no tool fits {none_fits:,} of them" if none_fits else "")
    )
    echo()
    columns = ("configuration", f"recall@{at}", "complete@10", "ndcg@10", "recall@sent", "tokens", "p50 ms", "p99 ms")
    rows = [
        (
            configuration.name,
            with_margin(configuration.recall_curve()[at - 1]),
            with_margin(configuration.metrics["complete@10"]),
            with_margin(configuration.metrics["ndcg@10"]),
            with_margin(configuration.metrics["recall@sent"]),
            f"{configuration.tokens.value:,.0f}",
            f"{configuration.latency_ms['p50'].value:.2f}",
            f"{configuration.latency_ms['p99'].value:.2f}",
        )
        for configuration in assessed
    ]
    print_table(columns, rows, right=columns[1:], spare=("ndcg@10", "complete@10", "p50 ms"))
    if groups < _ENOUGH:
        echo(f"{counted(groups, 'independent request')}: too few for an interval to be trusted")
    echo()
    _print_bars(assessed)
    echo()
    _print_costs(assessed)
    _print_no_fit(assessed)
    if comparisons:
        echo()
        print_comparisons(comparisons)


def with_margin(estimate: Estimate) -> str:
    """Returns `0.842 ±0.013`: the value, and half the width of its interval, which is almost symmetric around the value."""
    return f"{estimate.value:.3f} ±{(estimate.high - estimate.low) / 2:.3f}"


def between(estimate: Estimate, *, sign: bool = False) -> str:
    """Returns the value with its interval: `0.842 [0.829, 0.855]`. `sign`: True for a plus sign, as a difference needs it."""
    form = "+.3f" if sign else ".3f"
    return f"{estimate.value:{form}} [{estimate.low:{form}}, {estimate.high:{form}}]"


def print_comparisons(comparisons: Sequence[Compared]) -> None:
    """Prints one line per comparison: the difference with its interval, and the verdict in words."""
    widest = max(len(comparison.metric) for comparison in comparisons)
    for comparison in comparisons:
        echo(f"{comparison.metric:<{widest}}  {between(comparison.difference, sign=True)}  {comparison.verdict}")


def print_fitted(fit: Fitted) -> None:
    """Prints what weights fitted to the requests gain, and the weights themselves if the gain is beyond chance."""
    depths = ", ".join(map(str, DEPTHS))
    echo(f"\nmean recall at {depths} with the present weights: {between(fit.before)}")
    echo(f"with weights fitted to other requests: {between(fit.after)}, {between(fit.gain, sign=True)}")
    echo(f"in recall@5: {between(fit.recall, sign=True)}")
    if not fit.recommended:
        echo("that is no gain beyond chance: keep the present weights")
        return
    echo("put this into toolcaddie.toml:\n")
    echo(fragment(fit.weights), nl=False)


def print_floor(fit: FittedFloor) -> None:
    """Prints the fitted floor, the score below which a selection reports that no tool fits, and its effect."""
    echo(
        f"a floor of {fit.floor:.4g} would reject {between(fit.false_nothing)} of the requests that some tool fits, and "
        f"{between(fit.caught)} of the other requests:\n\n[selection]\nnothing_fits = {fit.floor:.4g}"
    )


def bar(share: float, width: int = _WIDTH) -> str:
    """Returns a bar for a share from 0 to 1. The full bar has `width` characters; its end is drawn in eighths of a character."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, remainder = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[remainder] if remainder else "")).ljust(width)


def _print_bars(assessed: Sequence[Assessed]) -> None:
    """Prints the recall at several depths as bars. The bars of all configurations at one depth are below each other."""
    curves = [configuration.recall_curve() for configuration in assessed]
    names = max(len(configuration.name) for configuration in assessed) if len(assessed) > 1 else 0
    for k in _CURVE:
        for number, (configuration, curve) in enumerate(zip(assessed, curves, strict=True)):
            head = f"recall@{k:<3}" if number == 0 else " " * 10
            name = f"{configuration.name:<{names}} " if names else ""
            echo(f"{head} {name}", nl=False)
            echo(bar(curve[k - 1].value), nl=False, fg=_COLOURS[number % len(_COLOURS)])
            echo(f" {curve[k - 1].value:.3f}")


def _print_costs(assessed: Sequence[Assessed]) -> None:
    """Prints the tokens of the definitions that each configuration sends."""
    for configuration in assessed:
        whole = configuration.tokens_all
        share = f", {configuration.tokens.value / whole:.0%} of the {whole:,} of all definitions" if whole else ""
        echo(f"{configuration.name}: {configuration.tokens.value:,.0f} tokens of definitions per request{share}")


def _print_no_fit(assessed: Sequence[Assessed]) -> None:
    """Prints how well each configuration recognizes requests that no tool fits; it rejects a request if it says that no tool
    fits."""
    for configuration in assessed:
        lines = []
        if configuration.no_fit.auroc is not None:
            lines.append(f"requests that no tool fits are recognized with AUROC {between(configuration.no_fit.auroc)}")
        if configuration.no_fit.caught is not None:
            lines.append(f"it rejects {configuration.no_fit.caught.value:.1%} of the requests that no tool fits")
        if configuration.no_fit.false_nothing is not None:
            lines.append(
                f"it rejects {configuration.no_fit.false_nothing.value:.1%} of the requests that some tool fits"
            )
        echo(f"{configuration.name}: {'; '.join(lines)}")
