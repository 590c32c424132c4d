"""Helpers of the selection benchmarks: public labelled sets (requests with the right tools), the other selection methods that are
compared (baselines), and our selector.

The sets are in a folder `shared` beside the project, or in the folder that TOOLCADDIE_SHARED names. Baselines need
`pip install --group bench`; a baseline whose packages are missing is omitted, with a message.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.vector_cache import VectorCache
from toolcaddie.core.presets import PRESETS, SIGNALS
from toolcaddie.core.tool import Tool
from toolcaddie.embedders.local import Runtime, e5, minilm
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.evaluation.measure import DEPTH, Answer, Rank
from toolcaddie.ports import Embedder
from toolcaddie.selection.rankers import embedding, static
from toolcaddie.selection.selector import Selector

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
LEXICAL_BASELINES = ("fastmcp_bm25", "rank_bm25", "bm25s", "tfidf_char", "rrf_lex")
MODEL_BASELINES = ("minilm", "minilm_full", "rrf", "rrf_full")
"""Baselines that use vectors. They get the vectors of the same model as our selector. `full` includes a tool's parameters."""
_FULL = "_full"
CACHE = Path(tempfile.gettempdir()) / "toolcaddie-bench"

Baseline = Callable[..., Any]


def bench_folder() -> Path | None:
    """Returns the folder of the labelled sets, or None if there is none."""
    root = os.environ.get("TOOLCADDIE_SHARED")
    folder = (Path(root) if root else Path(__file__).parents[1].parent / "shared") / "bench"
    return folder if folder.is_dir() else None


def vectors(runtime: Runtime = "numpy", folder: Path = CACHE) -> VectorCache:
    """Returns all-MiniLM-L6-v2 with a cache in `folder`. Raises `ConfigError` if its packages are missing."""
    return VectorCache(minilm(runtime=runtime), folder)


def vectors_of(signals: str) -> Embedder | None:
    """Returns the model of these rankers, with its cache; None if they need none. Raises `ConfigError` if its packages
    are missing."""
    if signals == "e5":
        return VectorCache(e5(), CACHE)
    return vectors() if signals == "embedding" else None


def baselines(bench: Path, names: Sequence[str], model: Embedder | None) -> dict[str, Baseline]:
    """Returns baselines by name, without those whose packages are missing. Those that embed use `model` instead of torch."""
    if str(bench) not in sys.path:
        sys.path.insert(0, str(bench))
    module = importlib.import_module("baselines")
    if model is not None:
        module.Emb.encode = module.Emb.cached = model.embed
    available: dict[str, Baseline] = {}
    for name in names:
        if name in MODEL_BASELINES and model is None:
            continue
        make = getattr(module, name.removesuffix(_FULL))
        try:
            make.warm()
        except ImportError as error:
            print(f"omitted: {name} needs {error.name}", file=sys.stderr)
        else:
            available[name] = partial(make, full=1) if name.endswith(_FULL) else make
    return available


def selector(signals: str, model: Embedder | None = None) -> Selector:
    """Returns the selector of the default preset with the rankers of `SIGNALS`; `e5` has those of `embedding`."""
    makers = static.with_embedder(model, embedding.factory(model)) if model is not None else {}
    names = SIGNALS["embedding" if signals == "e5" else signals]
    return Selector(replace(PRESETS["default"].selection, rankers=names), makers)


def answers_of(rank: Any, requests: Sequence[LabelledRequest] = ()) -> Rank:
    """Returns a function with a baseline's answers; it may embed all `requests` in advance."""
    if hasattr(rank, "prefetch"):
        rank.prefetch([query_of(request) for request in requests])

    def answer(request: LabelledRequest) -> Answer:
        query, history = query_of(request)
        if rank.scored is None:
            return Answer(names=rank(query, history, DEPTH))
        scored = rank.scored(query, history, DEPTH)
        return Answer(names=[name for name, _ in scored], fit=scored[0][1] if scored else 0.0)

    return answer


def query_of(request: LabelledRequest) -> tuple[str, list[str]]:
    """Returns a request as the baselines read it: the last message, and the earlier ones."""
    return request.messages[-1].text, [f"{message.role}: {message.text}" for message in request.messages[:-1]]


def wire(tool: Tool) -> Mapping[str, Any]:
    """Returns a tool as the baselines read it."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "category": tool.category,
    }


def resident_mb() -> float:
    """Returns the memory that this process occupies."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
