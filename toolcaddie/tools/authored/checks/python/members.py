"""Members: modules that a harmless module holds, such as `json.codecs`, which reach what their holder does not stand for."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import ModuleType

from toolcaddie.tools.authored.checks.python.modules import is_harmless
from toolcaddie.tools.authored.values import Finding

_CODE = frozenset({("typing", "get_type_hints"), ("typing", "ForwardRef")})
"""Members that run text as code."""


def members(tree: ast.Module) -> Iterator[Finding]:
    """Yields a finding for each member of an imported module that is no part of its own, however the source takes it."""
    names = dict(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield from _of(_path(node.value, names), node.attr, node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                yield from _of(node.module, name.name, node.lineno)
        elif isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            yield from _of(
                _path(node.args[0], names), str(node.args[1].value), node.lineno
            )  # as in getattr(json, "codecs")


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yields the names that stand for modules, and which."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                package = name.name.partition(".")[0]
                yield (name.asname, name.name) if name.asname else (package, package)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((name.asname or name.name, f"{node.module}.{name.name}") for name in node.names)


def _path(node: ast.expr, names: Mapping[str, str]) -> str:
    """Returns the module that an expression names; empty: it names none."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    holder = _path(node.value, names) if isinstance(node, ast.Attribute) else ""
    return f"{holder}.{node.attr}" if holder and isinstance(node, ast.Attribute) else ""


def _of(module: str, name: str, line: int) -> Iterator[Finding]:
    if (module, name) in _CODE:
        yield Finding(severity="warning", line=line, text=f"{module}.{name} can run text as code.")
    elif (member := _modules_in(module).get(name)) and not _is_part(member):
        text = f"{module}.{name} is the module {member}, which is not among those known to only compute."
        yield Finding(severity="warning", line=line, text=text)


def _is_part(module: str) -> bool:
    """Returns whether a module is known to only compute, or is a part of such a package."""
    return is_harmless(module) or ("." in module and _is_part(module.rpartition(".")[0]))


@lru_cache(maxsize=256)
def _modules_in(path: str) -> Mapping[str, str]:
    """Returns the members of a module that are modules, with their own names. Other values have none."""
    module = _module(path)
    members = vars(module) if module else {}
    return {name: member.__name__ for name, member in members.items() if isinstance(member, ModuleType)}


def _module(path: str) -> ModuleType | None:
    """Returns a harmless module or a part of it. No other module is imported."""
    if is_harmless(path):
        return importlib.import_module(path)
    holder, _, name = path.rpartition(".")
    member = vars(module).get(name) if holder and (module := _module(holder)) else None
    return member if isinstance(member, ModuleType) and _is_part(member.__name__) else None
