"""Code that runs when the tool is loaded, before anybody calls it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from toolcaddie.tools.authored.values import Finding

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_ACTING = (
    ast.Call,
    ast.Attribute,
    ast.Subscript,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
    ast.NamedExpr,
    ast.FormattedValue,
)
_PURE_CALLS = frozenset(
    {
        "bool",
        "bytes",
        "complex",
        "dict",
        "float",
        "frozenset",
        "int",
        "list",
        "object",
        "set",
        "str",
        "tuple",
        "re.compile",
        "namedtuple",
        "Decimal",
        "Fraction",
    }
)


def loading(tree: ast.Module) -> Iterator[Finding]:
    """Yields a finding for each statement of the module that does more than define or name a constant."""
    for position, node in enumerate(tree.body):
        if isinstance(node, _DEFINITIONS) or (position == 0 and _is_docstring(node)):
            yield from _of_defaults(node)
        elif not isinstance(node, ast.Assign | ast.AnnAssign) or _acts(node.value):
            text = "This runs when the tool is loaded, not when it is called."
            yield Finding(severity="warning", line=node.lineno, text=text)


def _of_defaults(node: ast.stmt) -> Iterator[Finding]:
    """Yields a finding for each default of a parameter that is computed."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        for default in defaults:
            if not isinstance(default, ast.Lambda) and _acts(default):
                text = f"A default of {node.name} is computed when the tool is loaded."
                yield Finding(severity="warning", line=default.lineno, text=text)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _acts(value: ast.expr | None) -> bool:
    if value is None:
        return False
    if isinstance(value, ast.Call) and ast.unparse(value.func) in _PURE_CALLS:
        return any(_acts(each) for each in (*value.args, *(word.value for word in value.keywords)))
    return any(isinstance(each, (*_ACTING, ast.Lambda)) for each in ast.walk(value))
