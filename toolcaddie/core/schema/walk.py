"""Walks the schemas inside a JSON schema. Used to check and to slim schemas.

A key is a keyword only in the place of a keyword: a property may be called `title`, `$ref` or `default`, and the keys inside an
`enum` or a `default` belong to a value.

Objects must be `dict`, not any `Mapping`: other mappings cannot be encoded as JSON, and checking for `dict` is six times
faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
"""Keywords whose value maps names to schemas."""

VALUES = frozenset({"enum", "const", "default", "examples", "example", "required", "dependentRequired"})
"""Keywords whose value is data and contains no schemas."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_HOLDERS = (dict, list)
_SAME_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
"""Keywords whose schemas apply to the same value as their parent."""


def subschemas(node: Any) -> Iterator[tuple[str, Any]]:
    """Yields (keyword, schema) for each schema directly inside this one, unknown keywords included."""
    if not isinstance(node, dict):
        return
    for keyword, value in node.items():
        if keyword in VALUES:
            continue
        children: Iterable[Any] = value if isinstance(value, list | tuple) else (value,)
        if keyword in NAMED:
            children = value.values() if isinstance(value, dict) else ()
        for child in children:
            if isinstance(child, dict):
                yield keyword, child


def every_schema(root: Any) -> Iterator[dict[str, Any]]:
    """Yields the schema and all schemas inside it."""
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending.extend(child for _, child in subschemas(node))


def references(node: dict[str, Any]) -> Iterator[str]:
    """Yields the references of this schema, without those of the schemas inside it."""
    for keyword in REFERENCES:
        if isinstance(node.get(keyword), str):
            yield node[keyword]


class Node(NamedTuple):
    """A schema somewhere inside another."""

    schema: dict[str, Any]
    references: Sequence[str]
    same_place: Sequence[dict[str, Any]]
    """The inner schemas that apply to the same value."""


def survey(root: dict[str, Any]) -> list[Node]:
    """Returns the schema and all schemas inside it, as `every_schema` does, with their references."""
    nodes: list[Node] = []
    pending = [root]
    while pending:
        schema = pending.pop()
        same_place: list[dict[str, Any]] = []
        names: tuple[str, ...] = ()
        for keyword, value in schema.items():
            if isinstance(value, str):
                if keyword in REFERENCES:
                    names = (*names, value)
                continue
            if not isinstance(value, _HOLDERS) or keyword in VALUES:
                continue
            if keyword in NAMED:
                values: Iterable[Any] = value.values() if isinstance(value, dict) else ()
            else:
                values = value if isinstance(value, list) else (value,)
            children = [child for child in values if isinstance(child, dict)]
            pending += children
            if keyword in _SAME_PLACE:
                same_place += children
        nodes.append(Node(schema, names, same_place))
    return nodes


def anchors(schemas: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns those of the schemas that have an anchor, by `#name`."""
    return {
        f"#{node[keyword]}": node
        for node in schemas
        for keyword in ("$anchor", "$dynamicAnchor")
        if isinstance(node.get(keyword), str)
    }


def steps(reference: str) -> list[str] | None:
    """Returns the keys of a pointer (`#/$defs/a~1b`); None: it is not a pointer into this document."""
    if reference == "#":
        return []
    if not reference.startswith("#/"):
        return None
    keys = reference[2:].split("/")
    if "%" in reference or "~" in reference:
        return [unquote(key).replace("~1", "/").replace("~0", "~") for key in keys]
    return keys


def resolve(root: Any, reference: str) -> Any:
    """Returns the target of a pointer; None: there is no such target, or the reference is not a pointer."""
    path = steps(reference)
    if path is None:
        return None
    node = root
    for step in path:
        if isinstance(node, dict) and step in node:
            node = node[step]
        elif isinstance(node, list | tuple) and step.isdecimal() and len(step) < 10 and int(step) < len(node):
            node = node[int(step)]
        else:
            return None
    return node
