"""What it costs to hold the vectors of a large catalog in each process, or in PostgreSQL for all of them:

    python -m benchmarks.replicas.vectors [--tools 30000 100000] [--requests 200] [--embedder minilm]

It starts a PostgreSQL with pgvector, and one process after the other: two replicas with all vectors in memory, and two with the
vectors in the database. Each prepares the same catalog and selects tools for the same requests. Without `--embedder`, a text is
the sum of random directions of its words, 384 numbers, so that embedding takes no time: a model adds 10 to 20 ms for each tool.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hashlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from benchmarks.replicas.postgres import Postgres
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.message import Message
from toolcaddie.core.presets import SelectionSettings
from toolcaddie.core.selection import Budget, SelectionQuery
from toolcaddie.core.tool import Tool
from toolcaddie.embedders.local import minilm
from toolcaddie.embedders.prepared import Prepared
from toolcaddie.evaluation.simulation.scripts import generated_catalog
from toolcaddie.ports import Embedder
from toolcaddie.runtime.shared_fetching import Fetching
from toolcaddie.runtime.shared_filling import Filling
from toolcaddie.runtime.vectors import Vectors
from toolcaddie.selection.query import query_words
from toolcaddie.selection.rankers.embedding import belief_of, request_of, vectors_of
from toolcaddie.selection.selector import Selector
from toolcaddie.storage.database import Database
from toolcaddie.storage.vector_index import PostgresVectors
from toolcaddie.util.replacing import replace

Floats = npt.NDArray[np.float32]

_DIMENSIONS = 384
_PORT = 54_399
_SERVER = 50
"""Tools of one server: each is about the same thing, in a system with a name of its own."""
_SYLLABLES = (
    "ba",
    "cor",
    "del",
    "fen",
    "gri",
    "hal",
    "jo",
    "kem",
    "lu",
    "mon",
    "nar",
    "ost",
    "pel",
    "qui",
    "ras",
    "tov",
)
_RANKERS = ("categories", "bm25", "characters", "mentions", "table", "embedding")
_SEEN = (1.0, 0.5, 0.1, 0.04)
"""Shares of the catalog that callers may see."""
_NEVER = 10**9


class Words:
    """The embedder that takes no time."""

    name = "words"
    dimensions = _DIMENSIONS
    languages = None

    def embed(self, texts: Sequence[str]) -> Floats:
        rows = [
            np.sum([_direction(word) for word in text.lower().split()] or [_direction("")], axis=0) for text in texts
        ]
        sums = np.array(rows, dtype=np.float32).reshape(-1, _DIMENSIONS)
        return np.asarray(sums / np.linalg.norm(sums, axis=1, keepdims=True), dtype=np.float32)


@cache
def _direction(word: str) -> Floats:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(_DIMENSIONS).astype(np.float32)


def catalog_of(count: int) -> Catalog:
    """Returns that many tools of many servers, each with words of its own."""
    random, made = Random(1), generated_catalog(5_000, 1)
    tools: list[Tool] = []
    while len(tools) < count:
        system = "".join(random.choices(_SYLLABLES, k=3))
        for tool in random.sample(made.tools, _SERVER):
            words = " ".join(random.choices(_SYLLABLES, k=2))
            description = f"{tool.description} In {system.title()}, area {words}."
            tools.append(replace(tool, name=f"{system}_{len(tools)}_{tool.name}"[:64], description=description))
    return Catalog.of(tools[:count], made.categories, check_schemas=False)


def requests_of(catalog: Catalog, count: int) -> list[SelectionQuery]:
    """Returns requests that say half of the words of some tool."""
    random = Random(2)
    said = [random.choice(catalog.tools).description.split() for _ in range(count)]
    texts = [" ".join(random.sample(words, len(words) // 2)) for words in said]
    return [SelectionQuery(messages=(Message(role="user", content=text),)) for text in texts]


async def measured(kind: str, url: str, tools: int, requests: int, embedder: Embedder) -> dict[str, Any]:
    """Returns the figures of one process. `kind`: "words", "memory" or "shared"."""
    catalog = catalog_of(tools)
    queries, view, budget = requests_of(catalog, requests), View(catalog=catalog), Budget(max_tools=20)
    async with Database(url) as database:
        index = PostgresVectors(url) if kind == "shared" else None
        vectors = Vectors(embedder, database.store, patience=60.0, index=index, most_in_memory=0 if index else _NEVER)
        names = _RANKERS if kind != "words" else _RANKERS[:-2]
        selector = Selector(SelectionSettings(rankers=names), vectors.rankers)
        started = time.perf_counter()
        if kind != "words":
            await vectors.make_all(catalog)
        prepared = time.perf_counter() - started
        selector.select(view, queries[0], budget)
        for thread in threading.enumerate():
            if thread.name == "toolcaddie-graph":
                await asyncio.to_thread(thread.join)
        ready = time.perf_counter() - started
        seconds = []
        for query in queries:
            started = time.perf_counter()
            if kind != "words":
                await vectors.make_ready(view, selector.settings, query)
            await asyncio.to_thread(selector.select, view, query, budget)
            seconds.append(time.perf_counter() - started)
        gc.collect()
        figures = {
            "prepared_s": prepared,
            "ready_s": ready,
            "memory_mb": psutil.Process().memory_info().rss / 1e6,
            "p50_ms": float(np.percentile(seconds, 50)) * 1e3,
            "p95_ms": float(np.percentile(seconds, 95)) * 1e3,
        }
        if index is not None:
            figures["recall"] = await _recalls(catalog, queries, embedder, index)
        await vectors.close()
        return figures


async def _recalls(
    catalog: Catalog, queries: Sequence[SelectionQuery], embedder: Embedder, index: PostgresVectors
) -> list[dict[str, float]]:
    """Returns how many of the nearest visible tools are fetched, and how long that takes, by the share that is visible."""
    prepared = Prepared(embedder)
    filling, fetching = Filling(prepared, index), Fetching(prepared, index)
    shared = await filling.filled(catalog, None, day=int(time.time()) // 86_400)
    matrix = np.concatenate(
        [
            vectors_of(catalog.tools[at : at + 1_000], embedder, belief_of(embedder))
            for at in range(0, len(catalog), 1_000)
        ]
    )
    figures = []
    for share in _SEEN:
        visible = None if share == 1 else np.random.default_rng(3).random(len(catalog)) < share
        hits: dict[int, list[float]] = {10: [], 20: [], 100: []}
        seconds = []
        for query in queries[:50]:
            words = query_words(query, window=8, window_user=4)
            started = time.perf_counter()
            await fetching.fetch(shared, words, visible)
            seconds.append(time.perf_counter() - started)
            near, read = fetching.near(catalog, words, visible), request_of(words, prepared, belief_of(embedder))
            assert near is not None
            assert read is not None
            cosines = matrix @ read[-1]
            if visible is not None:
                cosines[~visible] = -1
            best = np.argsort(-cosines, kind="stable")
            for count, of_count in hits.items():
                of_count.append(len(np.intersect1d(best[:count], near.positions)) / count)
        recalls = {f"recall_{count}": float(np.mean(values)) for count, values in hits.items()}
        figures.append({"seen": share, **recalls, "fetch_p50_ms": float(np.percentile(seconds, 50)) * 1e3})
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=int, nargs="+", default=[30_000, 100_000])
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--embedder", choices=["minilm"])
    parser.add_argument("--one", nargs=2, metavar=("KIND", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    embedder: Any = minilm() if options.embedder == "minilm" else Words()
    if options.one:
        kind, url = options.one
        print(json.dumps(asyncio.run(measured(kind, url, options.tools[0], options.requests, embedder))))
        return
    for tools in options.tools:
        print(f"{tools:,} tools, {options.requests} requests, embedder {embedder.name}", flush=True)
        print(f"{'process':<24}{'prepared s':>11}{'ready s':>9}{'MB':>7}{'p50 ms':>8}{'p95 ms':>8}", flush=True)
        server = Postgres(_PORT)
        server.start()
        try:
            for kind, name in (
                ("words", "words alone"),
                ("memory", "in memory, first"),
                ("memory", "in memory, second"),
                ("shared", "in PostgreSQL, first"),
                ("shared", "in PostgreSQL, second"),
            ):
                figures = _child(kind, server.url, tools, options)
                print(
                    f"{name:<24}{figures['prepared_s']:>11.1f}{figures['ready_s']:>9.1f}{figures['memory_mb']:>7.0f}"
                    f"{figures['p50_ms']:>8.1f}{figures['p95_ms']:>8.1f}",
                    flush=True,
                )
            for row in figures["recall"]:
                print(
                    f"sees {row['seen']:.0%}: recall@10 {row['recall_10']:.3f}, @20 {row['recall_20']:.3f}, "
                    f"@100 {row['recall_100']:.3f}, fetched in {row['fetch_p50_ms']:.1f} ms"
                )
        finally:
            server.remove()


def _child(kind: str, url: str, tools: int, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the figures of a process of its own."""
    words = ["--tools", str(tools), "--requests", str(options.requests), "--one", kind, url]
    words += ["--embedder", options.embedder] if options.embedder else []
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.replicas.vectors", *words], check=True, stdout=subprocess.PIPE, text=True
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
