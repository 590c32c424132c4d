"""Principals, tools and calls in the form of Cedar: entities with attributes and parents, and the context of a request.

Principal: in Tenant, Role, Bot, Channel; attributes id, tenant, role?, bot?, channel?
Tool:      in Category, Source; attributes name, source, category?, tags, read_only, may_destroy, idempotent,
           open_world, never_ask
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolcaddie.core.control import Principal
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.tool import Tool

Uid = Mapping[str, str]
Entity = Mapping[str, Any]

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_DECIMAL_BOUND = 922_337_203_685_477
"""The largest absolute value of Cedar's decimal numbers, which have four digits after the point."""
_GROUPS = ("tenant", "role", "bot", "channel")
_DEPTH = 50
"""Levels of a value that rules see; Cedar reads no more than some hundred."""
_ESCAPES = frozenset({"__entity", "__extn", "__expr"})
"""Keys with which JSON would stand for an entity or a function of Cedar."""


def uid(kind: str, name: str) -> Uid:
    return {"type": kind, "id": name}


def principal_uid(principal: Principal) -> Uid:
    """Returns the name of a principal: its id; in another tenant than `default`, the tenant, `/` and the id. `/` and `%` within
    them are written `%2F` and `%25`, so that no two principals share a name."""
    own = _escaped(principal.id)
    return uid("Principal", own if principal.tenant == "default" else f"{_escaped(principal.tenant)}/{own}")


def principal_entity(principal: Principal) -> Entity:
    groups = {name.capitalize(): getattr(principal, name) for name in _GROUPS}
    return _entity(principal_uid(principal), principal_facts(principal), groups)


def principal_facts(principal: Principal) -> Mapping[str, str]:
    """Returns the attributes of a principal."""
    values = {"id": principal.id, **{name: getattr(principal, name) for name in _GROUPS}}
    return {name: value for name, value in values.items() if value is not None}


def tool_entity(tool: Tool, *, never_ask: bool) -> Entity:
    annotations = tool.annotations
    attributes = {
        "name": tool.name,
        "source": tool.source,
        "category": tool.category,
        "tags": sorted(tool.tags),
        "read_only": bool(annotations.read_only),
        "may_destroy": tool.may_destroy,
        "idempotent": bool(annotations.idempotent),
        "open_world": tool.untrusted if annotations.open_world is None else annotations.open_world,
        "never_ask": never_ask,
    }
    return _entity(uid("Tool", tool.name), attributes, {"Category": tool.category, "Source": tool.source})


def arguments_of(values: Mapping[str, Any], tool: Tool) -> Mapping[str, Any]:
    """Returns the arguments of a call in Cedar's JSON format. A parameter of the type `number` is a `decimal` also if its value
    has no fraction, so that a rule can compare it. An argument whose name stands for an entity in that format is omitted, so that
    the rules see the others."""
    properties = tool.input_schema.get("properties") or {}
    decimals = {name for name, schema in properties.items() if isinstance(schema, Mapping) and _is_number(schema)}
    converted = {name: as_cedar(value) for name, value in values.items() if value is not None and name not in _ESCAPES}
    numbers = {name: values[name] for name in decimals if isinstance(values.get(name), int | float)}
    return {**converted, **{name: _decimal(number) for name, number in numbers.items() if not isinstance(number, bool)}}


def _is_number(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "number" or (isinstance(kind, list) and "number" in kind)


def as_cedar(value: Any, depth: int = _DEPTH) -> Any:
    """Returns a JSON value in Cedar's JSON format.

    Cedar has neither null nor floating point: a key or an element that is null is omitted, and a number with a fraction becomes a
    `decimal` with four digits. What Cedar cannot hold becomes a string, so that a rule that computes with it fails, and the call
    with it. An object that would stand for an entity becomes the string of its JSON, and so does what lies deeper than `depth`.
    """
    if depth == 0 and isinstance(value, list | tuple | Mapping):
        return canonical_json(value).decode()
    match value:
        case bool() | str():
            return value
        case int():
            return value if _SMALLEST <= value <= _LARGEST else str(value)
        case float():
            return int(value) if value.is_integer() and _SMALLEST <= value <= _LARGEST else _decimal(value)
        case list() | tuple():
            return [as_cedar(item, depth - 1) for item in value if item is not None]
        case Mapping():
            if not _ESCAPES.isdisjoint(value):
                return canonical_json(value).decode()
            return {str(key): as_cedar(item, depth - 1) for key, item in value.items() if item is not None}
        case _:
            return str(value)


def document(*entities: Entity) -> str:
    """Returns entities as the JSON text that Cedar reads."""
    return json.dumps(entities)


def _entity(name: Uid, attributes: Mapping[str, Any], groups: Mapping[str, str | None]) -> Entity:
    return {
        "uid": name,
        "attrs": {key: value for key, value in attributes.items() if value is not None},
        "parents": [uid(kind, group) for kind, group in groups.items() if group is not None],
    }


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")


def _decimal(value: float) -> Any:
    if not abs(value) < _DECIMAL_BOUND:  # also if it is no number
        return str(value)
    return {"__extn": {"fn": "decimal", "arg": f"{value:.4f}"}}
