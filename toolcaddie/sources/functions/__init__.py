"""Python functions as tools: `@tool` describes a function, `FunctionSource` holds and runs them."""

from __future__ import annotations

from toolcaddie.sources.functions.options import tool
from toolcaddie.sources.functions.source import FunctionSource

__all__ = ["FunctionSource", "tool"]
