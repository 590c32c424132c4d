"""The quality and cost of selection, compared with the baselines that come with the labelled sets and with its goals.

python -m benchmarks.selection_quality [--sets toole,sgd] [--baselines bm25s,rrf_lex] [--signals lexical,plain] [--json FILE]

Our selector, with the default preset, is measured three times: with words alone (`lexical`), with the word table that every
install includes (`plain`), and with all-MiniLM-L6-v2 (`embedding`). Vectors are stored in a folder and used again by the next
run. If all sets are measured, the figures of `benchmarks.nothing_fits` follow.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

import msgspec

from benchmarks.labelled import (
    CACHE,
    LEXICAL_BASELINES,
    MODEL_BASELINES,
    SETS,
    Baseline,
    answers_of,
    baselines,
    bench_folder,
    selector,
    vectors,
    wire,
)
from benchmarks.nothing_fits import Labelled, print_results, read_labelled
from benchmarks.selection_cost import SIZES, Cost, Times, cost
from benchmarks.vector_cache import VectorCache
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import PRESETS, SIGNALS
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.embedders.local import Runtime
from toolcaddie.evaluation.datasets import LabelledRequest, read_requests, read_tools
from toolcaddie.evaluation.measure import Measured, measure, ranking_of
from toolcaddie.ports import Embedder
from toolcaddie.selection.rankers.embedding import tool_texts

HISTORIES = (0, 4)
"""Messages of history that a baseline gets: none, or the last four."""
SEVERAL = ("toole_multi", "seal")
"""Labelled sets whose requests need several tools."""

MEANS = {"lexical": 0.840, "plain": 0.882, "embedding": 0.897}
"""Goals for the mean recall@5 of all sets."""
DILUTIONS = {"lexical": 0.47, "plain": 0.54, "embedding": 0.69}
"""Goals for recall@5 on the set `toole` in the largest catalog."""
BEHIND = {"lexical": 0.005, "embedding": 0.01}
"""Goal: the largest accepted distance of any set from its best baseline. `lexical` is compared with lexical baselines,
`embedding` with all."""
NO_FITS = {"lexical": 0.83, "plain": 0.87, "embedding": 0.90}
"""Goals for the AUROC of telling requests that no tool fits from the others."""
FALSE_NOTHING = 0.02
"""Goal: the largest accepted share of requests for which selection wrongly reports that nothing fits."""
TIMES_MS = {199: (0.4, 1.5), 5_000: (0.8, 3.0), 25_031: (3.0, 10.0)}
"""Goals for p50 and p99 of `lexical` in milliseconds, by size of the catalog."""
INDEX_S, INDEX_MB, CHANGE_MS = 5.0, 200.0, 5.0
"""Goals for the index of the largest catalog, in seconds and megabytes, and for a change by one tool, in milliseconds."""
ABOVE = 1e-9
"""The smallest difference that counts as above the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The shares of selections that report that nothing fits: wrongly, among requests with a right tool (`false`), and rightly,
    among requests without one (`caught`)."""

    false: float
    caught: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of a labelled set."""

    tools: int
    ours: Mapping[str, Measured]
    floors: Mapping[str, Floor]
    baselines: Mapping[str, Measured]
    """Figures of the baselines, by name and number of earlier messages: `bm25s/4`."""

    def best(self, metric: str, *, lexical: bool = False) -> tuple[str, float]:
        """Returns the baseline that is best for this set."""
        by_words = {name: each for name, each in self.baselines.items() if name.split("/")[0] in LEXICAL_BASELINES}
        values = {name: each.metrics[metric].value for name, each in (by_words if lexical else self.baselines).items()}
        return max(values.items(), key=lambda each: each[1], default=("none", 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A goal and its measurement."""

    what: str
    value: float
    goal: float
    at_most: bool = False
    cpu: float | None = None
    """The CPU time, if the value is a time: other work on the machine does not affect it."""

    @property
    def holds(self) -> bool:
        return self.value <= self.goal if self.at_most else self.value >= self.goal


def main() -> None:
    arguments = _arguments()
    bench = bench_folder()
    if bench is None:
        print("skipped: no folder shared/bench beside the project; point TOOLCADDIE_SHARED at it", file=sys.stderr)
        return
    model = _model(arguments)
    signals = [each for each in arguments.signals if each != "embedding" or model is not None]
    made = baselines(bench, arguments.baselines, model)
    rows: dict[str, Row] = {}
    judged: dict[str, dict[str, Labelled]] = {each: {} for each in signals}
    for name in arguments.sets:
        requests = bench / "sets" / name / f"queries.{arguments.split}.jsonl"
        if requests.exists():  # only some sets have a train part
            _tell(f"{name} ...")
            rows[name] = _row(requests.with_name("tools.jsonl"), requests, signals, made, model)
            for each in signals:
                judged[each][name] = read_labelled(requests, selector(each, model if each == "embedding" else None))
    if rows:
        _print_recalls(rows, signals)
        _print_baselines(rows, list(made))
        _print_several(rows, signals)
        _print_nothing(rows, signals)
        for each in signals if len(rows) == len(SETS) else ():
            print_results(judged[each], each)
    costs = []
    for size in () if arguments.quick else SIZES:
        _tell(f"{size:,} tools ...")
        costs.append(cost(bench, size, signals, list(made), arguments.runtime, arguments.cache))
    _print_costs(costs)
    verdicts = [*(_quality(rows, signals) if made and rows else ()), *_costs(costs, signals)]
    _print_verdicts(verdicts)
    if arguments.json:
        figures = {"sets": rows, "costs": costs, "goals": [{**asdict(each), "holds": each.holds} for each in verdicts]}
        Path(arguments.json).write_bytes(msgspec.json.format(msgspec.json.encode(figures)))


def _arguments() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [name for name in text.split(",") if name]

    parser = argparse.ArgumentParser(description="Selection beside the baselines of the labelled sets.")
    parser.add_argument("--sets", type=names, default=list(SETS))
    parser.add_argument("--baselines", type=names, default=[*LEXICAL_BASELINES, *MODEL_BASELINES])
    parser.add_argument("--signals", type=names, default=list(SIGNALS), help="rankers of our selector; default: all")
    parser.add_argument(
        "--runtime", choices=get_args(Runtime), default="numpy", help="runs MiniLM; numpy is exact, onnx is int8"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help="the folder in which vectors are stored")
    parser.add_argument(
        "--split", default="dev", help="dev, with which the weights were chosen, or train, which was never used"
    )
    parser.add_argument("--quick", action="store_true", help="omit the large catalogs")
    parser.add_argument("--json", help="also write every figure, with its interval, to this file")
    arguments = parser.parse_args()
    if unknown := [each for each in arguments.signals if each not in SIGNALS]:
        parser.error(f"there are no signals {unknown[0]!r}; there are {', '.join(SIGNALS)}")
    return arguments


def _model(arguments: argparse.Namespace) -> VectorCache | None:
    if "embedding" not in arguments.signals:
        _tell(f"omitted: embedding, {' and '.join(MODEL_BASELINES)}, because --signals does not name embedding")
        return None
    try:
        return vectors(arguments.runtime, arguments.cache)
    except ConfigError as error:
        _tell(f"omitted: embedding, {' and '.join(MODEL_BASELINES)}: {error}")
        return None


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# --- measuring ------------------------------------------------------------------------------------------------------------


def _row(
    catalog: Path, labelled: Path, signals: Sequence[str], made: Mapping[str, Baseline], model: Embedder | None
) -> Row:
    """Measures one labelled set: our selector with each of `signals`, and the baselines `made` without and with history."""
    tools, requests = read_tools(catalog), read_requests(labelled)
    view = View(catalog=Catalog.of(tools, check_schemas=False))
    if model is not None:  # all at once, so that progress can be printed
        model.embed([text for tool in tools for text in tool_texts(tool)])
        model.embed([message.text for request in requests for message in request.messages])
    ours, floors = {}, {}
    for each in signals:
        with_signals = selector(each, model if each == "embedding" else None)
        ours[each] = measure(ranking_of(with_signals, view), requests)
        nothing = [
            with_signals.select(view, SelectionQuery(messages=request.messages), PRESETS["default"].budget).no_match
            for request in requests
        ]
        floors[each] = _floor(nothing, requests)
    wired, beside = [wire(tool) for tool in tools], {}
    for name, make in made.items():
        for history in HISTORIES:
            if not history or any(len(request.messages) > 1 for request in requests):
                rank = answers_of(make(wired, [], hist=history), requests)
                beside[f"{name}/{history}"] = measure(rank, requests)
    return Row(tools=len(tools), ours=ours, floors=floors, baselines=beside)


def _floor(nothing: Sequence[bool], requests: Sequence[LabelledRequest]) -> Floor:
    """`nothing` has a flag for each request: True if selection reported that no tool fits."""
    fitting = [no_match for no_match, request in zip(nothing, requests, strict=True) if request.gold]
    others = [no_match for no_match, request in zip(nothing, requests, strict=True) if not request.gold]
    return Floor(false=sum(fitting) / len(fitting), caught=sum(others) / len(others) if others else None)


# --- goals ----------------------------------------------------------------------------------------------------------------


def _quality(rows: Mapping[str, Row], signals: Sequence[str]) -> list[Verdict]:
    """Compares the figures of the labelled sets with their goals. The goal for the mean is checked only if all sets were
    measured."""
    verdicts = []
    for each in signals if len(rows) == len(SETS) else ():
        mean = sum(_recall(row, each) for row in rows.values()) / len(rows)
        verdicts.append(Verdict(what=f"{each}: mean recall@5 of {len(rows)} sets", value=mean, goal=MEANS[each]))
    for each in (each for each in signals if each in BEHIND):
        lexical = each == "lexical"
        ahead = {name: _recall(row, each) - row.best("recall@5", lexical=lexical)[1] for name, row in rows.items()}
        worst = min(ahead, key=ahead.__getitem__)
        what = f"{each}: recall@5 above the set's best {'lexical ' * lexical}baseline, at worst ({worst})"
        verdicts.append(Verdict(what=what, value=ahead[worst], goal=-BEHIND[each]))
    for name in (name for name in SEVERAL if name in rows and "embedding" in signals):
        above = rows[name].ours["embedding"].metrics["complete@10"].value - rows[name].best("complete@10")[1]
        verdicts.append(
            Verdict(what=f"embedding: complete@10 above the best baseline, {name}", value=above, goal=ABOVE)
        )
    for each in (each for each in signals if each in NO_FITS):
        for name in (name for name in ("toole_none", "clinc150") if name in rows):
            estimate = rows[name].ours[each].no_fit
            if estimate is not None:
                what = f"{each}: nothing fits, AUROC, {name}"
                verdicts.append(Verdict(what=what, value=estimate.value, goal=NO_FITS[each]))
    for each in signals:
        worst = max(rows, key=lambda name: rows[name].floors[each].false)
        what = f"{each}: false 'nothing', at worst ({worst})"
        verdicts.append(Verdict(what=what, value=rows[worst].floors[each].false, goal=FALSE_NOTHING, at_most=True))
    return verdicts


def _costs(costs: Sequence[Cost], signals: Sequence[str]) -> list[Verdict]:
    """Compares the figures of the catalogs of several sizes with their goals. Some goals are for the largest catalog only."""
    verdicts = []
    for each in costs:
        size = f"{each.tools:,} tools"
        if each is costs[-1]:
            verdicts += [
                Verdict(what=f"{signal}: recall@5 of toole, {size}", value=each.recall[signal], goal=DILUTIONS[signal])
                for signal in signals
            ]
        times, (p50, p99) = each.times["lexical"], TIMES_MS[each.tools]
        verdicts.append(_time(f"lexical: p50 in ms, {size}", times.p50, p50, times.cpu_p50))
        verdicts.append(_time(f"lexical: p99 in ms, {size}", times.p99, p99, times.cpu_p99))
        for what in each.changes:
            wall, cpu = each.change(what)
            verdicts.append(_time(f"one tool {what} in ms, {size}", wall, CHANGE_MS, cpu))
    for each in costs[-1:]:
        size = f"{each.tools:,} tools"
        verdicts.append(_time(f"index in s, {size}", each.index_s, INDEX_S, each.index_cpu_s))
        verdicts.append(Verdict(what=f"index in MB, {size}", value=each.index_mb, goal=INDEX_MB, at_most=True))
    return verdicts


def _time(what: str, value: float, goal: float, cpu: float) -> Verdict:
    return Verdict(what=what, value=value, goal=goal, at_most=True, cpu=cpu)


def _recall(row: Row, signals: str) -> float:
    return row.ours[signals].metrics["recall@5"].value


# --- tables ---------------------------------------------------------------------------------------------------------------


def _print_recalls(rows: Mapping[str, Row], signals: Sequence[str]) -> None:
    print(f"{'recall@5':<16}{'tools':>6}" + "".join(f"{each:>16}" for each in signals), end="")
    print(f"{'best lexical baseline':>28}{'best baseline of all':>28}")
    for name, row in rows.items():
        print(f"{name:<16}{row.tools:>6,}" + "".join(_cell(row.ours[each], "recall@5") for each in signals), end="")
        best = (row.best("recall@5", lexical=True), row.best("recall@5"))
        print("".join(f"{f'{value:.3f} {baseline}':>28}" for baseline, value in best))
    means = [sum(_recall(row, each) for row in rows.values()) / len(rows) for each in signals]
    print(f"{'mean':<22}" + "".join(f"{mean:>10.3f}{'':6}" for mean in means), end="")
    for lexical in (True, False):
        best_of = [row.best("recall@5", lexical=lexical)[1] for row in rows.values()]
        print(f"{f'{sum(best_of) / len(rows):.3f} by hindsight':>28}", end="")
    print()


def _cell(measured: Measured, metric: str) -> str:
    estimate = measured.metrics[metric]
    return f"{f'{estimate.value:.3f} ±{(estimate.high - estimate.low) / 2:.3f}':>16}"


def _print_baselines(rows: Mapping[str, Row], names: Sequence[str]) -> None:
    """Prints all baselines; for a set without history, the figure without history stands for both."""
    if not names:
        return
    print(f"\n{'recall@5':<16}" + "".join(f"{name:>15}" for name in names) + "   without history / with four messages")
    for name, row in rows.items():
        print(f"{name:<16}" + "".join(f"{_both(row, baseline):>15}" for baseline in names))
    print(f"{'mean':<16}", end="")
    for name in names:
        pairs = [[_of(row, name, history) for history in HISTORIES] for row in rows.values()]
        print(f"{' / '.join(f'{sum(each) / len(each):.3f}' for each in zip(*pairs, strict=True)):>15}", end="")
    print()


def _both(row: Row, name: str) -> str:
    histories = [history for history in HISTORIES if f"{name}/{history}" in row.baselines]
    return " / ".join(f"{_of(row, name, history):.3f}" for history in histories)


def _of(row: Row, name: str, history: int) -> float:
    measured = row.baselines.get(f"{name}/{history}") or row.baselines[f"{name}/0"]
    return measured.metrics["recall@5"].value


def _print_several(rows: Mapping[str, Row], signals: Sequence[str]) -> None:
    for name in (name for name in SEVERAL if name in rows):
        row = rows[name]
        ours = "".join(f"  {each} {_cell(row.ours[each], 'complete@10').strip()}" for each in signals)
        baseline, value = row.best("complete@10")
        print(f"\ncomplete@10, {name}:{ours}  best baseline {value:.3f} {baseline}", end="")
    print()


def _print_nothing(rows: Mapping[str, Row], signals: Sequence[str]) -> None:
    print(f"\n{'nothing fits':<16}" + "".join(f"{each + ': AUROC, false, caught':>36}" for each in signals), end="")
    print(f"{'best AUROC of a baseline':>28}")
    for name, row in rows.items():
        print(f"{name:<16}" + "".join(f"{_nothing(row, each):>36}" for each in signals), end="")
        estimates = [
            (each.no_fit.value, baseline) for baseline, each in row.baselines.items() if each.no_fit is not None
        ]
        print(f"{'{:.3f} {}'.format(*max(estimates)):>28}" if estimates else "")


def _nothing(row: Row, signals: str) -> str:
    floor, estimate = row.floors[signals], row.ours[signals].no_fit
    auroc = f"{estimate.value:.3f} ±{(estimate.high - estimate.low) / 2:.3f}" if estimate is not None else ""
    caught = f"{floor.caught:.1%}" if floor.caught is not None else "-"
    return f"{auroc} {floor.false:>6.2%} {caught:>6}"


def _print_costs(costs: Sequence[Cost]) -> None:
    if not costs:
        return
    print(f"\n{'recall@5, toole':<16}" + "".join(f"{name:>12}" for name in costs[0].recall))
    for each in costs:
        print(f"{each.tools:>10,} tools" + "".join(f"{recall:>12.3f}" for recall in each.recall.values()))
    ours = [name for name in costs[0].times if name in SIGNALS]
    others = [name for name in costs[0].times if name not in SIGNALS]
    print(f"\n{'ms':<16}" + "".join(f"{f'{name}: p50 p99 (CPU)':>32}" for name in ours), end="")
    print("".join(f"{f'{name}: p50 p99 (CPU), CPU / ours':>48}" for name in others))
    for each in costs:
        print(f"{each.tools:>10,} tools", end="")
        for name in ours:
            print(f"{_both_clocks(each.times[name]):>32}", end="")
        base = each.times["lexical"]
        for name in others:
            times = each.times[name]
            text = f"{_both_clocks(times)}  {times.cpu_p50 / base.cpu_p50:.2f} {times.cpu_p99 / base.cpu_p99:.2f}"
            print(f"{text:>48}", end="")
        print()
    for each in costs:
        changes = ", ".join("{} {:.2f} ({:.2f}) ms".format(what, *each.change(what)) for what in each.changes)
        index = f"index {each.index_s:.2f} ({each.index_cpu_s:.2f}) s, {each.index_mb:.0f} MB"
        print(f"{each.tools:>10,} tools: {index}; one tool {changes}")


def _both_clocks(times: Times) -> str:
    """Returns p50 and p99 by the wall clock, and in brackets those of the thread's own time."""
    return f"{times.p50:.2f} {times.p99:.2f} ({times.cpu_p50:.2f} {times.cpu_p99:.2f})"


def _print_verdicts(verdicts: Sequence[Verdict]) -> None:
    print()
    for each in sorted(verdicts, key=lambda verdict: verdict.holds):
        verdict = "holds" if each.holds else "MISSED"
        sign = "<=" if each.at_most else ">="
        cpu = f"  CPU {each.cpu:.4f}" if each.cpu is not None else ""
        print(f"{verdict:<7} {each.what:<72} {each.value:>8.4f}  (goal {sign} {each.goal:.3f}){cpu}")


if __name__ == "__main__":
    main()
