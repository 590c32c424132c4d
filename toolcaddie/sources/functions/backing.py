"""Digests of Python functions: what an approval was given for is recognised again, in this process and after a restart."""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_DEPTH = 8
"""Levels of functions within functions whose code is read."""


def backing_of(function: Callable[..., Any]) -> str:
    """Returns the SHA-256 of a function: its code, the names and constants in it, its default values, and the plain values and
    functions that it closes over. Comments and the place in the file do not count."""
    digest = hashlib.sha256()
    for part in _parts(function, _DEPTH):
        digest.update(part)
        digest.update(b"\0")
    return digest.hexdigest()


def _parts(value: Any, depth: int) -> Iterator[bytes]:
    if isinstance(value, functools.partial):
        yield from _each((value.func, *value.args, *value.keywords.items()), depth)
        return
    if isinstance(value, _PLAIN):
        yield repr(value).encode(errors="surrogatepass")
        return
    if isinstance(value, tuple | list | frozenset):
        yield from _each(sorted(value, key=repr) if isinstance(value, frozenset) else value, depth)
        return
    if isinstance(value, CodeType):
        yield value.co_code
        yield from _each((*value.co_names, *value.co_varnames, *value.co_consts), depth)
        return
    inner = inspect.unwrap(value) if callable(value) else value
    inner = getattr(inner, "__func__", inner)
    code = getattr(inner, "__code__", None) or getattr(getattr(inner, "__call__", None), "__code__", None)  # noqa: B004
    yield f"{_module_of(inner)}.{getattr(inner, '__qualname__', type(inner).__qualname__)}".encode()
    if code is not None:
        cells = [cell.cell_contents for cell in getattr(inner, "__closure__", None) or () if _is_set(cell)]
        defaults = (getattr(inner, "__defaults__", None), tuple((getattr(inner, "__kwdefaults__", None) or {}).items()))
        yield from _each(
            (code, defaults, *(cell for cell in cells if isinstance(cell, _PLAIN) or callable(cell))), depth
        )


def _module_of(value: Any) -> str:
    """Returns the name of a function's module; of a script's function the name by which the script can be imported, so that an
    approval still holds if another process imports it."""
    name = getattr(value, "__module__", None) or ""
    if name != "__main__":
        return name
    main = sys.modules["__main__"]
    if spec := getattr(main, "__spec__", None):
        return str(spec.name)
    return Path(getattr(main, "__file__", None) or name).stem


def _each(values: Any, depth: int) -> Iterator[bytes]:
    for value in values if depth else ():
        yield from _parts(value, depth - 1)


def _is_set(cell: Any) -> bool:
    """Returns True unless a variable of the enclosing function has no value yet."""
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
