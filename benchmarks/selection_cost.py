"""Measures cost and recall of selection in catalogs of several sizes, compared with other methods (baselines).
`benchmarks.selection_quality` prints the figures."""

from __future__ import annotations

import gc
import multiprocessing
import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.labelled import answers_of, baselines, query_of, resident_mb, selector, vectors, wire
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.embedders.local import Runtime
from toolcaddie.evaluation.datasets import LabelledRequest, read_requests, read_tools
from toolcaddie.evaluation.measure import measure, percentiles, ranking_of
from toolcaddie.selection.selector import Selector

SIZES = (199, 5_000, 25_031)
TIMED = 1_000
BESIDE = {"bm25s": 300, "rrf_lex": 60, "fastmcp_bm25": 60}
"""Baselines whose time is measured too, each with the number of requests."""
DILUTED = ("rrf_lex", "minilm", "rrf")
"""Baselines whose recall is measured in the larger catalogs too."""
CHANGES = 50
"""The number of tools that are added, and of those that are removed."""
PICKED = 24
"""The number of tools that a baseline returns."""

Spent = tuple[float, float]
"""Wall-clock time and thread time, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The time from a query to the finished selection, or to a baseline's first 24 tools, in milliseconds.

    `cpu` is the thread's own time, which other work on the machine does not affect.
    """

    p50: float
    p99: float
    cpu_p50: float
    cpu_p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The figures for one size of catalog. Index, memory and changes are those of the lexical rankers."""

    tools: int
    index_s: float
    index_cpu_s: float
    index_mb: float
    changes: Mapping[str, Times]
    """Time from the changed list of tools to the first selection, by change: one tool `added`, one `removed`."""
    times: Mapping[str, Times]
    """Times by name: the names in `presets.SIGNALS` that need no embedder, and the baselines."""
    recall: Mapping[str, float]
    """recall@5 on toole's requests, by `presets.SIGNALS` and by baseline."""

    def change(self, what: str) -> tuple[float, float]:
        """Returns the cost of a change beyond a selection, wall-clock and thread time, in milliseconds."""
        usual, changed = self.times["lexical"], self.changes[what]
        return changed.p50 - usual.p50, changed.cpu_p50 - usual.cpu_p50


def cost(
    bench: Path, size: int, signals: Sequence[str], baseline_names: Sequence[str], runtime: Runtime, cache: Path
) -> Cost:
    """Measures in a process of its own: memory freed by earlier measurements would hide the size of an index."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
        return alone.submit(_cost, bench, size, signals, baseline_names, runtime, cache).result()


def _cost(
    bench: Path, size: int, signals: Sequence[str], baseline_names: Sequence[str], runtime: Runtime, cache: Path
) -> Cost:
    """Measures the requests of the set `toole`, in a catalog of this size that contains the set's tools and others."""
    view, requests = _diluted(bench / "sets", size)
    requests = random.Random(1).sample(requests, TIMED)
    index_s, index_cpu_s, index_mb = _index(view, requests)
    lexical = selector("lexical")
    times = {"lexical": _timed(lexical, view, requests)}
    changes = _changes(lexical, view, requests)
    if "plain" in signals:
        times["plain"] = _timed(selector("plain"), view, requests)
    model = vectors(runtime, cache) if "embedding" in signals else None
    recall = {
        each: measure(ranking_of(selector(each, model if each == "embedding" else None), view), requests)
        .metrics["recall@5"]
        .value
        for each in signals
    }
    tools = [wire(tool) for tool in view]
    for name, make in baselines(bench, baseline_names, model).items():
        if name not in BESIDE and name not in DILUTED:
            continue
        rank = make(tools, [])
        if name in BESIDE:
            times[name] = _timed_baseline(rank, requests[: BESIDE[name]])
        if name in DILUTED:
            recall[name] = measure(answers_of(rank, requests), requests).metrics["recall@5"].value
    return Cost(
        tools=len(view),
        index_s=index_s,
        index_cpu_s=index_cpu_s,
        index_mb=index_mb,
        changes=changes,
        times=times,
        recall=recall,
    )


def _diluted(sets: Path, size: int) -> tuple[View, Sequence[LabelledRequest]]:
    """Returns a catalog with the tools of the set `toole` and as many others as its size needs, and the requests of the set."""
    tools, requests = read_tools(sets / "toole" / "tools.jsonl"), read_requests(sets / "toole" / "queries.dev.jsonl")
    names = {tool.name for tool in tools}
    files = sorted((sets / "scale_catalog").glob("tools*.jsonl"))
    more = [tool for file in files for tool in read_tools(file) if tool.name not in names] if size > len(tools) else []
    return View(catalog=Catalog.of([*tools, *more][:size], check_schemas=False)), requests


def _index(view: View, requests: Sequence[LabelledRequest]) -> tuple[float, float, float]:
    """Returns wall-clock seconds, thread seconds and megabytes, from the catalog to its first selection."""
    first = selector("lexical")
    small = View(catalog=Catalog.of(view.catalog.tools[:50], check_schemas=False))
    first.select(small, SelectionQuery(messages=requests[0].messages), PRESETS["default"].budget)  # warms up
    gc.collect()
    before, worked, started = resident_mb(), time.thread_time(), time.perf_counter()
    first.select(view, SelectionQuery(messages=requests[0].messages), PRESETS["default"].budget)
    return time.perf_counter() - started, time.thread_time() - worked, resident_mb() - before


def _timed(ours: Selector, view: View, requests: Sequence[LabelledRequest]) -> Times:
    preset = PRESETS["default"]
    ours.select(view, SelectionQuery(messages=requests[0].messages), preset.budget)
    return _times(
        [
            _spent(partial(ours.select, view, SelectionQuery(messages=each.messages, expandable=True), preset.budget))
            for each in requests
        ]
    )


def _timed_baseline(rank: Any, requests: Sequence[LabelledRequest]) -> Times:
    return _times([_spent(partial(rank, *query_of(request), PICKED)) for request in requests])


def _spent(call: Callable[[], object]) -> Spent:
    """Returns wall-clock and thread time in milliseconds."""
    started, worked = time.perf_counter(), time.thread_time()
    call()
    return 1e3 * (time.perf_counter() - started), 1e3 * (time.thread_time() - worked)


def _times(spent: Sequence[Spent]) -> Times:
    wall, cpu = (percentiles(each) for each in zip(*spent, strict=True))
    return Times(p50=wall["p50"], p99=wall["p99"], cpu_p50=cpu["p50"], cpu_p99=cpu["p99"])


def _changes(ours: Selector, view: View, requests: Sequence[LabelledRequest]) -> Mapping[str, Times]:
    """Measures a series of changes. Each changes the catalog that the change before it produced."""
    choose, catalog = random.Random(2), view.catalog

    def changed(change: Callable[[Catalog], Catalog], query: SelectionQuery) -> None:
        nonlocal catalog
        catalog = change(catalog)
        ours.select(View(catalog=catalog), query, PRESETS["default"].budget)

    spent: dict[str, list[Spent]] = {"added": [], "removed": []}
    for number in range(CHANGES):
        model = choose.choice(catalog.tools)
        newcomer = replace(model, name=f"newcomer_{number}", description=f"{model.description} Newcomer {number}.")
        changes = {
            "added": partial(Catalog.with_tools, added=[newcomer]),
            "removed": partial(Catalog.with_tools, removed=[choose.choice(catalog.tools).name]),
        }
        for what, change in changes.items():
            query = SelectionQuery(messages=choose.choice(requests).messages, expandable=True)
            spent[what].append(_spent(partial(changed, change, query)))
    return {what: _times(each) for what, each in spent.items()}
