"""The Cedar schema of a catalog: what rules may look at, and of which type. `toolcaddie policy check` validates rules with it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import cedarpy

from toolcaddie.control.policy.cedar.statements import Statement
from toolcaddie.core.tool import Tool

_ENTITIES = """\
entity Tenant, Role, Bot, Channel, Category, Source;
entity Principal in [Tenant, Role, Bot, Channel] {
  id: String, tenant: String, role?: String, bot?: String, channel?: String
};
entity Tool in [Category, Source] {
  name: String, source: String, category?: String, tags: Set<String>, read_only: Bool, may_destroy: Bool,
  idempotent: Bool, open_world: Bool, never_ask: Bool
};
action see appliesTo { principal: Principal, resource: Tool, context: {} };
"""
_CALLS = """\
action call, call_unasked appliesTo {{
  principal: Principal, resource: Tool,
  context: {{ tainted: Bool, taint: Set<String>, arguments: {{ {arguments} }} }}
}};
action approve appliesTo {{
  principal: Principal, resource: Tool,
  context: {{
    tainted: Bool, taint: Set<String>, arguments: {{ {arguments} }},
    asker: {{ id: String, tenant: String, role?: String, bot?: String, channel?: String }}
  }}
}};
"""
_TYPES = {"string": "String", "integer": "Long", "number": "decimal", "boolean": "Bool"}


def schema_of(tools: Iterable[Tool]) -> str:
    """Returns the schema. Arguments are optional, because each tool has its own. An argument that two tools give different
    types, or whose type Cedar does not have, is not in the schema, so rules that look at it cannot be validated."""
    types: dict[str, str | None] = {}
    for tool in tools:
        for name, schema in (tool.input_schema.get("properties") or {}).items():
            kind = _type_of(schema)
            types[name] = kind if types.get(name, kind) == kind else None
    arguments = ", ".join(f"{json.dumps(name)}?: {kind}" for name, kind in sorted(types.items()) if kind is not None)
    return _ENTITIES + _CALLS.format(arguments=arguments)


def problems_of(rules: Sequence[Statement], tools: Iterable[Tool]) -> list[str]:
    """Returns what is wrong with rules by the schema of a catalog: a sentence for each mistake, with the place of its rule."""
    result = cedarpy.validate_policies("\n".join(rule.text for rule in rules), schema_of(tools))
    return [_sentence(rules, error) for error in result.errors]


def _sentence(rules: Sequence[Statement], error: Any) -> str:
    name = str(error.policy_id)
    number = name.removeprefix("policy")
    place = rules[int(number)].place if number.isdigit() and int(number) < len(rules) else name
    return f"{place}: {str(error.error).partition(chr(10))[0].replace(f'for policy `{name}`, ', '')}"


def _type_of(schema: Any) -> str | None:
    """Returns the Cedar type of an argument; None: there is none, or it is not sure."""
    if not isinstance(schema, Mapping):
        return None
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind == "array":
        inner = _type_of(schema.get("items"))
        return None if inner is None else f"Set<{inner}>"
    return _TYPES.get(kind) if isinstance(kind, str) else None
