"""The Cedar schema of a catalog: what rules may look at, and of which type. `toolcaddie policy check` validates rules with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import cedarpy

from toolcaddie.control.policy.cedar.short_forms import quoted
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
  context: {{ tainted: Bool, taint: Set<String>, effects: Set<String>, arguments: {{ {arguments} }} }}
}};
action approve appliesTo {{
  principal: Principal, resource: Tool,
  context: {{
    tainted: Bool, taint: Set<String>, effects: Set<String>, arguments: {{ {arguments} }},
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
    arguments = ", ".join(f"{quoted(name)}?: {kind}" for name, kind in sorted(types.items()) if kind is not None)
    return _ENTITIES + _CALLS.format(arguments=arguments)


def problems_of(rules: Sequence[Statement], tools: Iterable[Tool]) -> list[str]:
    """Returns what is wrong with rules by the schema of a catalog, in the order of the rules: a sentence for each mistake, with
    its place and, where there is one, a remedy."""
    result = cedarpy.validate_policies("\n".join(rule.text for rule in rules), schema_of(tools))
    places = {f"policy{number}": number for number in range(len(rules))}
    found = {(places[str(error.policy_id)], _first_line(error)) for error in result.errors}
    return [_sentence(rules[number], text) for number, text in sorted(found)]  # Cedar's own order changes between runs


_ATTRIBUTE = re.compile(r"attribute `(?:[^`]*\.)?([^`.]+)`")
_REMEDIES = {
    "optional attribute `arguments.": "; not every call has it: write `context.arguments has {name} && ...` before it",
    "optional attribute": "; not everything has it: write `... has {name} && ...` before it",
    "expected Long but saw decimal": '; a parameter of the type `number` is compared by `.greaterThan(decimal("9.99"))`',
    "unrecognized action": "; there are see, call, call_unasked and approve",
}
"""Advice for messages that contain these words. `{name}`: the attribute."""


def _sentence(rule: Statement, text: str) -> str:
    """Returns a message with its place. Cedar names only the rule, so the line is that of the attribute in the message; without
    one, that of the condition."""
    match = _ATTRIBUTE.search(text)
    name = "" if match is None else match[1]
    remedy = next((remedy for part, remedy in _REMEDIES.items() if part in text), "")
    in_head = "unrecognized" in text or "applicable action" in text
    pattern = rf"(?:\.|\bhas)\s*{re.escape(name)}\b" if name else r"\b(?:when|unless)\s*\{"
    return f"{rule.place if in_head else rule.place_of(pattern)}: {text}{remedy.format(name=name)}"


def _first_line(error: Any) -> str:
    return str(error.error).partition("\n")[0].replace(f"for policy `{error.policy_id}`, ", "")


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
