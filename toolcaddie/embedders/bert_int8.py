"""The forward pass of `bert` as an ONNX graph with int8 weights, built from the float32 weights.

Weights are rounded in blocks of 32 along the input, and activations are rounded in the same way while the graph runs. The usual
way, one scale for a whole activation, is a third faster, but then the vector of a text depends on the other texts of the call,
and its cosine with the exact vector is .995 instead of .9997.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

from toolcaddie.embedders.bert import Floats, Linear, Norm, Parts, Shape, parts_of

INPUT, OUTPUT = "ids", "vectors"

_OPSET = 20
"""Version of ONNX's operators."""
_IR = 10
"""Version of ONNX's file format."""
_BLOCK = 32
"""The number of weights that share a scale."""
_MICROSOFT = "com.microsoft"
"""Domain of the operators that only onnxruntime has."""


def int8_graph(weights: Mapping[str, Floats], shape: Shape | None = None) -> bytes:
    """Returns a serialized model that turns ids, int64 [texts, tokens], into vectors, float32 [texts, width], of length 1."""
    shape = shape or Shape()
    return _Graph(shape).written(parts_of(weights, shape))


class _Graph:
    """A graph under construction. Each value is a name, which the node that makes the value gets and other nodes refer to."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def written(self, parts: Parts) -> bytes:
        """Returns the serialized graph of a whole model with these weights."""
        x = self._norm(self._looked_up(parts), parts.norm)
        for layer in parts.layers:
            attended = self._linear(self._attention(self._linear(x, layer.attend)), layer.gather)
            x = self._norm(self._op("Add", attended, x), layer.gathered)
            widened = self._op("Gelu", self._linear(x, layer.widen))
            x = self._norm(self._op("Add", self._linear(widened, layer.narrow), x), layer.narrowed)
        mean = self._op("ReduceMean", x, self._constant(np.array([1])), keepdims=0)
        self._add("LpNormalization", [mean], [OUTPUT], axis=-1, p=2)
        return self._model()

    def _looked_up(self, parts: Parts) -> str:
        """Adds the nodes that turn token ids into embeddings, and returns the name of the result."""
        # Half floats halve the file; their error is a tenth of the error of the int8 weights.
        words = self._op("Gather", self._constant(parts.words.astype(np.float16)), INPUT)
        tokens = self._op("Shape", INPUT, start=1, end=2)
        first = self._constant(np.array([0]))
        places = self._op("Slice", self._constant(parts.places), first, tokens, first)
        return self._op("Add", self._op("Cast", words, to=TensorProto.FLOAT), places)

    def _attention(self, x: str) -> str:
        names = [f"{x}_{part}" for part in "qkv"]
        self._add("Split", [x], names, axis=-1, num_outputs=3)
        # Scale 1, because the weights of the queries already include the factor.
        return self._op("MultiHeadAttention", *names, domain=_MICROSOFT, num_heads=self._shape.heads, scale=1.0)

    def _linear(self, x: str, linear: Linear) -> str:
        """Adds a product with int8 weights, and returns the name of the result."""
        wide, out = linear.weight.shape
        rounded, scales = _rounded(linear.weight)
        weights = [self._constant(rounded), self._constant(scales), "", "", self._constant(linear.bias)]
        return self._op(
            "MatMulNBits", x, *weights, domain=_MICROSOFT, K=wide, N=out, bits=8, block_size=_BLOCK, accuracy_level=4
        )

    def _norm(self, x: str, norm: Norm) -> str:
        scale, shift = self._constant(norm.scale), self._constant(norm.shift)
        return self._op("LayerNormalization", x, scale, shift, axis=-1, epsilon=norm.epsilon)

    def _op(self, kind: str, *inputs: str, **settings: Any) -> str:
        name = f"x{len(self._nodes)}"
        self._add(kind, inputs, [name], **settings)
        return name

    def _add(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **settings: Any) -> None:
        self._nodes.append(helper.make_node(kind, list(inputs), list(outputs), **settings))

    def _constant(self, value: npt.NDArray[Any]) -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _model(self) -> bytes:
        """Returns the finished graph as the bytes of an ONNX file."""
        ids = helper.make_tensor_value_info(INPUT, TensorProto.INT64, ["texts", "tokens"])
        vectors = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["texts", self._shape.width])
        graph = helper.make_graph(self._nodes, "bert", [ids], [vectors], self._weights)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)]
        model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=_IR).SerializeToString()
        return model


def _rounded(weight: Floats) -> tuple[npt.NDArray[np.uint8], Floats]:
    """Returns a weight of shape [in, out] as uint8 around 128, of shape [out, blocks, block], and the scale of each block."""
    wide, out = weight.shape
    blocks = weight.T.reshape(out, wide // _BLOCK, _BLOCK)
    scales = np.abs(blocks).max(axis=-1) / np.float32(127.0)
    steps = np.divide(blocks, scales[..., None], out=np.zeros_like(blocks), where=scales[..., None] > 0)
    return (np.rint(steps) + 128).astype(np.uint8), scales.astype(np.float32)
