"""all-MiniLM-L6-v2 with int8 weights in onnxruntime: three to four times as fast as numpy, in half of the memory, cosine .9997
with the exact vectors. The graph is made once and kept in the user's cache folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from toolcaddie.core.errors import ConfigError
from toolcaddie.embedders.cache import cached, keep
from toolcaddie.embedders.minilm import NAME, MiniLM, tokenizer, weights_file
from toolcaddie.embedders.session import Session
from toolcaddie.util.log import Logger

INT8_NAME = f"{NAME}-int8"
"""Differs from the exact model's name: near-duplicates would change places if vectors of both were compared."""

_GRAPH_VERSION = 1
"""Version of the graph that `bert_int8` makes: cached graphs of other versions are not used."""

log = Logger(__name__)


def minilm_int8(make_graph: Callable[[], bytes]) -> MiniLM:
    """Returns the model in onnxruntime.

    `make_graph` is called if the cache has no graph of these weights, or one that cannot be run: only then is `onnx` needed.
    Raises whatever it raises, and `ConfigError` if the package is damaged or onnxruntime too old.
    """
    with weights_file().open("rb") as file:
        digest = hashlib.file_digest(file, hashlib.blake2b).hexdigest()[:32]
    name = f"{INT8_NAME}-{digest}-{_GRAPH_VERSION}.onnx"
    session = _cached_session(name) or _new_session(name, make_graph())
    return MiniLM(session, tokenizer(), name=INT8_NAME)


def _cached_session(name: str) -> Session | None:
    graph = cached(name)
    if graph is None:
        return None
    try:
        return Session(graph)
    except Exception as error:  # noqa: BLE001  a damaged file makes onnxruntime raise nearly anything; it is made again
        log.warning("cache_damaged", file=name, error=str(error)[:200])
        return None


def _new_session(name: str, graph: bytes) -> Session:
    try:
        session = Session(graph)
    except Exception as error:  # its own classes, one for each way of failing; none of them is public
        raise ConfigError(
            f"this onnxruntime cannot run the model: {str(error)[:300]}; pip install -U onnxruntime"
        ) from error
    keep(name, graph)
    return session
