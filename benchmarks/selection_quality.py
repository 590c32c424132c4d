"""What selection finds, beside the baselines that come with the labelled sets: one configuration, the one that ships.

python -m benchmarks.selection_quality [--sets toole,sgd] [--baselines bm25s,rrf_lex] [--json FILE]

The sets are in a folder `shared` beside the project, or where TOOLCADDIE_SHARED points. Baselines need
`pip install --group bench`; one whose packages are missing is left out, and that is said.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from toolcaddie.catalog import Catalog, View
from toolcaddie.evaluation.datasets import LabelledRequest, read_requests, read_tools
from toolcaddie.evaluation.measure import DEPTH, Answer, Measured, Rank, measure, percentiles, ranking_of
from toolcaddie.ports import SelectionQuery
from toolcaddie.presets import PRESETS
from toolcaddie.selection.selector import Selector
from toolcaddie.tool_types import Tool

SETS = (
    "toole",
    "toole_multi",
    "toole_none",
    "clinc150",
    "bfcl_live",
    "seal",
    "apibank",
    "bfcl_multiturn",
    "sgd",
    "ace_en",
    "ace_zh",
)
BASELINES = ("fastmcp_bm25", "bm25s", "tfidf_char", "rrf_lex")
HISTORIES = (0, 4)
"""Messages of history that a baseline is given: none, or the last four."""
SIZES = (199, 5_000, 25_031)
TIMED = 1_000
BESIDE = {"bm25s": 300, "rrf_lex": 60, "fastmcp_bm25": 60}
"""Baselines whose time is taken beside ours, and on how many requests."""
CHANGES = 50
PICKED = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What selection costs in a catalog of this size, and what it still finds of the small one's tools."""

    tools: int
    recall: float
    index_s: float
    index_mb: float
    p50_ms: float
    p99_ms: float
    added_ms: float
    removed_ms: float
    """What one tool more or less costs, from the changed list of tools to the first selection, above a selection."""
    beside: Mapping[str, Mapping[str, float]]
    """p50 and p99 of the baselines, in milliseconds."""


def main() -> None:
    arguments = _arguments()
    bench = _bench()
    if bench is None:
        print("skipped: no folder shared/bench beside the project; point TOOLCADDIE_SHARED at it", file=sys.stderr)
        return
    baselines = _baselines(bench, arguments.baselines)
    columns = ["toolcaddie", *(f"{name}/{history}" for name in baselines for history in HISTORIES)]
    print(f"{'recall@5':<16}" + "".join(f"{name:>16}" for name in columns) + f"{'best baseline':>16}")
    rows: dict[str, dict[str, Measured]] = {}
    for name in arguments.sets:
        folder = bench / "sets" / name
        requests = folder / f"queries.{arguments.split}.jsonl"
        if not requests.exists():
            continue  # only some sets have a train part
        rows[name] = _row(folder / "tools.jsonl", requests, baselines)
        print(f"{name:<16}" + "".join(_cell(rows[name].get(column)) for column in columns) + _best(rows[name]))
    _print_means(rows, columns)
    _print_no_fit(rows)
    timed = _baselines(bench, list(BESIDE)) if not arguments.quick else {}
    costs = [_cost(bench / "sets", size, timed) for size in SIZES] if not arguments.quick else []
    _print_costs(costs)
    if arguments.json:
        figures = {"sets": rows, "costs": [asdict(cost) for cost in costs]}
        Path(arguments.json).write_bytes(msgspec.json.format(msgspec.json.encode(figures)))


def _arguments() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [name for name in text.split(",") if name]

    parser = argparse.ArgumentParser(description="Selection beside the baselines of the labelled sets.")
    parser.add_argument("--sets", type=names, default=list(SETS))
    parser.add_argument("--baselines", type=names, default=list(BASELINES))
    parser.add_argument(
        "--split", default="dev", help="dev, on which the weights were chosen, or train, which was not looked at"
    )
    parser.add_argument("--quick", action="store_true", help="leave out the large catalogs")
    parser.add_argument("--json", help="also write every figure, with its interval, to this file")
    return parser.parse_args()


