"""Slims schemas of tools: the same constraints in fewer bytes, so that a definition costs fewer tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from toolcaddie.core.schema.check import MAX_DEPTH, deeper_than
from toolcaddie.core.schema.encoding import canonical_json, shorten
from toolcaddie.core.schema.walk import NAMED, VALUES, every_schema, references, resolve, steps

LONG_DESCRIPTION = 160

_NOISE = frozenset({"title", "examples", "example", "$comment", "$schema", "$id", "deprecated", "discriminator"})
_DEFINITIONS = ("$defs", "definitions")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._$-]+")


def slim_schema(schema: Any) -> Any:
    """Returns an equivalent schema in fewer bytes: without examples, titles, comments and unused definitions, with long
    descriptions shortened and equal definitions merged. The same values are valid for both schemas (draft 2020-12).

    A schema that has references other than plain pointers into itself, or that is deeper than `MAX_DEPTH`, stays unchanged,
    because slimming could change what its references mean.
    """
    if not isinstance(schema, dict) or deeper_than(schema, MAX_DEPTH):
        return schema
    if not any("$id" in node or any(references(node)) for node in every_schema(schema)):
        return _without_unused(_slim(schema))  # most schemas have no references whose meaning could change
    if not _is_plain(schema):
        return schema
    small = _fold(_slim(schema))
    return small if _keeps_targets(schema, small) else schema


def _is_plain(schema: Mapping[str, Any]) -> bool:
    return all(
        all(_is_plain_pointer(reference) for reference in references(node))
        and (node is schema or not isinstance(node.get("$id"), str))
        and "$dynamicRef" not in node
        for node in every_schema(schema)
    )


def _is_plain_pointer(reference: str) -> bool:
    path = steps(reference)
    return path is not None and (len(path) != 1 or path[0] not in _DEFINITIONS)


def _keeps_targets(schema: Mapping[str, Any], small: Mapping[str, Any]) -> bool:
    """Returns True if no reference lost its target. A reference may point into a dropped part (`#/examples/0`)."""
    lost_before = {reference for reference in _all_references(schema) if resolve(schema, reference) is None}
    return all(
        resolve(small, reference) is not None for reference in _all_references(small) if reference not in lost_before
    )


def _all_references(schema: Any) -> Iterable[str]:
    return (reference for node in every_schema(schema) for reference in references(node))


def _slim(node: Any) -> Any:
    if isinstance(node, list | tuple):
        return [_slim(item) for item in node]
    if not isinstance(node, dict):
        return node
    small: dict[str, Any] = {}
    for key, value in node.items():
        if key in _NOISE:
            continue
        if key in VALUES:
            small[key] = value
        elif key in NAMED and isinstance(value, dict):
            small[key] = {name: _slim(child) for name, child in value.items()}
        elif key == "description" and isinstance(value, str):
            small[key] = shorten(value, LONG_DESCRIPTION)
        else:
            small[key] = _slim(value)
    return small


def _fold(schema: dict[str, Any]) -> dict[str, Any]:
    """Merges equal definitions until none are equal, then drops unused ones."""
    while renames := _equal_definitions(schema):
        folded = _renamed(schema, renames)
        for old in renames:
            _, keyword, name = old.split("/")
            # A definition that a pointer leads into is still needed.
            if not any(reference.startswith(old + "/") for reference in _all_references(folded)):
                del folded[keyword][name]
        if folded == schema:
            break
        schema = folded
    return _without_unused(schema)


def _equal_definitions(schema: Mapping[str, Any]) -> dict[str, str]:
    """Returns the references of definitions to replace, each with the reference of the equal definition that has the shortest
    name."""
    equal: dict[bytes, list[str]] = {}
    for keyword in _DEFINITIONS:
        bodies = schema.get(keyword)
        for name, body in bodies.items() if isinstance(bodies, dict) else ():
            if _PLAIN_NAME.fullmatch(name):  # other names can be spelled in several ways in a reference
                equal.setdefault(canonical_json(body), []).append(f"#/{keyword}/{name}")
    shortest = {reference: min(group, key=len) for group in equal.values() for reference in group}
    return {reference: other for reference, other in shortest.items() if other != reference}


def _renamed(node: Any, renames: Mapping[str, str]) -> Any:
    if isinstance(node, list):
        return [_renamed(item, renames) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: value
        if key in VALUES
        else renames.get(value, value)
        if key == "$ref" and isinstance(value, str)
        else {name: _renamed(child, renames) for name, child in value.items()}
        if key in NAMED and isinstance(value, dict)
        else _renamed(value, renames)
        for key, value in node.items()
    }


def _without_unused(schema: dict[str, Any]) -> dict[str, Any]:
    used: set[tuple[str, str]] = set()
    pending: list[Any] = [{key: value for key, value in schema.items() if key not in _DEFINITIONS}]
    while pending:
        for reference in _all_references(pending.pop()):
            path = steps(reference) or []
            place = (path[0], path[1]) if len(path) > 1 and path[0] in _DEFINITIONS else None
            if place and place not in used:
                used.add(place)
                pending.append(resolve(schema, f"#/{place[0]}/{reference.split('/')[2]}"))
    small = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
    for keyword in _DEFINITIONS:
        bodies = schema.get(keyword)
        if isinstance(bodies, dict):
            remaining = {name: body for name, body in bodies.items() if (keyword, name) in used}
            small |= {keyword: remaining} if remaining else {}
        elif bodies is not None:
            small[keyword] = bodies
    return small
