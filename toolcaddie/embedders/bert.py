"""The forward pass of a small BERT in numpy (Devlin et al. 2019), with sentence vectors by mean pooling (Reimers and Gurevych
2019). It turns weights and token ids into vectors; `minilm` reads files and texts.

All numbers are float32. The vectors differ from those of the reference in torch by at most 1e-6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.core.errors import ConfigError

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The dimensions of a BERT model; the defaults are those of all-MiniLM-L6-v2."""

    layers: int = 6
    heads: int = 12
    width: int = 384
    inner: int = 1536
    positions: int = 512
    epsilon: float = 1e-12
    """Keeps the layer norm from dividing by 0."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linear:
    """x @ weight + bias; `weight` is [in, out]."""

    weight: Floats
    bias: Floats

    def __call__(self, x: Floats) -> Floats:
        y: Floats = x @ self.weight
        y += self.bias
        return y


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Norm:
    """Layer norm: each row gets mean 0 and variance 1, then is multiplied by `scale`, and `shift` is added."""

    scale: Floats
    shift: Floats
    epsilon: float

    def __call__(self, x: Floats) -> Floats:
        """Returns the normalized rows. Overwrites `x`."""
        width = np.float32(x.shape[-1])
        x -= x.sum(axis=-1, keepdims=True) / width
        spread = np.einsum("...i,...i->...", x, x)[..., None] / width
        x /= np.sqrt(spread + np.float32(self.epsilon))
        x *= self.scale
        x += self.shift
        return x


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """The weights of one transformer layer."""

    attend: Linear
    """Queries, keys and values in one product, [width, 3 * width], because reading weights takes most of the time on one core.
    The weights of the queries already include the factor 1 / sqrt(head size)."""
    gather: Linear
    """Output projection of the attention."""
    gathered: Norm
    """Norm after the attention."""
    widen: Linear
    """First product of the feed-forward network."""
    narrow: Linear
    """Second product of the feed-forward network."""
    narrowed: Norm
    """Norm after the feed-forward network."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parts:
    """All weights of a model in the form that the forward pass uses."""

    words: Floats
    """Word embeddings, [vocabulary, width]."""
    places: Floats
    """Position embeddings, [positions, width]. The embedding of the sentence type is already added: only one type is used."""
    norm: Norm
    layers: tuple[Layer, ...]


class Bert:
    """A model that turns token ids into sentence vectors.

    `weights` are named as in the checkpoints of Hugging Face's BertModel. Raises `ConfigError` if a weight is missing or has
    another shape.
    """

    def __init__(self, weights: Mapping[str, Floats], shape: Shape | None = None) -> None:
        self._shape = shape or Shape()
        self._parts = parts_of(weights, self._shape)

    def __call__(self, ids: Ints) -> Floats:
        """Returns the vectors of texts, [texts, tokens] -> [texts, width], each row a unit vector.

        All texts of one call have the same number of tokens. Nothing is padded, so the vector of a text depends on the other
        texts of the call at most in its last bit.
        """
        texts, tokens = ids.shape
        x = self._parts.words[ids] + self._parts.places[:tokens]
        x = self._parts.norm(x.reshape(texts * tokens, -1))
        for layer in self._parts.layers:
            x = self._through(layer, x, texts, tokens)
        return unit(x.reshape(texts, tokens, -1).mean(axis=1))

    def _through(self, layer: Layer, x: Floats, texts: int, tokens: int) -> Floats:
        """Returns the output of one layer. `x` has a row for each token of all texts."""
        attended = layer.gather(self._attention(layer.attend(x), texts, tokens))
        attended += x
        x = layer.gathered(attended)
        narrowed = layer.narrow(gelu(layer.widen(x)))
        narrowed += x
        return layer.narrowed(narrowed)

    def _attention(self, x: Floats, texts: int, tokens: int) -> Floats:
        """Returns the attention of each token to the tokens of its text. `x` has queries, keys and values side by side."""
        heads = self._shape.heads
        q, k, v = x.reshape(texts, tokens, 3, heads, -1).transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed: Floats = (scores @ v).swapaxes(1, 2).reshape(texts * tokens, -1)
        return mixed


def unit(x: Floats) -> Floats:
    """Returns each row scaled to length 1; a row of zeros stays as it is."""
    lengths = np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
    scaled: Floats = np.divide(x, lengths, out=np.zeros_like(x), where=lengths > 0)
    return scaled