def _bench() -> Path | None:
    """The folder of the labelled sets; None: it is not here."""
    root = os.environ.get("TOOLCADDIE_SHARED")
    folder = (Path(root) if root else Path(__file__).parents[1].parent / "shared") / "bench"
    return folder if folder.is_dir() else None


Baseline = Callable[..., Any]


def _baselines(bench: Path, names: Sequence[str]) -> dict[str, Baseline]:
    """Baselines by name, without those whose packages are not installed."""
    sys.path.insert(0, str(bench))
    found: dict[str, Baseline] = {}
    for name in names:
        try:
            make = getattr(importlib.import_module("baselines"), name)
            make.warm()
        except ImportError as error:
            print(f"left out: {name} needs {error.name}", file=sys.stderr)
        else:
            found[name] = make
    return found


def _row(catalog: Path, labelled: Path, baselines: Mapping[str, Baseline]) -> dict[str, Measured]:
    tools, requests = read_tools(catalog), read_requests(labelled)
    row = {"toolcaddie": measure(_ours(tools), requests)}
    wire = [_wire(tool) for tool in tools]
    for name, make in baselines.items():
        for history in HISTORIES:
            if not history or any(len(request.messages) > 1 for request in requests):
                row[f"{name}/{history}"] = measure(_baseline(make(wire, [], hist=history)), requests)
    return row


def _ours(tools: Sequence[Tool]) -> Rank:
    return ranking_of(Selector(PRESETS["default"].selection), View(catalog=Catalog.of(tools, check_schemas=False)))


def _baseline(rank: Any) -> Rank:
    def answer(request: LabelledRequest) -> Answer:
        history = [f"{message.role}: {message.text}" for message in request.messages[:-1]]
        query = request.messages[-1].text
        if rank.scored is None:
            return Answer(names=rank(query, history, DEPTH))
        scored = rank.scored(query, history, DEPTH)
        return Answer(names=[name for name, _ in scored], fit=scored[0][1] if scored else 0.0)

    return answer


def _wire(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "category": tool.category,
    }


def _cost(sets: Path, size: int, baselines: Mapping[str, Baseline]) -> Cost:
    """toole's requests, its tools among others to make up the size."""
    tools, requests = read_tools(sets / "toole" / "tools.jsonl"), read_requests(sets / "toole" / "queries.dev.jsonl")
    names = {tool.name for tool in tools}
    files = sorted((sets / "scale_catalog").glob("tools*.jsonl"))
    more = [tool for file in files for tool in read_tools(file) if tool.name not in names] if size > len(tools) else []
    view = View(catalog=Catalog.of([*tools, *more][:size], check_schemas=False))
    preset = PRESETS["default"]
    selector = Selector(preset.selection)
    asked = random.Random(1).sample(requests, TIMED)
    gc.collect()
    before, started = _resident_mb(), time.perf_counter()
    selector.select(view, SelectionQuery(messages=asked[0].messages), preset.budget)
    index_s, index_mb = time.perf_counter() - started, _resident_mb() - before
    seconds = []
    for request in asked:
        started = time.perf_counter()
        selector.select(view, SelectionQuery(messages=request.messages, expandable=True), preset.budget)
        seconds.append(1e3 * (time.perf_counter() - started))
    recall = measure(ranking_of(selector, view), asked).metrics["recall@5"].value
    times = percentiles(seconds)
    added_ms, removed_ms = _changes(selector, view, asked, times["p50"])
    wire = [_wire(tool) for tool in view]
    return Cost(
        tools=len(view),
        recall=recall,
        index_s=index_s,
        index_mb=index_mb,
        p50_ms=times["p50"],
        p99_ms=times["p99"],
        added_ms=added_ms,
        removed_ms=removed_ms,
        beside={name: _timed(make(wire, []), asked[: BESIDE[name]]) for name, make in baselines.items()},
    )


