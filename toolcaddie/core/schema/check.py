"""Checks tools' schemas when they are loaded, and the arguments of calls against them. References are never fetched.

A schema may come from a stranger (an OpenAPI file, an MCP server), so schemas that could hang or break the validator are
refused at load, by name, and quotations in messages are kept short.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.errors import CatalogError
from toolcaddie.core.schema import patterns
from toolcaddie.core.schema.encoding import canonical_json, shorten
from toolcaddie.core.schema.walk import Node, anchors, every_schema, resolve, survey
from toolcaddie.core.tool import JsonObject

MAX_DEPTH = 64
"""The largest number of nested levels of a schema, and of arguments if their schema has references."""

MAX_VISITS = 10_000
"""The largest number of schemas that may apply to one value. Thirty lines of nested `allOf` can
apply a billion schemas."""

_BIG = 100_000
"""Size of arguments in bytes above which only the first error is reported: collecting all errors of a long list takes seconds."""

_LONG = 32 * 1024
"""Size of arguments in bytes above which a check may take milliseconds."""

_LONG_FOR_PATTERNS = 200
"""Size of arguments in bytes above which a check may take milliseconds if the schema has patterns that backtrack."""

_MASK = patterns.MASK
"""Placeholder that stands for the value in every message of a validator."""
_MAX_QUOTED, _MAX_MESSAGE = 60, 300

Validator = jsonschema_rs.Draft202012Validator


def check_schema(schema: Any, *, what: str) -> None:
    """Raises `CatalogError` unless `schema` is a usable schema of a tool's arguments. `what`: the tool's name in the message.

    A usable schema is an object schema of draft 2020-12 that compiles, refers only to its own parts (other references are
    refused and never fetched), is no deeper than `MAX_DEPTH`, and does not grow exponentially when it is applied.
    """
    if not isinstance(schema, Mapping):
        raise CatalogError(f"{what}: the schema must be a JSON object, not {type(schema).__name__}")
    if schema.get("type", "object") != "object":
        quoted = shorten(repr(schema["type"]), _MAX_QUOTED)
        raise CatalogError(f"{what}: the schema of a tool's arguments must have type 'object', not {quoted}")
    try:
        canonical = canonical_json(schema)
        fingerprint = hashlib.blake2b(canonical, digest_size=16).digest()
        if fingerprint in _accepted:
            return
        plain = msgspec.json.decode(canonical)
    except RecursionError:
        raise CatalogError(_TOO_DEEP.format(what=what)) from None
    except (ValueError, TypeError) as error:
        raise CatalogError(f"{what}: the schema is not JSON: {shorten(_first_line(error), _MAX_MESSAGE)}") from error
    if deeper_than(plain, MAX_DEPTH):
        raise CatalogError(_TOO_DEEP.format(what=what))
    if _refers(canonical) or b'"$id"' in canonical:
        nodes = survey(plain)
        targets = {reference: resolve(plain, reference) for node in nodes for reference in node.references}
        _refuse_outside_references(plain, nodes, targets, what)
        if not _is_chain(nodes):
            _refuse_explosion(nodes, targets, what)
    try:
        _compiled(canonical, plain)
    except jsonschema_rs.ValidationError as error:
        raise CatalogError(f"{what}: invalid JSON Schema: {_sentence(error, error.message)}") from error
    if len(_accepted) >= _MOST_ACCEPTED:
        _accepted.clear()
    _accepted.add(fingerprint)


_MOST_ACCEPTED = 100_000
_accepted: set[bytes] = set()
"""Digests of schemas that have passed the check, because a source and the catalog check the same schema."""

_TOO_DEEP = f"{{what}}: the schema is nested more than {MAX_DEPTH} levels deep; put parts of it under $defs"


def compile_schema(schema: JsonObject) -> Validator:
    """Returns the validator of a schema, compiled once per distinct schema. Raises `ValueError` for an invalid schema."""
    return _compile(canonical_json(schema)).validator


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    validator: Validator
    refers: bool
    """True: the schema has references, so a check may recurse as deep as the arguments."""
    costly: bool
    """True: the schema has patterns with look-around or backreferences."""
    names: tuple[str, ...]
    """Such patterns in the `patternProperties` of the schema."""


def _compiled(canonical: bytes, schema: Any) -> _Compiled:
    """Returns the validator of a schema, which is passed in both forms and may be changed."""
    names: tuple[str, ...] = ()
    costly = False
    if b"pattern" in canonical:
        schema, names = patterns.set_apart(schema)
        costly = bool(names) or any(patterns.KEYWORD in node for node in every_schema(schema))
    validator = Validator(
        schema,
        retriever=_refuse,
        mask=_MASK,
        pattern_options=patterns.OPTIONS,
        keywords={patterns.KEYWORD: patterns.PatternKeyword},
    )
    return _Compiled(validator=validator, refers=_refers(canonical), costly=costly, names=names)


# A validator takes 20 KB and 25 us, so those of called tools are cached, not those of all loaded ones.
@lru_cache(maxsize=2_048)
def _compile(canonical: bytes) -> _Compiled:
    return _compiled(canonical, msgspec.json.decode(canonical))


def _refers(canonical: bytes) -> bool:
    return b'ef":"' in canonical  # $ref, $dynamicRef, $recursiveRef; a false alarm costs microseconds


def _refuse(uri: str) -> Any:
    raise ValueError(f"the reference {uri!r} leaves the schema; put the definition under $defs")


def _refuse_outside_references(
    schema: dict[str, Any], nodes: Sequence[Node], targets: Mapping[str, Any], what: str
) -> None:
    """Raises `CatalogError` for a reference to anything but a schema of this document. `targets`: the values to which the
    references point."""
    schemas = {id(node.schema) for node in nodes}
    for node in nodes:
        for reference in node.references:
            target = targets[reference]
            if isinstance(target, dict) and id(target) not in schemas:
                raise CatalogError(
                    f"{what}: the reference {shorten(reference, _MAX_MESSAGE)!r} points to a value that is not a schema; put "
                    "the definition under $defs"
                )
            if not reference.startswith("#"):
                raise CatalogError(
                    f"{what}: the reference {shorten(reference, _MAX_MESSAGE)!r} leaves the schema and is never fetched; "
                    "put the definition under $defs"
                )
        if isinstance(node.schema.get("$id"), str) and node.schema is not schema:
            raise CatalogError(
                f"{what}: $id {shorten(node.schema['$id'], _MAX_MESSAGE)!r} inside the schema changes what its references "
                "mean; omit it"
            )


def _is_chain(nodes: Sequence[Node]) -> bool:
    """Returns True if each schema leads to at most one other for the same value, and there are so few that following them all is
    quick. Most schemas are so, and need no closer look."""
    return len(nodes) <= MAX_VISITS and all(len(node.same_place) + len(node.references) <= 1 for node in nodes)


def _refuse_explosion(nodes: Sequence[Node], targets: Mapping[str, Any], what: str) -> None:
    """Raises `CatalogError` if more than `MAX_VISITS` schemas apply to one value when all references are followed."""
    targets = {**targets, **anchors(node.schema for node in nodes)}
    branching = [node for node in nodes if node.same_place or node.references]
    inside = {id(node.schema): [*node.same_place, *_targets(node, targets)] for node in branching}
    visits: dict[int, int] = {}
    for root in branching:
        stack: list[tuple[dict[str, Any], bool]] = [(root.schema, False)]
        while stack:
            node, is_expanded = stack.pop()
            children = inside.get(id(node), ())
            if is_expanded:
                visits[id(node)] = 1 + sum(visits.get(id(child), 1) for child in children)
                if visits[id(node)] > MAX_VISITS:
                    raise CatalogError(
                        f"{what}: checking one value against the schema would take more than {MAX_VISITS} steps, because "
                        "its references multiply; use fewer allOf, anyOf and $ref"
                    )
            elif children and id(node) not in visits:
                visits[id(node)] = 0  # in progress: a schema that leads back to itself adds nothing
                stack.append((node, True))
                stack.extend((child, False) for child in children)


def _targets(node: Node, targets: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [target for reference in node.references if isinstance(target := targets.get(reference), dict)]


def takes_long(schema: JsonObject, size: int) -> bool:
    """Returns True if the check of arguments of `size` bytes is so slow that it should run in a thread."""
    return size > _LONG or (size > _LONG_FOR_PATTERNS and _compile(canonical_json(schema)).costly)


def argument_errors(schema: JsonObject, arguments: Any, *, limit: int = 3, bounds: Bounds = DEFAULT) -> list[str]:
    """Returns the errors of arguments as sentences that name the field, or an empty list."""
    compiled = _compile(canonical_json(schema))
    if not compiled.costly:
        return _errors(compiled, arguments, limit)
    budget = patterns.begin(bounds)
    try:
        patterns.try_names(compiled.names, arguments, budget)
    except patterns.Overspent as error:
        return [f"arguments: a name {error}" if "characters" in str(error) else f"arguments: {error}"]
    errors = _errors(compiled, arguments, limit)
    # A text that could not be matched is refused even if a `not` or another branch of the schema turns the failure into success.
    return errors or ([f"arguments: a text {budget.overspent}"] if budget.overspent else [])


def _errors(compiled: _Compiled, arguments: Any, limit: int) -> list[str]:
    try:
        size = len(canonical_json(arguments))
        if compiled.refers and deeper_than(arguments, MAX_DEPTH):
            return [f"arguments: nested more than {MAX_DEPTH} levels deep"]
        if compiled.validator.is_valid(arguments):
            return []
        if size > _BIG:
            return _sentences(_first_error(compiled.validator, arguments))[:limit]
        lines = [line for error in compiled.validator.iter_errors(arguments) for line in _sentences(error)]
        return list(dict.fromkeys(lines))[:limit]
    except RecursionError:
        return ["arguments: nested too deep"]
    except (TypeError, ValueError) as error:
        return [f"arguments: not JSON: {shorten(_first_line(error), _MAX_MESSAGE)}"]


def deeper_than(value: Any, levels: int) -> bool:
    """Returns True if objects and lists are nested more than `levels` deep."""
    holders = [value] if isinstance(value, _HOLDERS) else []
    for _ in range(levels):
        holders = [
            child
            for holder in holders
            for child in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(child, _HOLDERS)
        ]
        if not holders:
            return False
    return bool(holders)


_HOLDERS = (dict, list, tuple)


def _first_error(validator: Validator, arguments: Any) -> jsonschema_rs.ValidationError:
    try:
        validator.validate(arguments)
    except jsonschema_rs.ValidationError as error:
        return error
    raise AssertionError("the validator calls the same arguments valid and invalid")


def _sentences(error: jsonschema_rs.ValidationError) -> list[str]:
    """Returns sentences with the field and its error. Of alternatives (`anyOf`, `oneOf`) only those that accept this type of
    value are reported."""
    branches = getattr(error.kind, "context", None)
    if not branches:
        return [_sentence(error, error.message)]
    path = error.instance_path
    types = [_expected_types(branch, path) for branch in branches]
    fitting = [branch for branch, expected in zip(branches, types, strict=True) if not expected]
    if len(fitting) == 1:
        return [line for inner in fitting[0] for line in _sentences(inner)]
    if fitting:
        return [_sentence(error, error.message)]
    expected = ", ".join(f'"{name}"' for name in dict.fromkeys(name for names in types for name in names))
    return [_sentence(error, f"{_MASK} is not of type {expected}")]


def _expected_types(branch: list[jsonschema_rs.ValidationError], path: list[str | int]) -> list[str]:
    """Returns the types that an alternative (a branch of `anyOf` or `oneOf`) accepts if the type is its only objection to the
    value; otherwise an empty list."""
    if len(branch) == 1 and branch[0].kind.name == "type" and branch[0].instance_path == path:
        return list(getattr(branch[0].kind, "types", ()))
    return []


def _sentence(error: jsonschema_rs.ValidationError, message: str) -> str:
    field = ".".join(str(part) for part in error.instance_path) or "arguments"
    quoted = canonical_json(error.instance)[: _MAX_QUOTED + 1].decode(errors="ignore") if _MASK in message else ""
    if len(quoted) > _MAX_QUOTED:
        quoted = "the value"
    return f"{shorten(field, _MAX_QUOTED)}: {shorten(_first_line(message).replace(_MASK, quoted), _MAX_MESSAGE)}"


def _first_line(error: object) -> str:
    return str(error).split("\n", 1)[0]
