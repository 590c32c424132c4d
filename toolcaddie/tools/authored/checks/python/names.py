"""Names: functions that make code, reach the interpreter or the machine, whether they are called or only mentioned."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from toolcaddie.tools.authored.checks.python.special import is_special, special_name
from toolcaddie.tools.authored.values import Finding

_CODE = frozenset({"eval", "exec", "execfile", "compile", "__import__", "__include__", "reload"})
_INTERPRETER = frozenset(
    {"breakpoint", "globals", "locals", "vars", "dir", "help", "exit", "quit", "license", "credits"}
)
_MACHINE = frozenset({"open", "input", "raw_input", "file"})
_WITH_DEFAULT = 3
_BY_NAME = frozenset({"getattr", "setattr", "delattr", "hasattr"})
_USUAL = frozenset({"__all__", "__doc__", "__name__", "__slots__"})
_COMMON_WORDS = frozenset({"credits", "exit", "file", "help", "input", "license", "quit"})
"""Names of the interpreter that are common names of parameters too."""


def names(tree: ast.Module) -> Iterator[Finding]:
    """Yields a finding for each such name, also where the source gives it to something of its own: a reader cannot tell them
    apart at a glance. Parameters with common names are left out."""
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} & _COMMON_WORDS
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _BY_NAME and id(node) not in called:
            text = f"{node.id} is given another name or handed on, so that its uses cannot be told."
            yield Finding(severity="warning", line=node.lineno, text=text)
        elif isinstance(node, ast.Name) and node.id not in own:
            yield from _of_name(node)
        elif isinstance(node, ast.Call):
            yield from _of_call(node)


def _of_name(node: ast.Name) -> Iterator[Finding]:
    name = node.id
    if name in _CODE:
        yield Finding(severity="refused", line=node.lineno, text=f"{name} makes code out of text or loads it.")
    elif name in _MACHINE:
        yield Finding(severity="warning", line=node.lineno, text=f"{name} reads or writes outside of the arguments.")
    elif name in _INTERPRETER:
        yield Finding(severity="warning", line=node.lineno, text=f"{name} reaches the interpreter itself.")
    elif special_name(name) and is_special(name) and name not in _USUAL:
        yield Finding(severity="refused", line=node.lineno, text=f"{name} is an inner name of the interpreter.")


def _of_call(node: ast.Call) -> Iterator[Finding]:
    function = node.func
    if not isinstance(function, ast.Name):
        return
    if function.id == "type" and (len(node.args) > 1 or node.keywords):
        yield Finding(
            severity="warning", line=node.lineno, text="type with several arguments makes a class at run time."
        )
    elif function.id in _BY_NAME:
        yield from _by_name(node, function.id)


def _by_name(node: ast.Call, function: str) -> Iterator[Finding]:
    """Yields a finding if the attribute is an inner part, or if its name is only known at run time. With a default, a variable
    is accepted as the name: so functions that take the name of a field look it up."""
    attribute = node.args[1] if len(node.args) > 1 else None
    if isinstance(attribute, ast.Constant) and isinstance(attribute.value, str):
        if special_name(attribute.value):
            text = f"{function} reaches {attribute.value}, an inner part of an object."
            yield Finding(severity="refused", line=node.lineno, text=text)
    elif function != "hasattr" and not (len(node.args) == _WITH_DEFAULT and isinstance(attribute, ast.Name)):
        text = f"{function} uses an attribute whose name is only known at run time."
        yield Finding(severity="warning", line=node.lineno, text=text)
