"""The forward pass of a small BERT in numpy (Devlin et al. 2019), for sentence vectors by mean pooling (Reimers and Gurevych
2019). Knows nothing of texts, files or packages: weights and token ids go in, vectors come out.

float32 throughout; equal to the reference in torch to 1e-6.
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
    """The dimensions of a model."""

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
    """Layer norm: each row to mean 0 and variance 1, then scaled and moved."""

    scale: Floats
    shift: Floats
    epsilon: float

    def __call__(self, x: Floats) -> Floats:
        """Overwrites `x`."""
        width = np.float32(x.shape[-1])
        x -= x.sum(axis=-1, keepdims=True) / width
        spread = np.einsum("...i,...i->...", x, x)[..., None] / width
        x /= np.sqrt(spread + np.float32(self.epsilon))
        x *= self.scale
        x += self.shift
        return x


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """One layer. Queries, keys and values are one product: on one core the reading of weights is what costs."""

    attend: Linear
    """[width, 3 * width]; the queries are scaled by 1 / sqrt(head size) already."""
    gather: Linear
    gathered: Norm
    widen: Linear
    narrow: Linear
    narrowed: Norm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parts:
    """A model's weights as they are used."""

    words: Floats
    """[vocabulary, width]"""
    places: Floats
    """[positions, width]; the kind of the sentence is added already, as there is only one."""
    norm: Norm
    layers: tuple[Layer, ...]


class Bert:
    """Token ids to sentence vectors.

    `weights` are named as in the checkpoints of Hugging Face's BertModel. Raises `ConfigError` for a weight that is missing
    or of another shape.
    """

    def __init__(self, weights: Mapping[str, Floats], shape: Shape | None = None) -> None:
        self._shape = shape or Shape()
        self._parts = parts_of(weights, self._shape)

    def __call__(self, ids: Ints) -> Floats:
        """[texts, tokens] -> [texts, width], each row of length 1. All texts of one call have as many tokens: nothing is
        padded, so a text's vector does not depend on its company but for the last bit."""
        texts, tokens = ids.shape
        x = self._parts.words[ids] + self._parts.places[:tokens]
        x = self._parts.norm(x.reshape(texts * tokens, -1))
        for layer in self._parts.layers:
            x = self._through(layer, x, texts, tokens)
        return unit(x.reshape(texts, tokens, -1).mean(axis=1))

    def _through(self, layer: Layer, x: Floats, texts: int, tokens: int) -> Floats:
        attended = layer.gather(self._attention(layer.attend(x), texts, tokens))
        attended += x
        x = layer.gathered(attended)
        narrowed = layer.narrow(gelu(layer.widen(x)))
        narrowed += x
        return layer.narrowed(narrowed)

    def _attention(self, x: Floats, texts: int, tokens: int) -> Floats:
        heads = self._shape.heads
        q, k, v = x.reshape(texts, tokens, 3, heads, -1).transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed: Floats = (scores @ v).swapaxes(1, 2).reshape(texts * tokens, -1)
        return mixed


def unit(x: Floats) -> Floats:
    """Each row brought to length 1; a row of zeros stays one."""
    lengths = np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
    scaled: Floats = np.divide(x, lengths, out=np.zeros_like(x), where=lengths > 0)
    return scaled


_ERF = tuple(np.float32(c) for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
_ERF_P = np.float32(0.3275911)
_ROOT_HALF = np.float32(0.7071067811865476)


def gelu(x: Floats) -> Floats:
    """x * Phi(x), the exact one by erf, not the tanh that resembles it to 1e-3. numpy has no erf: Abramowitz and Stegun
    7.1.26, within 1.5e-7. Overwrites `x`."""
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
    # Phi is `tail` below 0 and 1 - `tail` above; so x * Phi is max(x, 0) - |x| * tail on both sides.
    tail *= np.abs(x)
    np.maximum(x, np.float32(0.0), out=x)
    x -= tail
    return x


def parts_of(weights: Mapping[str, Floats], shape: Shape) -> Parts:
    """Returns the weights in the form that the pass uses. Raises `ConfigError` for one that is missing or has another shape."""
    places = _weight(weights, "embeddings.position_embeddings.weight", (shape.positions, shape.width))
    kinds = _weight(weights, "embeddings.token_type_embeddings.weight", (None, shape.width))
    return Parts(
        words=_weight(weights, "embeddings.word_embeddings.weight", (None, shape.width)),
        places=places + kinds[0],
        norm=_norm(weights, "embeddings.LayerNorm", shape),
        layers=tuple(_layer(weights, f"encoder.layer.{i}", shape) for i in range(shape.layers)),
    )


def _weight(weights: Mapping[str, Floats], name: str, shape: tuple[int | None, ...]) -> Floats:
    """Returns the weight of that name as float32. None in `shape`: any size. Raises `ConfigError`."""
    weight = weights.get(name)
    if weight is None:
        raise ConfigError(f"the model has no weight {name!r}: it is not the kind of BERT that this runs")
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
