"""Idempotency keys of calls: a tool that takes one acts only once for the same key, so such a call may be repeated."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from toolcaddie.core.tool import Tool

_OURS = uuid.UUID("5b0f3c1e-6a53-4f0e-9a55-2a0f7c1d8e64")
"""The namespace of the keys that are made here."""


def has_key(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Returns True if a call has an idempotency key among its arguments. Null and the empty string are none."""
    return tool.idempotency_key is not None and arguments.get(tool.idempotency_key) not in (None, "")


def with_key(tool: Tool, arguments: dict[str, Any], *, run_id: str, call_id: str) -> dict[str, Any]:
    """Returns the arguments with an idempotency key: the model's own, or one made of the ids of run and call, which is the same
    again if another process repeats the call. Arguments of a tool that takes no key, or none that is a string, stay as they
    are."""
    name = tool.idempotency_key
    if name is None or has_key(tool, arguments) or not _takes_text(tool, name):
        return arguments
    return {**arguments, name: str(uuid.uuid5(_OURS, f"{run_id}/{call_id}"))}


def _takes_text(tool: Tool, name: str) -> bool:
    properties = tool.input_schema.get("properties")
    schema = properties.get(name) if isinstance(properties, Mapping) else None
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind is None or kind == "string" or (isinstance(kind, list) and "string" in kind)
