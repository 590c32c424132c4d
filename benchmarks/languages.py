"""Selection for requests in another language than the catalog, beside its goals.

python -m benchmarks.languages [--signals plain,e5] [--json FILE]

Measured are `xsid` and `schuster_es` of the labelled sets; 100 requests of `toole` and `bfcl_live` in six languages and Kazakh;
and the sample gym: 30 requests in eleven languages, and its catalog in Spanish, German and Chinese. The translations in
`benchmarks/data` were made for this benchmark.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path

import msgspec

from benchmarks.labelled import bench_folder, selector, vectors_of
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.message import Message
from toolcaddie.core.tool import Tool
from toolcaddie.evaluation.datasets import LabelledRequest, read_requests, read_tools
from toolcaddie.evaluation.measure import measure, ranking_of
from toolcaddie.samples import gym
from toolcaddie.selection.selector import Selector

DATA = Path(__file__).with_name("data")
DAY = date(2026, 3, 18)

XSID_FOREIGN = ("de", "it", "nl", "tr", "id", "zh", "ja", "ar")
SIX = ("es", "pt", "de", "fr", "zh", "ar")
GYM_FOREIGN = (*XSID_FOREIGN, "es", "pt", "fr")
CATALOGS = ("es", "de", "zh")

GOALS: Mapping[str, Mapping[str, float]] = {
    "plain": {"xsid": 0.68, "schuster_es": 0.76, "six": 0.62, "gym": 0.75, "english": 0.60},
    "e5": {"xsid": 0.86, "schuster_es": 0.91, "six": 0.85, "gym": 0.95, "english": 0.85, "kazakh": 0.70},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured recall@5, or a ratio of two, and its goal, if there is one."""

    signals: str
    what: str
    value: float
    goal: float | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description="Selection for requests in other languages.")
    parser.add_argument("--signals", default="plain,e5", help="rankers of our selector; default: plain,e5")
    parser.add_argument("--json", help="also write every figure to this file")
    arguments = parser.parse_args()
    bench = bench_folder()
    figures: list[Figure] = []
    for signals in arguments.signals.split(","):
        chosen = selector(signals, vectors_of(signals))
        figures += _of_gym(signals, chosen)
        if bench is None:
            print("no folder shared/bench beside the project: only the gym is measured", file=sys.stderr)
            continue
        figures += _of_sets(signals, chosen, bench / "sets")
    for each in figures:
        verdict = (
            "" if each.goal is None else f"  goal {each.goal:.2f}  {'met' if each.value >= each.goal else 'MISSED'}"
        )
        print(f"{each.signals:8} {each.what:58} {each.value:6.3f}{verdict}")
    if arguments.json:
        Path(arguments.json).write_bytes(msgspec.json.format(msgspec.json.encode([asdict(each) for each in figures])))
    sys.exit(any(each.goal is not None and each.value < each.goal for each in figures))


def _of_sets(signals: str, chosen: Selector, sets: Path) -> Iterator[Figure]:
    goals = GOALS.get(signals, {})
    by_kind = defaultdict(list)
    lines = (sets / "xsid" / "queries.dev.jsonl").read_text(encoding="utf-8").splitlines()
    for request, line in zip(read_requests(sets / "xsid" / "queries.dev.jsonl"), lines, strict=True):
        by_kind[json.loads(line)["kind"]].append(request)
    view = _view(read_tools(sets / "xsid" / "tools.jsonl"))
    recalls = {kind: _recall(chosen, view, requests) for kind, requests in sorted(by_kind.items())}
    for kind, value in recalls.items():
        yield Figure(signals=signals, what=f"xsid {kind}", value=value)
    mean = _mean([recalls[kind] for kind in XSID_FOREIGN])
    yield Figure(signals=signals, what="xsid, mean of eight languages", value=mean, goal=goals.get("xsid"))

    spanish = read_requests(sets / "schuster_es" / "queries.dev.jsonl")
    value = _recall(chosen, _view(read_tools(sets / "schuster_es" / "tools.jsonl")), spanish)
    yield Figure(signals=signals, what="schuster_es", value=value, goal=goals.get("schuster_es"))

    yield from _of_translated(signals, chosen, sets)


