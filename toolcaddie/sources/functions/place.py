"""Finds the Python function inside wrappers, and the file and line where it is defined, for messages to its author."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def underlying(function: Callable[..., Any]) -> tuple[Callable[..., Any], frozenset[str]]:
    """Returns the function at the end of a chain of `functools.partial`, and the keyword arguments fixed on the way."""
    fixed: set[str] = set()
    while isinstance(function, functools.partial):
        fixed.update(function.keywords)
        function = function.func
    return function, frozenset(fixed)


def code_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that runs: the callable itself, or `__call__` of an object that has one."""
    inner, _ = underlying(function)
    if inspect.isroutine(inner) or isinstance(inner, type) or hasattr(inner, "__wrapped__"):
        return inner
    return getattr(inner, "__call__", inner)  # noqa: B004 - the bound method is wanted, not whether there is one


def place_of(function: Any) -> str:
    """Returns `name (file:line)` of a callable, or a description if it has no code."""
    if isinstance(function, classmethod | staticmethod):
        function = function.__func__
    if not callable(function):
        return f"{function!r:.80}"
    inner = inspect.unwrap(code_of(function))
    name = getattr(inner, "__qualname__", type(inner).__name__)
    code = getattr(inner, "__code__", None)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else str(name)
