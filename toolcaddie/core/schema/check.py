"""Schemas checked once at load, and arguments against them. Nothing is ever fetched.

A schema may come from a stranger (an OpenAPI file, an MCP server), so what could hang or break the validator is refused at
load, by name, and whatever a message quotes is kept short.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.errors import CatalogError
from toolcaddie.core.schema import patterns
from toolcaddie.core.schema.encoding import canonical_json, shorten
from toolcaddie.core.schema.walk import anchors, every_schema, references, resolve, same_place
from toolcaddie.core.tool import JsonObject

MAX_DEPTH = 64
"""Of a schema, and of arguments where the schema refers to itself."""

MAX_VISITS = 10_000
"""How many schemas one value may be held against. Thirty lines of `allOf` over `allOf` can ask for a thousand million."""

_BIG = 100_000
"""Bytes of arguments above which only the first error is looked for: collecting all takes seconds for a long list."""

_LONG = 32 * 1024
_LONG_FOR_PATTERNS = 200
"""Bytes from which a check may take milliseconds, without and with patterns that go back."""

_MASK = patterns.MASK
_MAX_SHOWN, _MAX_MESSAGE = 60, 300

Validator = jsonschema_rs.Draft202012Validator


def check_schema(schema: Any, *, what: str) -> None:
    """Raise `CatalogError`, naming `what`, unless this is a usable schema of a tool's arguments.

    Usable: an object schema of draft 2020-12 that compiles, whose references stay inside it (a reference to anywhere else
    is refused and never fetched), and that is neither deeper than `MAX_DEPTH` nor explodes when it is applied.
    """
    if not isinstance(schema, Mapping):
        raise CatalogError(f"{what}: the schema must be a JSON object, not {type(schema).__name__}")
    if schema.get("type", "object") != "object":
        shown = shorten(repr(schema["type"]), _MAX_SHOWN)
        raise CatalogError(f"{what}: the schema of a tool's arguments must have type 'object', not {shown}")
    try:
        canonical = canonical_json(schema)
        plain = msgspec.json.decode(canonical)
    except RecursionError:
        raise CatalogError(_TOO_DEEP.format(what=what)) from None
    except (ValueError, TypeError) as error:
        raise CatalogError(f"{what}: the schema is no JSON: {shorten(_first_line(error), _MAX_MESSAGE)}") from error
    if deeper_than(plain, MAX_DEPTH):
        raise CatalogError(_TOO_DEEP.format(what=what))
    if _refers(canonical) or b'"$id"' in canonical:
        _refuse_outside_references(plain, what)
        _refuse_explosion(plain, what)
    try:
        _compiled(canonical)
    except jsonschema_rs.ValidationError as error:
        raise CatalogError(f"{what}: invalid JSON Schema: {_sentence(error, error.message)}") from error


_TOO_DEEP = f"{{what}}: the schema is nested more than {MAX_DEPTH} levels deep; put parts of it under $defs"


def compile_schema(schema: JsonObject) -> Validator:
    """The validator of a schema. Compiled once per different schema; raises ValueError for a bad one."""
    return _compile(canonical_json(schema)).validator


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    validator: Validator
    refers: bool
    """It has references, so it may recurse as deep as the arguments go."""
    costly: bool
    """It has patterns with look-around or backreferences."""
    names: tuple[str, ...]
    """Such patterns of its `patternProperties`."""


def _compiled(canonical: bytes) -> _Compiled:
    names: tuple[str, ...] = ()
    schema = msgspec.json.decode(canonical)
    if b'"pattern' in canonical:
        schema, names = patterns.set_apart(schema)
    validator = Validator(
        schema,
        retriever=_refuse,
        mask=_MASK,
        pattern_options=patterns.OPTIONS,
        keywords={patterns.KEYWORD: patterns.PatternKeyword},
    )
    costly = bool(names) or any(patterns.KEYWORD in node for node in every_schema(schema))
    return _Compiled(validator=validator, refers=_refers(canonical), costly=costly, names=names)


# A validator takes 20 KB and 25 us, so those of tools that are called are kept, not those of all that are loaded.
_compile = lru_cache(maxsize=2_048)(_compiled)


def _refers(canonical: bytes) -> bool:
    return b'ef":"' in canonical  # $ref, $dynamicRef, $recursiveRef; a false alarm costs microseconds


def _refuse(uri: str) -> Any:
    raise ValueError(f"the reference {uri!r} leaves the schema; put the definition under $defs")


def _refuse_outside_references(schema: dict[str, Any], what: str) -> None:
    schemas = {id(node) for node in every_schema(schema)}
    for node in every_schema(schema):
        for reference in references(node):
            target = resolve(schema, reference)
            if isinstance(target, dict) and id(target) not in schemas:
                raise CatalogError(
                    f"{what}: the reference {shorten(reference, _MAX_MESSAGE)!r} leads to a value and not to a schema; put "
                    "the definition under $defs"
                )
            if not reference.startswith("#"):
                raise CatalogError(
                    f"{what}: the reference {shorten(reference, _MAX_MESSAGE)!r} leaves the schema and is never fetched; "
                    "put the definition under $defs"
                )
        if isinstance(node.get("$id"), str) and node is not schema:
            raise CatalogError(
                f"{what}: $id {shorten(node['$id'], _MAX_MESSAGE)!r} inside the schema changes what its references mean; "
                "leave it out"
            )


def _refuse_explosion(schema: dict[str, Any], what: str) -> None:
    """Count, with all references followed, how many schemas one value meets."""
    named = anchors(schema)
    visits: dict[int, int] = {}
    for root in every_schema(schema):
        stack: list[tuple[dict[str, Any], bool]] = [(root, False)]
        while stack:
            node, done = stack.pop()
            inside = [*same_place(node), *_targets(schema, named, node)]
            if done:
                visits[id(node)] = 1 + sum(visits.get(id(child), 0) for child in inside)
                if visits[id(node)] > MAX_VISITS:
                    raise CatalogError(
                        f"{what}: checking one value against the schema would take more than {MAX_VISITS} steps, because "
                        "its references multiply; say the same with fewer allOf, anyOf and $ref"
                    )
            elif id(node) not in visits:
                visits[id(node)] = 0  # under way: a schema that leads back to itself here adds nothing
                stack.append((node, True))
                stack.extend((child, False) for child in inside)


def _targets(schema: dict[str, Any], named: dict[str, dict[str, Any]], node: dict[str, Any]) -> list[dict[str, Any]]:
    found = [named.get(reference) or resolve(schema, reference) for reference in references(node)]
    return [target for target in found if isinstance(target, dict)]


def takes_long(schema: JsonObject, size: int) -> bool:
    """Whether so many bytes may take so long to check that it is better done beside the event loop."""
    return size > _LONG or (size > _LONG_FOR_PATTERNS and _compile(canonical_json(schema)).costly)


def argument_errors(schema: JsonObject, arguments: Any, *, limit: int = 3, bounds: Bounds = DEFAULT) -> list[str]:
    """What is wrong with these arguments, one sentence each naming the field; empty: nothing."""
    compiled = _compile(canonical_json(schema))
    if not compiled.costly:
        return _errors(compiled, arguments, limit)
    budget = patterns.begin(bounds)
    try:
        patterns.try_names(compiled.names, arguments, budget)
    except patterns.Overspent as error:
        return [f"arguments: a name {error}" if "characters" in str(error) else f"arguments: {error}"]
    wrong = _errors(compiled, arguments, limit)
    # What could not be matched is refused also where a `not` or another branch of the schema makes that a success.
    return wrong or ([f"arguments: a text {budget.overspent}"] if budget.overspent else [])


def _errors(compiled: _Compiled, arguments: Any, limit: int) -> list[str]:
    try:
        size = len(canonical_json(arguments))
        if compiled.refers and deeper_than(arguments, MAX_DEPTH):
            return [f"arguments: nested more than {MAX_DEPTH} levels deep"]
        if compiled.validator.is_valid(arguments):
            return []
        if size > _BIG:
            return _sentences(_first_error(compiled.validator, arguments))[:limit]
        found = [line for error in compiled.validator.iter_errors(arguments) for line in _sentences(error)]
        return list(dict.fromkeys(found))[:limit]
    except RecursionError:
        return ["arguments: nested too deep"]
    except (TypeError, ValueError) as error:
        return [f"arguments: not JSON: {shorten(_first_line(error), _MAX_MESSAGE)}"]


def deeper_than(value: Any, levels: int) -> bool:
    """Whether objects and lists are nested in each other more than so many times."""
    here = [value]
    for _ in range(levels):
        here = [
            child
            for node in here
            if isinstance(node, dict | list | tuple)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not here:
            return False
    return any(isinstance(node, dict | list | tuple) for node in here)


def _first_error(validator: Validator, arguments: Any) -> jsonschema_rs.ValidationError:
    try:
        validator.validate(arguments)
    except jsonschema_rs.ValidationError as error:
        return error
    raise AssertionError("the validator calls the same arguments valid and invalid")


def _sentences(error: jsonschema_rs.ValidationError) -> list[str]:
    """The field and what is wrong with it. Of alternatives, those that take this kind of value at all speak."""
    branches = getattr(error.kind, "context", None)
    if not branches:
        return [_sentence(error, error.message)]
    here = error.instance_path
    types = [_types_wanted(branch, here) for branch in branches]
    fitting = [branch for branch, wanted in zip(branches, types, strict=True) if not wanted]
    if len(fitting) == 1:
        return [line for inner in fitting[0] for line in _sentences(inner)]
    if fitting:
        return [_sentence(error, error.message)]
    wanted = ", ".join(f'"{name}"' for name in dict.fromkeys(name for names in types for name in names))
    return [_sentence(error, f"{_MASK} is not of type {wanted}")]


def _types_wanted(branch: list[jsonschema_rs.ValidationError], here: list[str | int]) -> list[str]:
    """The types of an alternative that refuses the value for its type alone."""
    if len(branch) == 1 and branch[0].kind.name == "type" and branch[0].instance_path == here:
        return list(getattr(branch[0].kind, "types", ()))
    return []


def _sentence(error: jsonschema_rs.ValidationError, message: str) -> str:
    where = ".".join(str(part) for part in error.instance_path) or "arguments"
    shown = canonical_json(error.instance)[: _MAX_SHOWN + 1].decode(errors="ignore") if _MASK in message else ""
    if len(shown) > _MAX_SHOWN:
        shown = "the value"
    return f"{shorten(where, _MAX_SHOWN)}: {shorten(_first_line(message).replace(_MASK, shown), _MAX_MESSAGE)}"


def _first_line(error: object) -> str:
    return str(error).split("\n", 1)[0]
