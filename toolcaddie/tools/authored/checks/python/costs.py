"""Cost: loops without an end, numbers and texts of any size, and patterns that take exponential time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from toolcaddie.tools.authored.values import Finding

_LARGE = 1_000_000
_EXPONENT = 64
_NESTED = re.compile(r"\([^()]*[+*][^()]*\)[+*{]")
"""A repeated group with a repetition in it."""
_LEAVING = (ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)
_RAISING = frozenset({"index", "next", "pop", "popleft", "remove", "send"})
_PATTERNS = frozenset({"compile", "match", "search", "fullmatch", "findall", "finditer", "sub", "split"})


def costs(tree: ast.Module) -> Iterator[Finding]:
    """Yields a finding for what could take all the time or memory that the tool has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
            if not any(isinstance(each, _LEAVING) or _may_raise(each) for each in ast.walk(node)):
                yield Finding(severity="warning", line=node.lineno, text="This loop never ends.")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and _is_steep(node):
            yield Finding(severity="warning", line=node.lineno, text="A power can become too large to compute.")
        elif isinstance(node, ast.Constant) and _is_large(node.value):
            yield Finding(severity="warning", line=node.lineno, text="A number this large takes much time or memory.")
        elif isinstance(node, ast.Call):
            yield from _of_pattern(node)


def _may_raise(node: ast.AST) -> bool:
    """Returns whether a call ends loops by an exception, as that of `next` does."""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    return (function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")) in _RAISING


def _is_steep(node: ast.BinOp) -> bool:
    """Returns whether an exponent is large, or anything: with a small constant one, or a fraction, the result stays small."""
    exponent = node.right
    if isinstance(exponent, ast.UnaryOp):
        exponent = exponent.operand
    if isinstance(exponent, ast.Constant) and isinstance(exponent.value, int | float):
        return exponent.value > _EXPONENT or _nested_power(node.left) or _is_exact_power(node)
    return isinstance(node.left, ast.Constant) and not isinstance(node.left.value, float)


def _nested_power(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)


def _is_exact_power(node: ast.BinOp) -> bool:
    """Returns whether both sides are constants whose power is large."""
    base, exponent = node.left, node.right
    if not (isinstance(base, ast.Constant) and isinstance(exponent, ast.Constant)):
        return False
    if not (isinstance(base.value, int) and isinstance(exponent.value, int)) or exponent.value > _EXPONENT:
        return False
    return abs(base.value) < 2**_EXPONENT and abs(int(base.value**exponent.value)) >= _LARGE


def _is_large(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= _LARGE * 1_000


def _of_pattern(node: ast.Call) -> Iterator[Finding]:
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr in _PATTERNS and node.args:
        pattern = node.args[0]
        if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str) and _NESTED.search(pattern.value):
            yield Finding(severity="warning", line=node.lineno, text="This pattern can take exponential time.")
