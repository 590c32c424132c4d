"""Fits the weights of the word rankers to all labelled sets together, and compares them with the shipped weights.

python -m benchmarks.fit_weights [--write]

A word ranker scores tools by the words of the request; a weight says how much its scores count. The same number of requests is
drawn from the development part of each set with a fixed seed, so that every set counts the same. `--write` puts the result into
`toolcaddie/selection/weights.toml`. It differs from the shipped weights only if the gain on requests not used for fitting is more
than chance.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from benchmarks.labelled import SETS, bench_folder
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.evaluation.datasets import LabelledRequest, read_requests, read_tools
from toolcaddie.evaluation.fit import Case, by_selection, case_of, fitted
from toolcaddie.selection.scores import WEIGHTS_FILE, weights_of
from toolcaddie.selection.selector import Selector

OF_EACH = 150


def main() -> None:
    parser = argparse.ArgumentParser(description="Fits the weights of the word rankers to the labelled sets.")
    parser.add_argument("--write", action="store_true", help=f"write {WEIGHTS_FILE.name}")
    write = parser.parse_args().write
    folder = bench_folder()
    if folder is None:
        print("skipped: no folder shared/bench beside the project; point TOOLCADDIE_SHARED at it", file=sys.stderr)
        return
    cases: list[Case] = []
    start: dict[str, float] = {}
    for name in SETS:
        of_set, start = _cases(folder / "sets" / name, name)
        cases += of_set
    fit = fitted(cases, by_selection, start)
    for name, weight in fit.weights.items():
        print(f"{name:<12} {fit.start[name]:.3g} -> {weight:.3g}")
    print(f"gain on requests not seen: {fit.gain.value:+.4f} [{fit.gain.low:+.4f}, {fit.gain.high:+.4f}]")
    weights = fit.weights if fit.recommended else fit.start
    print("the fitted ones are better" if fit.recommended else "no gain beyond chance: the shipped weights stay")
    if write:
        comment, *_ = WEIGHTS_FILE.read_text().partition("\n\n")
        Path(WEIGHTS_FILE).write_text("\n".join([comment, "", *(f"{k} = {v:.3g}" for k, v in weights.items())]) + "\n")


def _cases(folder: Path, name: str) -> tuple[list[Case], dict[str, float]]:
    """Returns the cases of a labelled set for fitting, and the shipped weights by ranker."""
    catalog = Catalog.of(read_tools(folder / "tools.jsonl"), check_schemas=False)
    view, selector = View(catalog=catalog), Selector(PRESETS["default"].selection)
    requests = [request for request in read_requests(folder / "queries.dev.jsonl") if request.gold]
    start: dict[str, float] = {}

    def case(request: LabelledRequest) -> Case:
        nonlocal start
        signals = selector.signals(view, SelectionQuery(messages=request.messages))
        start = weights_of(signals, {})
        places = [place for tool in request.gold if (place := catalog.position(tool)) is not None]
        return case_of(
            signals.by_ranker, signals.own_weights, places, len(request.gold) - len(places), f"{name}:{request.group}"
        )

    cases = [case(request) for request in random.Random(0).sample(requests, min(OF_EACH, len(requests)))]
    return cases, start


if __name__ == "__main__":
    main()
