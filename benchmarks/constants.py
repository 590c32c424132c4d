"""Asks of each constant of selection whether it is fitted too closely to the labelled sets.

python -m benchmarks.constants [--signals plain] [--of-each 150] [--only characters,static] [--json FILE]

Each constant is changed by the factors of `FACTORS`, one constant at a time, and recall@5 of every set is measured. Then each
set is left out in turn: the factor that is best for the other sets is used for it. `left out` is the mean of the sets measured in
this way; `shipped` is the mean with the shipped constants. `best` is the mean with the factor that is best for all sets together.
Sets of the same tools are left out together. The program ends with status 1 if a mean that is left out differs from the shipped
one by more than 0.01.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from benchmarks.labelled import SETS, bench_folder, selector, vectors_of
from benchmarks.nothing_fits import SAME_TOOLS
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.evaluation.datasets import LabelledRequest, read_requests, read_tools
from toolcaddie.evaluation.measure import measure, ranking_of
from toolcaddie.ports import Embedder
from toolcaddie.selection import query, scores, search, word_table
from toolcaddie.selection.index import document, postings
from toolcaddie.selection.rankers import characters, embedding, static

FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)
MOST_APART = 0.01
"""Goal: the largest accepted distance of a mean that is left out from the shipped one."""

Change = Callable[[float], AbstractContextManager[None]]
"""Multiplies a constant by a factor for the length of a `with` block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Means of recall@5 over the sets."""

    constant: str
    shipped: float
    best_factor: float
    best: float
    left_out: float


def main() -> None:
    parser = argparse.ArgumentParser(description="Leaves each labelled set out of the choice of each constant.")
    parser.add_argument("--signals", default="plain", help="rankers of our selector; default: plain")
    parser.add_argument("--of-each", type=int, default=150, help="the number of requests of each set; default: 150")
    parser.add_argument("--only", help="names of constants, separated by commas; default: all")
    parser.add_argument("--json", help="also write every figure to this file")
    arguments = parser.parse_args()
    bench = bench_folder()
    if bench is None:
        print("skipped: no folder shared/bench beside the project; point TOOLCADDIE_SHARED at it", file=sys.stderr)
        return
    sets = {name: _read(bench / "sets" / name, arguments.of_each) for name in SETS}
    model = vectors_of(arguments.signals)
    names = arguments.only.split(",") if arguments.only else list(CONSTANTS)
    shipped = _recalls(sets, arguments.signals, model)
    figures = []
    print(f"{'constant':<24}{'shipped':>9}{'factor':>8}{'best':>8}{'left out':>10}")
    for name in names:
        by_factor = {1.0: shipped}
        for factor in (each for each in FACTORS if each != 1):
            print(f"{name} x {factor} ...", file=sys.stderr, flush=True)
            with CONSTANTS[name](factor):
                by_factor[factor] = _recalls(sets, arguments.signals, model)
        each = _figures(name, by_factor)
        figures.append(each)
        print(f"{name:<24}{each.shipped:>9.4f}{each.best_factor:>8}{each.best:>8.4f}{each.left_out:>10.4f}", flush=True)
    if arguments.json:
        Path(arguments.json).write_bytes(msgspec.json.format(msgspec.json.encode([asdict(each) for each in figures])))
    sys.exit(any(abs(each.left_out - each.shipped) > MOST_APART for each in figures))


def _read(folder: Path, most: int) -> tuple[View, Sequence[LabelledRequest]]:
    """Returns the tools of a set, and an even sample of its requests that have a right tool."""
    requests = [request for request in read_requests(folder / "queries.dev.jsonl") if request.gold]
    catalog = Catalog.of(read_tools(folder / "tools.jsonl"), check_schemas=False)
    return View(catalog=catalog), requests[:: max(1, len(requests) // most)]


def _recalls(
    sets: Mapping[str, tuple[View, Sequence[LabelledRequest]]], signals: str, model: Embedder | None
) -> dict[str, float]:
    """Returns recall@5 by set, with the constants as they are now."""
    recalls = {}
    for name, (view, requests) in sets.items():
        # A catalog of its own, because indexes are shared by all selectors of a catalog.
        fresh = View(catalog=Catalog.of(view.catalog.tools, check_schemas=False))
        measured = measure(ranking_of(selector(signals, model), fresh), requests)
        recalls[name] = measured.metrics["recall@5"].value
    return recalls


def _figures(name: str, by_factor: Mapping[float, Mapping[str, float]]) -> Figures:
    left_out = 0.0
    for held in SETS:
        apart = SAME_TOOLS if held in SAME_TOOLS else (held,)
        factor = _best(by_factor, [each for each in SETS if each not in apart])
        left_out += by_factor[factor][held]
    best = _best(by_factor, SETS)
    return Figures(
        constant=name,
        shipped=_mean(by_factor[1.0], SETS),
        best_factor=best,
        best=_mean(by_factor[best], SETS),
        left_out=left_out / len(SETS),
    )


def _best(by_factor: Mapping[float, Mapping[str, float]], names: Sequence[str]) -> float:
    """Returns the factor with the highest mean over these sets; of equal ones the one nearest to 1."""
    return max(by_factor, key=lambda factor: (round(_mean(by_factor[factor], names), 6), -abs(factor - 1)))


def _mean(recalls: Mapping[str, float], names: Sequence[str]) -> float:
    return sum(recalls[name] for name in names) / len(names)


# --- the constants ----------------------------------------------------------------------------------------------------------


def _of(module: ModuleType, name: str) -> Change:
    @contextmanager
    def change(factor: float) -> Iterator[None]:
        with _instead(module, name, getattr(module, name) * factor):
            yield

    return change


def _of_words(name: str) -> Change:
    @contextmanager
    def change(factor: float) -> Iterator[None]:
        with _of(word_table, name)(factor):
            word_table.word_table.cache_clear()  # it remembers the shares of words
            yield
        word_table.word_table.cache_clear()

    return change


def _weight(ranker: str) -> Change:
    @contextmanager
    def change(factor: float) -> Iterator[None]:
        with _instead(scores, "WEIGHTS", {**scores.WEIGHTS, ranker: scores.WEIGHTS[ranker] * factor}):
            yield

    return change


def _field(number: int, value: str) -> Change:
    @contextmanager
    def change(factor: float) -> Iterator[None]:
        fields = list(document.FIELDS)
        fields[number] = replace(fields[number], **{value: getattr(fields[number], value) * factor})
        with _instead(postings, "FIELDS", tuple(fields)):
            yield

    return change


def _belief(value: str) -> Change:
    @contextmanager
    def change(factor: float) -> Iterator[None]:
        changed = replace(static.BELIEF, **{value: getattr(static.BELIEF, value) * factor})
        with _instead(static, "BELIEF", changed):
            yield

    return change


@contextmanager
def _instead(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    shipped = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, shipped)


CONSTANTS: Mapping[str, Change] = {
    **{name: _weight(name) for name in ("bm25", "characters", "mentions", "static")},
    **{f"belief {value}": _belief(value) for value in ("weight", "sure", "name", "not_english")},
    "long message": _of(embedding, "_LONG"),
    "near": _of(scores, "NEAR"),
    "floor": _of(scores, "FLOOR"),
    "importance": _of_words("_IMPORTANT"),
    "steepness": _of_words("_STEEPNESS"),
    "least share": _of_words("_LEAST_SHARE"),
    "k1": _of(postings, "K1"),
    "counts in names": _of(postings, "NAME_COUNTS"),
    **{f"field {field.name}": _field(number, "weight") for number, field in enumerate(document.FIELDS)},
    "stop words": _of(query, "SMALL_TALK"),
    "decay": _of(query, "DECAY"),
    "self-sufficient": _of(query, "SELF_SUFFICIENT"),
    "unanswered": _of(query, "UNANSWERED"),
    "called tools": _of(query, "CALLED_WEIGHT"),
    "alike": _of(characters, "ALIKE"),
    "sharpness": _of(characters, "SHARPNESS"),
    "link in a search": _of(search, "_LEAST"),
}
"""The constants by name, each with the function that changes it."""


if __name__ == "__main__":
    main()
