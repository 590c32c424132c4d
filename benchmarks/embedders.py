"""The cost of the local sentence model that turns texts into vectors, on one core: its start, the vector of a request, and the
vectors of 1,000 tools.

OPENBLAS_NUM_THREADS=1 python -m benchmarks.embedders

The model runs with numpy or with onnxruntime. Numpy uses as many threads as this variable allows; onnxruntime uses one.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks import selection
from toolcaddie.core.errors import ConfigError
from toolcaddie.embedders.local import Runtime, minilm
from toolcaddie.embedders.prepared import Prepared
from toolcaddie.ports import Embedder
from toolcaddie.selection.rankers.embedding import tool_texts
from toolcaddie.storage.memory import MemoryStore

GOALS_MS: dict[Runtime, float] = {"numpy": 15.0, "onnx": 4.0}
TOOLS = 1_000
REQUESTS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of a runtime, numpy or onnx. The `p50` and `p99` figures are those of a request's vector; those with `cpu` are
    the thread's own time, which other work on the machine affects less."""

    runtime: str
    load_s: float
    p50_ms: float
    p99_ms: float
    cpu_p50_ms: float
    cpu_p99_ms: float
    goal_ms: float
    tools: int
    catalog_s: float
    """Seconds for the vectors of the catalog, if none are stored."""
    again_s: float
    """Seconds for the same catalog with the vectors stored before."""
    cosine: float
    """Cosine between the vector and the exact one, mean over the requests."""


def run(tools: int = TOOLS, requests: int = REQUESTS) -> list[Row]:
    """Returns one row per runtime; each request is a different short text.

    Raises `ConfigError` if the model is not installed.
    """
    texts = _requests(requests)
    exact = minilm(runtime="numpy").embed(texts)
    return [_measured(runtime, tools, texts, exact) for runtime in GOALS_MS]


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns the goals that the rows miss."""
    return [f"{row.runtime}: {row.p50_ms:.2f} ms p50" for row in rows if row.p50_ms > row.goal_ms]


def main(arguments: Sequence[str] = ()) -> list[Row]:
    try:
        rows = run(tools=100, requests=100) if "--quick" in arguments else run()
    except ConfigError as error:
        print(error)
        return []
    print(
        f"{'runtime':<8} {'load s':>7} {'p50 ms':>7} {'p99 ms':>7} {'CPU p50':>8} {'CPU p99':>8} {'goal p50':>9} "
        f"{'tools':>6} {'catalog s':>10} {'again s':>8} {'cosine':>7}"
    )
    for row in rows:
        print(
            f"{row.runtime:<8} {row.load_s:>7.2f} {row.p50_ms:>7.2f} {row.p99_ms:>7.2f} {row.cpu_p50_ms:>8.2f} "
            f"{row.cpu_p99_ms:>8.2f} {row.goal_ms:>9.1f} {row.tools:>6,} {row.catalog_s:>10.1f} "
            f"{row.again_s:>8.2f} {row.cosine:>7.4f}"
        )
    return rows


def _measured(runtime: Runtime, tools: int, texts: Sequence[str], exact: np.ndarray) -> Row:
    minilm(runtime=runtime)  # onnx builds its graph at the very first start only, which is not measured
    started = time.perf_counter()
    embedder = minilm(runtime=runtime)
    load_s = time.perf_counter() - started
    embedder.embed(texts[:3])
    timed = [_timed(embedder, text) for text in texts]
    wall, cpu = sorted(wall for wall, _ in timed), sorted(cpu for _, cpu in timed)
    documents = MemoryStore()
    return Row(
        runtime=runtime,
        load_s=load_s,
        p50_ms=wall[len(wall) // 2] * 1e3,
        p99_ms=wall[int(len(wall) * 0.99)] * 1e3,
        cpu_p50_ms=cpu[len(cpu) // 2] * 1e3,
        cpu_p99_ms=cpu[int(len(cpu) * 0.99)] * 1e3,
        goal_ms=GOALS_MS[runtime],
        tools=tools,
        catalog_s=_catalog_seconds(Prepared(embedder, documents), tools),
        again_s=_catalog_seconds(Prepared(embedder, documents), tools),
        cosine=float((exact * embedder.embed(texts)).sum(axis=1).mean()),
    )


def _timed(embedder: Embedder, text: str) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.thread_time()
    embedder.embed([text])
    return time.perf_counter() - wall, time.thread_time() - cpu


def _catalog_seconds(prepared: Prepared, tools: int) -> float:
    catalog = selection.catalog(tools)
    texts = [text for tool in catalog.tools for text in tool_texts(tool)]
    started = time.perf_counter()
    asyncio.run(prepared.prepare_lasting(texts))
    return time.perf_counter() - started


def _requests(count: int) -> list[str]:
    dice = random.Random(1)
    return [f"{selection.request(dice)} ({number})" for number in range(count)]


if __name__ == "__main__":
    main(sys.argv[1:])
