"""Texts: format strings that read attributes, names of inner parts, code, and texts put together piece by piece."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from toolcaddie.tools.authored.checks.python.special import special_name
from toolcaddie.tools.authored.values import Finding

_FIELD = re.compile(r"\{[^{}\s:!]*[.\[][^{}]*\}")
"""A field of `str.format` that reads an attribute or an item."""
_INNER = re.compile(r"__\w+|\b(gi|cr|ag|tb|f|co)_(frame|back|globals|builtins|code|next)\b|\bfunc_globals\b")
_CODE = re.compile(
    r"\bimport\s+(os|sys|subprocess|socket|pty|shutil|ctypes|builtins)\b|\b(os|subprocess)\s*\.\s*\w+\s*\(|/etc/(passwd|shadow)"
    r"|/proc/|/dev/(tcp|udp)|\b(eval|exec|compile)\s*\(|\\x5f|\\137|\bsh\s+-c\b|169\.254\.169\.254|docker\.sock|\{\{.*\}\}|\{%.*%\}",
    re.IGNORECASE,
)
_UNDERSCORE = 95
_MAKERS = frozenset({"chr", "bytes", "bytearray"})
_DECODERS = frozenset(
    {"fromhex", "b64decode", "b32decode", "b85decode", "a85decode", "unhexlify", "a2b_hex", "a2b_base64"}
)


def texts(tree: ast.Module) -> Iterator[Finding]:
    """Yields a finding for each text that could become code, a name, or a way into an object. Docstrings are left out."""
    notes = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield from _of_text(node.value, node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield from _of_method(node, node.func)
        elif isinstance(node, ast.Attribute) and node.attr in ("format", "format_map"):
            yield from _of_format(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MAKERS:
            yield from _of_maker(node)
        elif (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Mult)
            and "_" in map(_constant, (node.left, node.right))
        ):
            yield Finding(severity="warning", line=node.lineno, text="Underscores are made by repeating one.")


def _docstrings(tree: ast.Module) -> frozenset[int]:
    """Returns the identities of the nodes of all docstrings."""
    holders = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, holders) and node.body]
    return frozenset(id(body[0].value) for body in bodies if isinstance(body[0], ast.Expr))


def _of_text(text: str, line: int) -> Iterator[Finding]:
    if any(special_name(match[0]) for match in _INNER.finditer(text)):
        yield Finding(severity="warning", line=line, text="A text names inner parts of the interpreter.")
    if len(text) > 1 and set(text) == {"_"}:
        yield Finding(severity="warning", line=line, text="A text of underscores can become a part of an inner name.")
    if _FIELD.search(text):
        yield Finding(severity="warning", line=line, text="A text reads attributes or items if it is used as a format.")
    if _CODE.search(text):
        yield Finding(
            severity="warning", line=line, text="A text looks like code, a template, or a place of the machine."
        )


def _of_format(node: ast.Attribute) -> Iterator[Finding]:
    """Yields a finding unless the format is a text in the source, whose fields `_of_text` judges."""
    text = node.value
    if isinstance(text, ast.Constant) and isinstance(text.value, str) and node.attr == "format":
        return
    yield Finding(
        severity="warning",
        line=node.lineno,
        text=f".{node.attr} fills a text that stands elsewhere, and can read attributes of what it is given.",
    )


def _of_method(node: ast.Call, function: ast.Attribute) -> Iterator[Finding]:
    if function.attr in _DECODERS:
        yield Finding(severity="warning", line=node.lineno, text=f".{function.attr} makes text that the source hides.")
    elif function.attr == "decode" and isinstance(function.value, ast.Constant):
        yield Finding(severity="warning", line=node.lineno, text="Bytes in the source become text that it hides.")
    elif function.attr == "join" and node.args and _is_name_in_pieces(node.args[0]):
        yield Finding(severity="warning", line=node.lineno, text="A name with underscores is put together from pieces.")


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _of_maker(node: ast.Call) -> Iterator[Finding]:
    if any(isinstance(each, ast.Constant) and each.value == _UNDERSCORE for each in ast.walk(node)):
        yield Finding(severity="warning", line=node.lineno, text="An underscore is made from its number.")


def _is_name_in_pieces(node: ast.expr) -> bool:
    if not isinstance(node, ast.List | ast.Tuple):
        return False
    pieces = [each.value for each in node.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return (
        bool(pieces) and all(set(piece) <= {"_"} or piece.isidentifier() for piece in pieces) and "_" in "".join(pieces)
    )
