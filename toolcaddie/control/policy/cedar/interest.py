"""What rules look at. Principals, and tools, that are equal in it get the same decision, so one evaluation serves them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from toolcaddie.control.policy.cedar.statements import Statement

_PARTS = frozenset({".", "has", "in", "is"})
"""Operators that look at a part of their left side, and not at its identity."""


class Interest(Struct, frozen=True, kw_only=True):
    """What a set of rules looks at."""

    principal_id: bool
    """True if a decision may depend on the single principal, and not only on its role, bot and tenant."""
    tool_names: frozenset[str] | None
    """The tools on whose names a decision may depend; None: any."""
    call: bool
    """True if a decision may depend on the arguments or the effects of the single call."""


def interest_of(statements: Iterable[Statement]) -> Interest:
    """Returns what these rules look at. In doubt, they look."""
    nodes = [node for statement in statements for node in _nodes(statement.tree)]
    attributes = {node.get("attr") for node in nodes}
    literals = _literals(nodes)
    whole = {variable for node in nodes for variable in _whole_variables(node)}
    by_name = bool(attributes & {"name"}) or "resource" in whole
    return Interest(
        principal_id=bool(attributes & {"id"})
        or "principal" in whole
        or any(kind == "Principal" for kind, _ in literals),
        tool_names=None if by_name else frozenset(name for kind, name in literals if kind == "Tool"),
        call=bool(attributes & {"arguments", "effects"}) or "context" in whole,
    )


def entities_in(statement: Statement) -> set[tuple[str, str]]:
    """Returns type and name of each entity that a rule names."""
    return set(_literals(_nodes(statement.tree)))


def _literals(nodes: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [entity for node in nodes if (entity := _literal(node)) is not None]


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Yields all objects in a tree."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            yield node
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def _literal(node: Mapping[str, Any]) -> tuple[str, str] | None:
    """Returns type and name of an entity that a rule names."""
    kind, name = node.get("type"), node.get("id")
    return (kind, name) if isinstance(kind, str) and isinstance(name, str) else None


def _whole_variables(node: Mapping[str, Any]) -> Iterator[str]:
    """Yields the variables that a node uses as a whole."""
    for operator, value in node.items():
        operands = value if isinstance(value, list) else list(value.values()) if isinstance(value, Mapping) else []
        if operator in _PARTS and isinstance(value, Mapping):
            operands = [operand for side, operand in value.items() if side != "left"]
        for operand in operands:
            if isinstance(operand, Mapping) and (variable := operand.get("Var")):
                yield variable
        if operator == "body" and isinstance(value, Mapping) and (variable := value.get("Var")):
            yield variable
