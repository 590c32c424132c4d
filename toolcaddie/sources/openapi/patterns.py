"""Patterns that pick operations of a document, for the settings `include`, `exclude` and `read_only`.

listPets            an operation's id, or the name of its tool
tag:billing*        a tag
/pets/*             a path, for all methods
GET /pets/*         a method and a path; `*` also stands for slashes
DELETE *            all operations with a method
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence

from toolcaddie.core.errors import ConfigError
from toolcaddie.sources.openapi.operations import METHODS, Operation
from toolcaddie.util.suggest import close_names

_METHOD = re.compile(rf"(?i)({'|'.join(METHODS)})\s+(\S.*)\Z")


def matches(pattern: str, operation: Operation, name: str) -> bool:
    """Returns True if the pattern fits the operation, whose tool has this name."""
    if pattern.startswith("tag:"):
        return any(_fits(tag, pattern.removeprefix("tag:")) for tag in operation.tags)
    if (parts := _METHOD.match(pattern)) is not None:
        return operation.method == parts[1].upper() and _fits(operation.path, parts[2].strip())
    if pattern.startswith("/"):
        return _fits(operation.path, pattern)
    return _fits(name, pattern) or (bool(operation.id) and _fits(operation.id, pattern))


def _fits(text: str, pattern: str) -> bool:
    # Braces and brackets of paths and tags stand for themselves; only `*` and `?` are special.
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))


def check_patterns(patterns: Iterable[str], operations: Sequence[tuple[Operation, str]], *, what: str) -> None:
    """Raises `ConfigError` for a pattern that fits no operation, because it is mistyped or the document has changed."""
    for pattern in patterns:
        if pattern == "*" or any(matches(pattern, operation, name) for operation, name in operations):
            continue
        existing = {f"tag:{tag}" for operation, _ in operations for tag in operation.tags}
        existing |= {operation.title for operation, _ in operations} | {name for _, name in operations}
        close = close_names(pattern, existing, limit=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"{what}: the pattern {pattern!r} fits no operation of the document{hint}")