_ERF = tuple(np.float32(c) for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
_ERF_P = np.float32(0.3275911)
_ROOT_HALF = np.float32(0.7071067811865476)


def gelu(x: Floats) -> Floats:
    """Returns x * Phi(x) with the exact Phi, computed by erf, and not with the usual approximation by tanh, which is wrong by
    1e-3.

    numpy has no erf, so formula 7.1.26 of Abramowitz and Stegun is used; its error is below 1.5e-7. Overwrites `x`.
    """
    z = np.abs(x)
    z *= _ROOT_HALF
    t = z * _ERF_P
    t += np.float32(1.0)
    np.reciprocal(t, out=t)
    np.multiply(z, z, out=z)
    np.negative(z, out=z)
    np.exp(z, out=z)
    tail = t * _ERF[0]
    for c in _ERF[1:]:
        tail += c
        tail *= t
    tail *= z  # 1 - erf(|x| / sqrt 2)
    tail *= np.float32(0.5)
    # Phi(x) is `tail` for x < 0 and 1 - `tail` for x > 0, so x * Phi(x) is max(x, 0) - |x| * tail in both cases.
    tail *= np.abs(x)
    np.maximum(x, np.float32(0.0), out=x)
    x -= tail
    return x


def parts_of(weights: Mapping[str, Floats], shape: Shape) -> Parts:
    """Returns the weights in the form that the forward pass uses. Raises `ConfigError` if a weight is missing or has another
    shape."""
    places = _weight(weights, "embeddings.position_embeddings.weight", (shape.positions, shape.width))
    kinds = _weight(weights, "embeddings.token_type_embeddings.weight", (None, shape.width))
    return Parts(
        words=_weight(weights, "embeddings.word_embeddings.weight", (None, shape.width)),
        places=places + kinds[0],
        norm=_norm(weights, "embeddings.LayerNorm", shape),
        layers=tuple(_layer(weights, f"encoder.layer.{i}", shape) for i in range(shape.layers)),
    )


def _weight(weights: Mapping[str, Floats], name: str, shape: tuple[int | None, ...]) -> Floats:
    """Returns the weight of this name as float32. None in `shape` stands for any size. Raises `ConfigError` if the weight is
    missing or has another shape."""
    weight = weights.get(name)
    if weight is None:
        raise ConfigError(f"the model has no weight {name!r}: it is not a BERT model of the supported kind")
    if len(weight.shape) != len(shape) or any(w not in (None, f) for f, w in zip(weight.shape, shape, strict=True)):
        raise ConfigError(f"the model's weight {name!r} has shape {weight.shape}; {shape} was expected")
    return np.ascontiguousarray(weight, dtype=np.float32)


def _linear(weights: Mapping[str, Floats], name: str, wide: int, out: int) -> Linear:
    transposed = _weight(weights, f"{name}.weight", (out, wide)).T
    return Linear(weight=np.ascontiguousarray(transposed), bias=_weight(weights, f"{name}.bias", (out,)))


def _norm(weights: Mapping[str, Floats], name: str, shape: Shape) -> Norm:
    scale, shift = (_weight(weights, f"{name}.{part}", (shape.width,)) for part in ("weight", "bias"))
    return Norm(scale=scale, shift=shift, epsilon=shape.epsilon)


def _layer(weights: Mapping[str, Floats], name: str, shape: Shape) -> Layer:
    """Returns the weights of one layer. `name`: the beginning of their names in the checkpoint."""
    wide, inner = shape.width, shape.inner
    parts = [_linear(weights, f"{name}.attention.self.{part}", wide, wide) for part in ("query", "key", "value")]
    scale = np.float32((wide // shape.heads) ** -0.5)
    parts[0] = Linear(weight=parts[0].weight * scale, bias=parts[0].bias * scale)
    return Layer(
        attend=Linear(
            weight=np.concatenate([part.weight for part in parts], axis=1),
            bias=np.concatenate([part.bias for part in parts]),
        ),
        gather=_linear(weights, f"{name}.attention.output.dense", wide, wide),
        gathered=_norm(weights, f"{name}.attention.output.LayerNorm", shape),
        widen=_linear(weights, f"{name}.intermediate.dense", wide, inner),
        narrow=_linear(weights, f"{name}.output.dense", inner, wide),
        narrowed=_norm(weights, f"{name}.output.LayerNorm", shape),
    )
