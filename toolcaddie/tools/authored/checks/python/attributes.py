"""Attributes: inner parts of objects, and members of modules that reach the machine under another module's name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from toolcaddie.tools.authored.checks.python.special import special_name
from toolcaddie.tools.authored.values import Finding

# fmt: off
_MACHINE = frozenset({
    "_os", "_sys", "builtins", "ctypes", "ctypeslib", "importlib", "os", "popen", "subprocess", "sys", "system", "socket",
    "Popen", "check_output", "spawn", "fork", "execv", "execve", "getenv", "environ", "putenv", "rmtree", "unlink",
    "import_module", "load_module", "exec_module", "get_data", "read_text", "write_text", "read_bytes", "write_bytes",
    "urlopen", "fromfile", "tofile", "genfromtxt", "read_csv", "to_csv", "read_pickle", "to_pickle", "load_dataset",
    "from_pretrained", "loads_pickle", "attrgetter", "methodcaller", "get_field", "settrace", "setprofile",
    "setrecursionlimit", "_getframe", "modules", "get_event_loop", "run_until_complete", "interact", "set_trace", "runcode",
    "runsource",
})
# fmt: on
"""Members that lead to processes, files, the network or the interpreter, whatever object has them."""


def attributes(tree: ast.Module) -> Iterator[Finding]:
    """Yields a finding for each such attribute, read or written, also in a pattern of `match`. `value.__class__(...)` only makes
    another value of the same kind."""
    copies = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    imported = frozenset(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not (node.attr == "__class__" and id(node) in copies):
            is_own = isinstance(node.value, ast.Name) and node.value.id not in imported
            yield from _of(node.attr, node.lineno, is_own=is_own)
        elif isinstance(node, ast.MatchClass):
            for name in node.kwd_attrs:
                yield from _of(name, node.lineno, is_own=False)


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yields the names that imports bind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((name.asname or name.name).partition(".")[0] for name in node.names)


def _of(name: str, line: int, *, is_own: bool) -> Iterator[Finding]:
    """`is_own`: it is an attribute of a variable of the source, not of a module or of another attribute."""
    if special_name(name):
        text = f".{name} is an inner part of an object, which leads to the interpreter."
        yield Finding(severity="warning" if name == "__class__" else "refused", line=line, text=text)
    elif name in _MACHINE:
        text = f".{name} reaches processes, files, the network or the interpreter."
        yield Finding(severity="warning", line=line, text=text)
    elif name.startswith("_") and not name.startswith("__") and not is_own:
        yield Finding(severity="warning", line=line, text=f".{name} is an inner part of another object.")
