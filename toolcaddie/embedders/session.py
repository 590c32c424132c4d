"""ONNX models in onnxruntime. A model runs on one thread: a short text gains nothing from several threads, and several requests
run at the same time."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime

from toolcaddie.embedders.bert import Floats, Ints

onnxruntime.set_default_logger_severity(3)
"""Logs errors only, because onnxruntime's warnings are about devices that are not used."""


class Session:
    """A model with one input (token ids) and one output (vectors), made from the bytes of an ONNX file. Raises onnxruntime's
    errors if the model cannot be run."""

    def __init__(self, model: bytes) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name

    def __call__(self, ids: Ints) -> Floats:
        vectors: Floats = np.asarray(self._session.run(None, {self._input: ids})[0], dtype=np.float32)
        return vectors