def _of_translated(signals: str, chosen: Selector, sets: Path) -> Iterator[Figure]:
    """Yields figures of the requests of two public sets that were translated; their right tools are read from the sets."""
    goals = GOALS.get(signals, {})
    translated = [
        json.loads(line) for line in (DATA / "public_requests.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    sums: dict[str, float] = defaultdict(float)
    names = sorted({row["set"] for row in translated})
    for name in names:
        view = _view(read_tools(sets / name / "tools.jsonl"))
        file = sets / name / "queries.dev.jsonl"
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        english = {line["id"]: request for line, request in zip(lines, read_requests(file), strict=True)}
        by_kind: dict[str, list[LabelledRequest]] = defaultdict(list)
        for row in translated:
            if row["set"] == name:
                by_kind[row["kind"]].append(_with_text(english[row["id"]], row["query"]))
                if row["kind"] == "es":
                    by_kind["en"].append(english[row["id"]])
        for kind, requests in by_kind.items():
            value = _recall(chosen, view, requests)
            sums[kind] += value / len(names)
            yield Figure(signals=signals, what=f"{name} {kind}", value=value)
    ratio = _mean([sums[kind] for kind in SIX]) / sums["en"]
    yield Figure(
        signals=signals, what="toole and bfcl_live, six languages / English", value=ratio, goal=goals.get("six")
    )
    yield Figure(signals=signals, what="toole and bfcl_live, Kazakh", value=sums["kk"], goal=goals.get("kazakh"))


def _of_gym(signals: str, chosen: Selector) -> Iterator[Figure]:
    goals = GOALS.get(signals, {})
    english = gym.source(today=DAY).tools()
    requests: dict[str, list[LabelledRequest]] = defaultdict(list)
    for line in (DATA / "gym_requests.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        message = Message(role="user", content=row["query"])
        requests[row["kind"]].append(LabelledRequest(messages=(message,), gold=frozenset(row["gold"]), group=row["id"]))
    view = _view(english)
    recalls = {kind: _recall(chosen, view, each) for kind, each in requests.items()}
    for kind, value in recalls.items():
        yield Figure(signals=signals, what=f"gym {kind}", value=value)
    ratio = _mean([recalls[kind] for kind in GYM_FOREIGN]) / recalls["en"]
    yield Figure(signals=signals, what="gym, eleven languages / English", value=ratio, goal=goals.get("gym"))
    for kind in CATALOGS:
        tools, names = _translated_gym(english, kind)
        view = _view(tools)
        own = _recall(chosen, view, [_renamed(each, names) for each in requests[kind]])
        other = _recall(chosen, view, [_renamed(each, names) for each in requests["en"]])
        yield Figure(signals=signals, what=f"gym in {kind}: requests in {kind}", value=own)
        what = f"gym in {kind}: English requests / requests in {kind}"
        yield Figure(signals=signals, what=what, value=other / own, goal=goals.get("english"))


def _translated_gym(english: Sequence[Tool], kind: str) -> tuple[list[Tool], dict[str, str]]:
    """Returns the gym's tools with names and descriptions of a language, without categories, and the new names by the old."""
    rows = [json.loads(line) for line in (DATA / "gym_catalogs.jsonl").read_text(encoding="utf-8").splitlines()]
    texts = {row["tool"]: row for row in rows if row["kind"] == kind}
    tools = [
        replace(
            tool,
            name=texts[tool.name]["name"],
            description=texts[tool.name]["description"],
            input_schema={"type": "object", "properties": {}},
            category=None,
            hints=(),
        )
        for tool in english
    ]
    return tools, {name: row["name"] for name, row in texts.items()}


def _renamed(request: LabelledRequest, names: Mapping[str, str]) -> LabelledRequest:
    return replace(request, gold=frozenset(names[name] for name in request.gold))


def _with_text(request: LabelledRequest, text: str) -> LabelledRequest:
    return replace(request, messages=(*request.messages[:-1], Message(role="user", content=text)))


def _view(tools: Sequence[Tool]) -> View:
    return View(catalog=Catalog.of(tools, check_schemas=False))


def _recall(chosen: Selector, view: View, requests: Sequence[LabelledRequest]) -> float:
    return measure(ranking_of(chosen, view), requests).metrics["recall@5"].value


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    main()
