"""Code whose effect stands elsewhere than its text: classes with special methods, decorators, frames of generators, globals."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from toolcaddie.tools.authored.checks.python.special import is_special, special_name
from toolcaddie.tools.authored.values import Finding

_DECORATORS = frozenset({"staticmethod", "classmethod", "property", "dataclass", "dataclasses.dataclass", "lru_cache"})
_DECORATORS_OF = ("functools.", "lru_cache(", "dataclass(", "dataclasses.dataclass(", "cache", "wraps(")
_BASES = frozenset({"ABC", "Enum", "Exception", "IntEnum", "NamedTuple", "StrEnum", "TypedDict", "enum.Enum", "object"})
_UNUSUAL: Mapping[type[ast.AST], str] = {
    ast.AsyncFunctionDef: "It defines a coroutine; a tool needs none, and its frame leads to the interpreter.",
    ast.Await: "It awaits something outside of this source.",
    ast.Global: "It changes names of the whole module.",
}


def building(tree: ast.Module) -> Iterator[Finding]:
    """Yields a finding for each class, unusual decorator, coroutine and change of the module's own names."""
    for node in ast.walk(tree):
        if text := _UNUSUAL.get(type(node)):
            yield Finding(severity="warning", line=getattr(node, "lineno", 0), text=text)
        elif isinstance(node, ast.ClassDef):
            yield from _of_class(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _decorators(node)


def _of_class(node: ast.ClassDef) -> Iterator[Finding]:
    """Yields a finding unless the class has only plain methods, those of values, and bases that do nothing by themselves."""
    methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    unusual = [name for name in methods if name != "__init__" and is_special(name) and special_name(name)]
    bases = [name for base in node.bases if (name := ast.unparse(base)) not in _BASES and not name.endswith("Error")]
    if unusual or bases:
        text = f"The class {node.name} runs code where the text does not show it: {', '.join([*unusual, *bases])[:80]}."
        yield Finding(severity="warning", line=node.lineno, text=text)
    if node.keywords:
        text = f"The class {node.name} is made by {', '.join(word.arg or '**' for word in node.keywords)}, other code."
        yield Finding(severity="warning", line=node.lineno, text=text)


def _decorators(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[Finding]:
    for decorator in node.decorator_list:
        name = ast.unparse(decorator)
        if name not in _DECORATORS and not name.startswith(_DECORATORS_OF):
            text = f"The decorator {name[:60]} replaces what {node.name} does."
            yield Finding(severity="warning", line=decorator.lineno, text=text)
