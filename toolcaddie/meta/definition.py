"""Makes the definitions of the built-in meta tools."""

from __future__ import annotations

from typing import Any

from toolcaddie.core.meta_names import META_SOURCE
from toolcaddie.core.tool import Tool, ToolAnnotations


def meta_definition(
    name: str,
    title: str,
    description: str,
    properties: dict[str, Any],
    *,
    required: list[str] | None = None,
    read_only: bool = True,
    **keywords: Any,
) -> Tool:
    """Returns the tool as the model reads it.

    `title`: a short name for people. `properties`: argument -> its schema; `required`: the arguments that a call must have;
    `keywords`: further keywords of the schema of all arguments.
    """
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False, **keywords}
    if required:
        schema["required"] = required
    return Tool(
        name=name,
        description=description,
        input_schema=schema,
        source=META_SOURCE,
        annotations=ToolAnnotations(
            title=title, read_only=read_only, destructive=not read_only, idempotent=read_only, open_world=not read_only
        ),
    )
