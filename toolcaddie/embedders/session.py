"""ONNX graphs in onnxruntime, on one thread: a query is too short to be worth dividing, and requests run side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime

from toolcaddie.embedders.bert import Floats, Ints

onnxruntime.set_default_logger_severity(3)
"""Errors only: its warnings are about devices that are not used."""


class Session:
    """A model of one input and one output. Raises errors of onnxruntime for bytes that it cannot run."""

    def __init__(self, model: bytes) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name

    def __call__(self, ids: Ints) -> Floats:
        vectors: Floats = np.asarray(self._session.run(None, {self._input: ids})[0], dtype=np.float32)
        return vectors
