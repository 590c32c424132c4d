"""Answers requests: one face, `Runtime`, over the stages of a request."""

from __future__ import annotations

from toolcaddie.runtime.runtime import Runtime

__all__ = ["Runtime"]
