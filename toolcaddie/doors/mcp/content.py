"""Translates between Toolcaddie's values and MCP's: tools, results and blocks of content. `server.py` uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from toolcaddie.core.content import (
    Audio,
    Block,
    Image,
    Other,
    Refusal,
    Resource,
    Text,
    Video,
    blocks_of,
    placeholder,
)
from toolcaddie.core.tool import Tool, ToolResult

WIRE = "mcp"
_CONTENT: TypeAdapter[Any] = TypeAdapter(types.ContentBlock)


def listed_tool(tool: Tool) -> types.Tool:
    """Returns a tool as MCP lists it."""
    hints = tool.annotations
    output = tool.output_schema
    return types.Tool(
        name=tool.name,
        title=hints.title,
        description=tool.description,
        input_schema={"type": "object", **tool.input_schema},
        output_schema=dict(output) if output is not None and output.get("type") == "object" else None,
        annotations=types.ToolAnnotations(
            title=hints.title,
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=hints.open_world,
        ),
    )


def call_result(result: ToolResult, *, modern: bool) -> types.CallToolResult:
    """Returns the result of a call. `modern`: structured content may be any JSON value, not only an object."""
    structured = result.structured if modern or isinstance(result.structured, Mapping) else None
    content = [content_block(block) for block in blocks_of(result.content)]
    return types.CallToolResult(content=content, structured_content=structured, is_error=result.is_error)


def content_block(block: Block) -> Any:
    """Returns a block as MCP's content. A block that MCP cannot express becomes a line of text that names it."""
    part = _part(block)
    if block.wire == WIRE and block.extra:
        part = {**block.extra, **part}
    if block.annotations:
        part["annotations"] = dict(block.annotations)
    try:
        return _CONTENT.validate_python(part)
    except ValidationError:
        return types.TextContent(text=placeholder(block))


def _part(block: Block) -> dict[str, Any]:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Refusal():
            return {"type": "text", "text": placeholder(block)}
        case Image(data=data) if data:
            return {"type": "image", "data": data, "mimeType": block.mime_type or "image/png"}
        case Audio(data=data) if data:
            return {"type": "audio", "data": data, "mimeType": block.mime_type or "audio/wav"}
        case Video(data=data) if data:
            return {"type": "resource", "resource": {"uri": "data:video", "mimeType": block.mime_type, "blob": data}}
        case Image() | Audio() | Video() if block.url:
            return {
                "type": "resource_link",
                "uri": block.url,
                "name": block.url[:200],
                "mimeType": block.mime_type or None,
            }
        case Resource():
            return _resource(block)
        case Other() if block.wire == WIRE:
            return dict(block.part)
        case _:
            return {"type": "text", "text": placeholder(block)}


def _resource(block: Resource) -> dict[str, Any]:
    uri, mime_type = block.uri or f"file:///{block.name or 'file'}", block.mime_type or None
    if block.text is not None:
        return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": block.text}}
    if block.data:
        return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "blob": block.data}}
    return {
        "type": "resource_link",
        "uri": uri,
        "name": block.name or uri[:200],
        "title": block.title or None,
        "description": block.description or None,
        "mimeType": mime_type,
        "size": block.size,
    }
