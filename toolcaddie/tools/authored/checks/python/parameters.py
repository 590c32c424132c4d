"""Compares the parameters of the function `run` with those of the schema: a call passes each argument by its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from toolcaddie.tools.authored.values import Finding


def parameters(source: str, schema: Mapping[str, Any]) -> Iterator[Finding]:
    """Yields a finding if calls that fit the schema cannot be passed to `run`. Source that cannot be read has others."""
    function = _run_of(source)
    if function is None:
        return
    declared, given = function.args, list(schema.get("properties") or {})
    taken = [each.arg for each in (*declared.args, *declared.kwonlyargs)]
    needed = {each.arg for each in _without_default(declared)}
    refused = [name for name in given if name not in taken and not name.startswith("_")]
    if (refused and declared.kwarg is None) or needed.difference(given) or declared.posonlyargs:
        takes, has = ", ".join(taken) or "nothing by name", ", ".join(given) or "nothing"
        yield Finding(severity="warning", line=function.lineno, text=f"run takes {takes}; the schema has {has}.")


def _run_of(source: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = [each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return next((each for each in reversed(functions) if each.name == "run"), None)


def _without_default(declared: ast.arguments) -> Iterator[ast.arg]:
    yield from declared.args[: max(0, len(declared.args) - len(declared.defaults))]
    yield from (
        each for each, default in zip(declared.kwonlyargs, declared.kw_defaults, strict=True) if default is None
    )
