"""Answers requests. `Runtime` is the class that programs use; the other modules are the stages of a request."""

from __future__ import annotations

from toolcaddie.runtime.runtime import Runtime

__all__ = ["Runtime"]