def _changes(selector: Selector, view: View, asked: Sequence[LabelledRequest], usual: float) -> tuple[float, float]:
    """The median of one tool added, and of one removed, above the `usual` milliseconds of a selection; each change follows
    the one before."""
    choose, catalog = random.Random(2), view.catalog
    spent: dict[str, list[float]] = {"added": [], "removed": []}
    for number in range(CHANGES):
        model = choose.choice(catalog.tools)
        newcomer = replace(model, name=f"newcomer_{number}", description=f"{model.description} Newcomer {number}.")
        changes = {
            "added": partial(Catalog.with_tools, added=[newcomer]),
            "removed": partial(Catalog.with_tools, removed=[choose.choice(catalog.tools).name]),
        }
        for what, change in changes.items():
            query = SelectionQuery(messages=choose.choice(asked).messages, expandable=True)
            started = time.perf_counter()
            catalog = change(catalog)
            selector.select(View(catalog=catalog), query, PRESETS["default"].budget)
            spent[what].append(1e3 * (time.perf_counter() - started))
    added, removed = (percentiles(each)["p50"] - usual for each in spent.values())
    return added, removed


def _timed(rank: Any, asked: Sequence[LabelledRequest]) -> Mapping[str, float]:
    """The p50 and p99 of a baseline's first 24 tools, in milliseconds."""
    spent = []
    for request in asked:
        history = [f"{message.role}: {message.text}" for message in request.messages[:-1]]
        started = time.perf_counter()
        rank(request.messages[-1].text, history, PICKED)
        spent.append(1e3 * (time.perf_counter() - started))
    times = percentiles(spent)
    return {"p50": times["p50"], "p99": times["p99"]}


def _resident_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _cell(measured: Measured | None) -> str:
    if measured is None:
        return f"{'-':>16}"
    recall = measured.metrics["recall@5"]
    return f"{recall.value:>8.3f} ±{(recall.high - recall.low) / 2:.3f} "


def _best(row: Mapping[str, Measured]) -> str:
    recalls = [each.metrics["recall@5"].value for name, each in row.items() if name != "toolcaddie"]
    return f"{max(recalls):>16.3f}" if recalls else ""


def _print_means(rows: Mapping[str, Mapping[str, Measured]], columns: Sequence[str]) -> None:
    """Where a set has no history, a baseline with history is the one without."""
    print(f"{'mean':<16}", end="")
    for column in columns:
        plain = column.replace("/4", "/0")
        recalls = [(row.get(column) or row[plain]).metrics["recall@5"].value for row in rows.values()]
        print(f"{sum(recalls) / len(recalls):>8.3f}{'':8}", end="")
    best = [
        max((each.metrics["recall@5"].value for name, each in row.items() if name != "toolcaddie"), default=0.0)
        for row in rows.values()
    ]
    print(f"{sum(best) / len(best):>16.3f}")


def _print_no_fit(rows: Mapping[str, Mapping[str, Measured]]) -> None:
    for name, row in rows.items():
        told = [f"{column} {each.no_fit.value:.3f}" for column, each in row.items() if each.no_fit is not None]
        if told:
            print(f"nothing fits, AUROC on {name}: {', '.join(told)}")


def _print_costs(costs: Sequence[Cost]) -> None:
    if not costs:
        return
    names = list(costs[0].beside)
    print(f"\n{'tools':>7} {'recall@5':>9} {'index s':>8} {'index MB':>9} {'p50 ms':>7} {'p99 ms':>7}", end="")
    print("".join(f"{f'{name}: p50, p99, times ours':>36}" for name in names))
    for cost in costs:
        print(
            f"{cost.tools:>7,} {cost.recall:>9.3f} {cost.index_s:>8.2f} {cost.index_mb:>9.0f} {cost.p50_ms:>7.2f} "
            f"{cost.p99_ms:>7.2f}" + "".join(f"{_ratios(cost.beside[name], cost):>36}" for name in names)
        )
    for cost in costs:
        print(f"{cost.tools:>7,} tools, one added / removed: {cost.added_ms:.2f} / {cost.removed_ms:.2f} ms")


def _ratios(theirs: Mapping[str, float], ours: Cost) -> str:
    p50, p99 = theirs["p50"], theirs["p99"]
    return f"{p50:.2f} {p99:.2f}  {p50 / ours.p50_ms:.1f} {p99 / ours.p99_ms:.1f}"


if __name__ == "__main__":
    main()
