"""The HTML page of `toolcaddie eval --report`: first figures, then plots, then the requests that were served worst."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolcaddie.evaluation.assess import Assessed, Compared, Outcome
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.evaluation.metrics import Estimate, mean_of, recall
from toolcaddie.evaluation.report.markup import escape
from toolcaddie.evaluation.report.style import CSS
from toolcaddie.evaluation.report.svg import Row, Series, Whisker, bars, dots, lines

WORST = 25
"""Largest number of worst-served requests in the report."""

_CATEGORIES = 20
"""Largest number of categories in the plot of categories."""
_METRICS = ("recall@1", "recall@3", "recall@5", "recall@10", "complete@5", "complete@10", "ndcg@10", "recall@sent")
_TOOLS = 5
"""Number of ranked tools shown for a worst-served request."""
_TEXT = 400
"""Largest number of characters shown of a message."""
_BINS = 20
"""Number of bins of a histogram."""
_LEAST_IN_BIN = 5
"""Smallest number of requests in a part of the plot of fits; with few requests there are fewer parts than ten."""
_NO_SCRIPT = "default-src 'none'; style-src 'unsafe-inline'"


def html_report(assessed: Sequence[Assessed], comparisons: Sequence[Compared] = (), *, title: str) -> str:
    """Returns one HTML file without scripts and network access, readable in light and dark mode.

    Each `Assessed` is the result of one configuration. The detailed sections are about the first one. Every name and text is
    escaped, because catalogs and requests may come from strangers.
    """
    first = assessed[0]
    parts = [
        _header(assessed, title),
        _tiles(first),
        _legend(assessed),
        _table(assessed),
        _compared(comparisons, assessed),
        '<div class="plots">',
        _metrics(assessed),
        _recall_by_places(assessed),
        _recall_by_tokens(assessed),
        _calibration(assessed),
        _roc(assessed),
        _fits(first),
        _categories(first),
        _kinds(first),
        "</div>",
        _worst(first),
        _footer(first),
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_NO_SCRIPT}">'
        f"<title>{escape(title)}</title><style>{CSS}</style>"
    )
    body = "\n".join(part for part in parts if part)
    page = f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><main>\n{body}\n</main></body></html>\n'
    return page.encode("utf-8", "replace").decode()  # requests may contain lone surrogates


# --- figures --------------------------------------------------------------------------------------------------------------


def _header(assessed: Sequence[Assessed], title: str) -> str:
    """Returns the head of the report: its title, and the catalog and requests that were measured."""
    first = assessed[0]
    none_fits = len(first.requests) - len(first.fitting)
    groups = len({request.group for request in first.requests})
    lines = [
        f"{len(first.catalog):,} tools",
        f"{len(first.requests):,} requests in {groups:,} independent groups",
        f"no tool fits {none_fits:,} of them" if none_fits else "some tool fits each of them",
    ]
    return f"<header><h1>{escape(title)}</h1><p>{escape('; '.join(lines))}</p></header>"


def _tiles(first: Assessed) -> str:
    """Returns the tiles with the main figures of the first configuration."""
    share = first.tokens.value / first.tokens_all if first.tokens_all else 0.0
    tiles = [
        _tile("recall@5", f"{first.metrics['recall@5'].value:.3f}", _between(first.metrics["recall@5"])),
        _tile("complete@10", f"{first.metrics['complete@10'].value:.3f}", _between(first.metrics["complete@10"])),
        _tile("nDCG@10", f"{first.metrics['ndcg@10'].value:.3f}", _between(first.metrics["ndcg@10"])),
        _tile("right tools sent", f"{first.metrics['recall@sent'].value:.1%}", _between(first.metrics["recall@sent"])),
        _tile("tokens a request", f"{first.tokens.value:,.0f}", f"{share:.1%} of {first.tokens_all:,}"),
        _tile("latency p50", f"{first.latency_ms['p50'].value:.2f} ms", f"p99 {first.latency_ms['p99'].value:.2f} ms"),
    ]
    if first.no_fit.auroc is not None:
        tiles.append(_tile("nothing fits, AUROC", f"{first.no_fit.auroc.value:.3f}", _between(first.no_fit.auroc)))
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _tile(name: str, value: str, between: str) -> str:
    """Returns one tile. `between`: the interval of its value."""
    return (
        f'<div class="tile"><div class="name">{escape(name)}</div><div class="value">{escape(value)}</div>'
        f'<div class="between">{escape(between)}</div></div>'
    )


def _legend(assessed: Sequence[Assessed]) -> str:
    """Returns the names of the configurations with their colours."""
    if len(assessed) < 2:
        return ""
    names = "".join(
        f'<span><i class="s{number % 6}"></i>{escape(each.name)}</span>' for number, each in enumerate(assessed)
    )
    return f'<div class="legend">{names}</div>'


def _table(assessed: Sequence[Assessed]) -> str:
    """Returns the table of the main figures, with a row for each configuration and a column for each figure."""
    heads = ("recall@1", "recall@5", "complete@10", "ndcg@10", "recall@sent")
    top = "".join(f'<th class="n">{name}</th>' for name in heads)
    rows = []
    for number, each in enumerate(assessed):
        cells = "".join(f'<td class="n">{_figure(each.metrics[name])}</td>' for name in heads)
        no_fit = each.no_fit
        fits = "".join(
            f'<td class="n">{_figure(value) if value is not None else "–"}</td>'
            for value in (no_fit.auroc, no_fit.false_nothing, no_fit.caught)
        )
        costs = f'<td class="n">{each.tokens.value:,.0f}</td><td class="n">' + " / ".join(
            f"{each.latency_ms[p].value:.2f}" for p in ("p50", "p99")
        )
        rows.append(f'<tr><td><i class="s{number % 6}"></i>{escape(each.name)}</td>{cells}{fits}{costs}</td></tr>')
    about = (
        "Means over the requests that some tool fits, with 95 % intervals from a bootstrap over whole groups. Sent: among the "
        "tools that are sent under the budget. False nothing: the share of the requests that some tool fits for which the floor "
        "says that nothing fits. Caught: the same share of the requests that no tool fits."
    )
    top += '<th class="n">AUROC</th><th class="n">false nothing</th><th class="n">caught</th>'
    top += '<th class="n">tokens</th><th class="n">p50 / p99 ms</th>'
    return _section(
        "Figures",
        about,
        f'<div class="scroll"><table><tr><th>configuration</th>{top}</tr>{"".join(rows)}</table></div>',
    )


def _compared(comparisons: Sequence[Compared], assessed: Sequence[Assessed]) -> str:
    """Returns the table of differences between the configurations."""
    if not comparisons:
        return ""
    place = {each.name: number for number, each in enumerate(assessed)}
    reach = max(0.01, *(max(abs(each.difference.low), abs(each.difference.high)) for each in comparisons))
    rows = [
        Row(
            label=f"{each.metric}, {each.name}",
            whiskers=(
                _whisker(each.difference, place[each.name], f"{each.metric}: {_between(each.difference, sign=True)}"),
            ),
            note=f"{each.difference.value:+.3f}",
        )
        for each in comparisons
    ]
    words = "".join(
        f'<tr><td>{escape(each.metric)}</td><td class="n">{_between(each.difference, sign=True)}</td>'
        f'<td class="{_tone(each)}">{escape(each.verdict)}</td></tr>'
        for each in comparisons
    )
    about = (
        f"Difference from {comparisons[0].than}, request by request. Right of the line is better. If an interval crosses the "
        "line, the requests do not decide."
    )
    plot = dots(rows, x_range=(-reach * 1.05, reach * 1.05), zero=0.0, left=200.0, label="differences", signed=True)
    table = f"<table><tr><th>metric</th><th class='n'>difference</th><th>in words</th></tr>{words}</table>"
    return f'<div class="plots">{_section("Compared", about, plot)}{_section("In words", "", table)}</div>'


def _tone(each: Compared) -> str:
    return "good" if each.difference.low > 0 else "bad" if each.difference.high < 0 else ""


# --- plots ----------------------------------------------------------------------------------------------------------------


def _metrics(assessed: Sequence[Assessed]) -> str:
    """Returns the plot of the main metrics with their intervals."""
    rows = [
        Row(
            label=name,
            whiskers=[
                _whisker(each.metrics[name], number, f"{each.name}, {name}: {_between(each.metrics[name])}")
                for number, each in enumerate(assessed)
            ],
            note=f"{assessed[0].metrics[name].value:.3f}" if len(assessed) == 1 else "",
        )
        for name in _METRICS
    ]
    plot = dots(rows, left=110.0, label="metrics with intervals", series=len(assessed))
    return _section("How much is found", "Each figure with its 95 % interval.", plot)


def _recall_by_places(assessed: Sequence[Assessed]) -> str:
    """Returns the plot of recall by the number of ranked tools."""
    series = []
    for each in assessed:
        curve = each.recall_curve()
        series.append(
            Series(
                name=each.name,
                points=[(k, value.value) for k, value in enumerate(curve, start=1)],
                band=[(k, value.low, value.high) for k, value in enumerate(curve, start=1)],
            )
        )
    plot = lines(series, x="places looked at", y="recall", x_range=(1, len(series[0].points)))
    return _section("Recall by places", "The share of the right tools that are among the first k.", plot)


def _recall_by_tokens(assessed: Sequence[Assessed]) -> str:
    """Returns the plot of recall by the tokens that the ranked tools take."""
    series, marks = [], []
    for number, each in enumerate(assessed):
        points = list(zip(each.tokens_curve(), (value.value for value in each.recall_curve()), strict=True))
        series.append(Series(name=each.name, points=points))
        budget_point = each.tokens.value, each.metrics["recall@sent"].value
        marks.append(
            (budget_point, f"{each.name}, as sent: {budget_point[0]:,.0f} tokens, {budget_point[1]:.3f}", number)
        )
    most = max(x for each in series for x, _ in each.points)
    most = max(most, *(point[0] for point, _, _ in marks), 1.0)
    plot = lines(series, x="tokens of definitions a request", y="recall", x_range=(0, most * 1.03), marks=marks)
    about = "Tokens and recall of the first k tools. The diamond is the selection that is sent under the budget."
    return _section("Recall by tokens", about, plot)


def _calibration(assessed: Sequence[Assessed]) -> str:
    """Plots how often the best tool is right, by its fit. All parts have equally many requests, so that no part has too few."""
    series = []
    for each in assessed:
        pairs = sorted(
            (outcome.fit, recall(outcome.names, request.gold, 1) * len(request.gold) if request.gold else 0.0)
            for outcome, request in zip(each.outcomes, each.requests, strict=True)
        )
        bins = [
            part for part in np.array_split(np.array(pairs), min(10, len(pairs) // _LEAST_IN_BIN or 1)) if len(part)
        ]
        series.append(
            Series(
                name=each.name,
                points=[(float(part[:, 0].mean()), float(part[:, 1].mean())) for part in bins],
                band=[_bin(part) for part in bins],
            )
        )
    most = max(1e-9, *(x for each in series for x, _ in each.points))
    about = (
        "The requests, sorted by the fit of their best tool, are divided into at most ten parts. The line shows how often that "
        "tool is a right one. It should rise."
    )
    return _section(
        "Is a better fit more often right",
        about,
        lines(series, x="fit of the best tool", y="the best tool is right", x_range=(0, most * 1.03)),
    )


def _bin(part: np.ndarray) -> tuple[float, float, float]:
    value = mean_of(part[:, 1].tolist(), [str(i) for i in range(len(part))])
    return float(part[:, 0].mean()), value.low, value.high


def _roc(assessed: Sequence[Assessed]) -> str:
    """Returns the plot of the ROC curve of "nothing fits"; empty if the requests have none."""
    series = [Series(name=each.name, points=points, marked=False) for each in assessed if (points := each.roc())]
    if not series:
        return ""
    marks = [
        (
            (each.no_fit.false_nothing.value, each.no_fit.caught.value),
            f"{each.name}, its floor: {each.no_fit.false_nothing.value:.1%} false, {each.no_fit.caught.value:.1%} caught",
            number,
        )
        for number, each in enumerate(assessed)
        if each.no_fit.false_nothing is not None and each.no_fit.caught is not None
    ]
    areas = ", ".join(
        f"{each.name} {each.no_fit.auroc.value:.3f}" for each in assessed if each.no_fit.auroc is not None
    )
    plot = lines(
        series,
        x="requests that some tool fits, called nothing",
        y="requests that no tool fits, caught",
        x_range=(0, 1),
        marks=marks,
        diagonal=True,
    )
    about = (
        "A floor says that nothing fits if the fit of the best tool is below it. The line shows the shares of requests for which "
        f"each possible floor says so wrongly and rightly. Area: {areas}. The diamond is the floor of the configuration."
    )
    return _section("Nothing fits", about, plot)


def _fits(first: Assessed) -> str:
    """Returns the histograms of the fit, for requests that some tool fits and for the others."""
    fits = np.array([outcome.fit for outcome in first.outcomes])
    some = np.array([bool(request.gold) for request in first.requests])
    if some.all():
        return ""
    edges = np.linspace(0.0, max(float(fits.max(initial=0.0)), 1e-9), _BINS + 1)
    groups = [
        (name, colour, (np.histogram(fits[mask], edges)[0] / max(1, int(mask.sum()))).tolist())
        for name, colour, mask in (("some tool fits", 3, some), ("no tool fits", 5, ~some))
    ]
    legend = '<div class="legend"><span><i class="s3"></i>some tool fits</span><span><i class="s5"></i>no tool fits</span></div>'
    plot = bars(groups, edges.tolist(), x="fit of the best tool", y="share of the requests")
    return _section(
        "Fit of the best tool",
        f"Measured with {first.name}. The less the two groups overlap, the better.",
        legend + plot,
    )


def _categories(first: Assessed) -> str:
    """Returns the plot of recall by category."""
    categories = [(name or "(no category)", *each) for name, each in first.by_category().items()]
    if len(categories) < 2:
        return ""
    rows = [
        Row(
            label=name,
            whiskers=(_whisker(value, 0, f"{name}: {_between(value)}, {count} requests"),),
            note=f"{count:,}",
        )
        for name, count, value in categories[:_CATEGORIES]
    ]
    note = f" The {_CATEGORIES} with the most requests of {len(categories)}." if len(categories) > _CATEGORIES else ""
    about = f"Recall@5 of {first.name} by the category of the right tool; on the right the number of requests.{note}"
    return _section("By category", about, dots(rows, left=170.0, label="recall@5 by category"))


def _kinds(first: Assessed) -> str:
    """Returns the plot of recall by kind of request."""
    kinds = first.by_kind()
    if len(kinds) < 2:
        return ""
    rows = [
        Row(label=name, whiskers=(_whisker(value, 0, f"{name}: {_between(value)}"),), note=f"{count:,}")
        for name, (count, value) in kinds.items()
    ]
    about = f"Recall@5 of {first.name}; on the right the number of requests."
    return _section("By kind of request", about, dots(rows, left=235.0, label="recall@5 by kind of request"))


# --- the worst requests -------------------------------------------------------------------------------------------------


def _worst(first: Assessed) -> str:
    """Returns the list of the requests that were served worst."""
    rows = [_request(request, outcome) for request, outcome in first.misses(WORST)]
    if not rows:
        return _section("Served worst", f"{first.name} finds every right tool among the first five.", "")
    head = "<tr><th>request</th><th>right tool and its place</th><th>first tools found</th></tr>"
    about = f"The requests for which {first.name} finds the fewest right tools among the first five; at most {WORST}."
    return _section("Served worst", about, f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>')


def _request(request: LabelledRequest, outcome: Outcome) -> str:
    """Returns one of these requests: its messages, its right tools, and the ranking."""
    earlier = len(request.messages) - 1
    earlier_html = ""
    if earlier:
        last = request.messages[-2]
        earlier_html = f'<div class="earlier">{escape(last.role)}: {escape(_short(last.text))}</div>'
        if earlier > 1:
            earlier_html = f'<div class="earlier">… {earlier - 1} earlier</div>{earlier_html}'
    right = "".join(
        f'<div><code class="tool right">{escape(name)}</code> <span class="place">{_place(outcome, name)}</span></div>'
        for name in sorted(request.gold)
    )
    ranking_html = "".join(
        f'<code class="tool{" right" if name in request.gold else ""}">{escape(name)}</code>'
        for name in outcome.names[:_TOOLS]
    )
    nothing = '<span class="place">no tool was found</span>'
    return (
        f'<tr><td class="query">{earlier_html}{escape(_short(request.messages[-1].text))}</td><td>{right}</td>'
        f"<td>{ranking_html or nothing}</td></tr>"
    )


def _place(outcome: Outcome, name: str) -> str:
    """Returns the rank of a right tool in words, and whether the tool was sent."""
    suffix = ", sent" if name in outcome.sent_names else ""
    return (
        f"{outcome.names.index(name) + 1}{suffix}"
        if name in outcome.names
        else f"not among the first {len(outcome.names)}{suffix}"
    )


def _footer(first: Assessed) -> str:
    """Returns the end of the report, with notes on the figures."""
    text = (
        f"Catalog version {first.catalog.version[:12]}. Tokens are an estimate from the size of the definitions, meta tools "
        "aside. Latency is the wall-clock time from the messages to the selection, one request after the other on one core. "
        "Intervals: percentile bootstrap over groups (Efron 1979), 1,000 resamples, a fixed seed. Nothing on this page comes "
        "from the network."
    )
    return f"<footer>{escape(text)}</footer>"


# --- pieces -----------------------------------------------------------------------------------------------------------------


def _section(head: str, about: str, inner: str) -> str:
    intro = f'<p class="about">{escape(about)}</p>' if about else ""
    return f"<section><h2>{escape(head)}</h2>{intro}{inner}</section>"


def _whisker(estimate: Estimate, series: int, text: str) -> Whisker:
    return Whisker(value=estimate.value, low=estimate.low, high=estimate.high, series=series, text=text)


def _figure(estimate: Estimate) -> str:
    return f'{estimate.value:.3f}<br><span class="between">{estimate.low:.3f}–{estimate.high:.3f}</span>'


def _between(estimate: Estimate, *, sign: bool = False) -> str:
    form = "+.3f" if sign else ".3f"
    head = f"{estimate.value:+.3f} " if sign else ""
    return f"{head}[{estimate.low:{form}}, {estimate.high:{form}}]"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT else line[: _TEXT - 1] + "…"
