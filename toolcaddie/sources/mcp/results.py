"""Turns what an MCP server returns into results and definitions of the catalog. The values are checked, because a server may be
hostile: a broken picture in a result would make the model's provider refuse the whole request."""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from typing import Any

import mcp_types as types
import msgspec

from toolcaddie.core.content import Audio, Block, Content, Image, Resource, Text, with_text
from toolcaddie.core.tool import ToolResult
from toolcaddie.sources.mcp.definitions import Definition
from toolcaddie.util.replacing import replace

_MIME = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,99}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,99}(\s*;.{0,100})?\Z")
_MOST_BLOCKS = 1_000


def result_of(answer: types.CallToolResult) -> ToolResult:
    """Returns the result of a call."""
    blocks = _blocks(answer.content)
    structured = answer.structured_content
    if not blocks and structured is not None:
        blocks = (Text(text=msgspec.json.encode(structured).decode()),)
    return ToolResult(
        content=_simplest(blocks) or "Done. There is no output.",
        is_error=bool(answer.is_error),
        error="failed" if answer.is_error else None,
        structured=structured,
    )


def resource_result(answer: types.ReadResourceResult) -> ToolResult:
    """Returns the contents of a resource as a result."""
    blocks = tuple(_contents(each) for each in answer.contents[:_MOST_BLOCKS])
    return ToolResult(content=blocks or "The resource is empty.")


def prompt_result(answer: types.GetPromptResult) -> ToolResult:
    """Returns the messages of a prompt as a result; each begins with its role."""
    blocks: list[Block] = []
    for message in answer.messages[:_MOST_BLOCKS]:
        [block] = _blocks([message.content])
        blocks.append(Text(text=f"{message.role}: {block.text}") if isinstance(block, Text) else block)
    return ToolResult(content=tuple(blocks) or "The prompt is empty.")


def tool_definition(tool: types.Tool) -> Definition:
    """Returns the definition of a tool."""
    sent = tool.annotations
    annotations = {
        "title": sent.title if sent else None,
        "read_only": sent.read_only_hint if sent else None,
        "destructive": sent.destructive_hint if sent else None,
        "idempotent": sent.idempotent_hint if sent else None,
        "open_world": sent.open_world_hint if sent else None,
    }
    return Definition(
        name=tool.name,
        title=tool.title,
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations={name: value for name, value in annotations.items() if value is not None},
    )


def resource_definition(resource: types.Resource) -> Definition:
    """Returns a tool that reads a resource."""
    size = f" ({resource.size:,} bytes)" if resource.size is not None else ""
    return Definition(
        name=resource.name,
        kind="resource",
        uri=str(resource.uri),
        title=resource.title,
        description=f"Read the resource {resource.name}{size}. {resource.description or ''}".strip(),
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        annotations={"read_only": True},
    )


def template_definition(template: types.ResourceTemplate) -> Definition:
    """Returns a tool that reads one of the resources that an address with parameters describes."""
    names = dict.fromkeys(re.findall(r"\{[+#./;?&]?([A-Za-z0-9_.,*:%]+)\}", template.uri_template))
    parameters = [part.rstrip("*").partition(":")[0] for name in names for part in name.split(",")]
    return Definition(
        name=template.name,
        kind="resource",
        uri=template.uri_template,
        title=template.title,
        description=f"Read a resource {template.name}. {template.description or ''}".strip(),
        input_schema={
            "type": "object",
            "properties": {name: {"type": "string"} for name in parameters},
            "required": parameters,
            "additionalProperties": False,
        },
        annotations={"read_only": True},
    )


def prompt_definition(prompt: types.Prompt) -> Definition:
    """Returns a tool that fills in a prompt."""
    arguments = prompt.arguments or []
    return Definition(
        name=prompt.name,
        kind="prompt",
        title=prompt.title,
        description=f"Get the prompt {prompt.name}. {prompt.description or ''}".strip(),
        input_schema={
            "type": "object",
            "properties": {each.name: {"type": "string", "description": each.description or ""} for each in arguments},
            "required": [each.name for each in arguments if each.required],
            "additionalProperties": False,
        },
        annotations={"read_only": True},
    )


def _blocks(content: Sequence[Any]) -> tuple[Block, ...]:
    blocks = [_block(each) for each in content[:_MOST_BLOCKS]]
    if len(content) > _MOST_BLOCKS:
        blocks.append(Text(text=f"[{len(content) - _MOST_BLOCKS:,} more parts are left out]"))
    return tuple(blocks)


def _block(part: Any) -> Block:
    annotations = part.annotations.model_dump(exclude_none=True) if part.annotations else None
    match part:
        case types.TextContent():
            return Text(text=part.text, annotations=annotations)
        case types.ImageContent() if _is_medium(part, "image/"):
            return Image(data=part.data, mime_type=part.mime_type, wire="mcp", annotations=annotations)
        case types.AudioContent() if _is_medium(part, "audio/"):
            return Audio(data=part.data, mime_type=part.mime_type, wire="mcp", annotations=annotations)
        case types.EmbeddedResource():
            return _contents(part.resource)
        case types.ResourceLink():
            return Resource(
                uri=str(part.uri),
                name=part.name,
                title=part.title or "",
                description=part.description or "",
                mime_type=part.mime_type or "",
                size=part.size,
                wire="mcp",
                annotations=annotations,
            )
        case _:
            return Text(text=f"[a part of type {part.type} that cannot be read is left out]")


def _contents(contents: types.TextResourceContents | types.BlobResourceContents) -> Block:
    mime_type = contents.mime_type or ""
    if isinstance(contents, types.TextResourceContents):
        return Resource(uri=str(contents.uri), mime_type=mime_type, text=contents.text, wire="mcp")
    if not _is_base64(contents.blob):
        return Text(text=f"[the resource {str(contents.uri)[:200]} is not valid base64 and is left out]")
    return Resource(uri=str(contents.uri), mime_type=mime_type, data=contents.blob, wire="mcp")


def _is_medium(part: types.ImageContent | types.AudioContent, kind: str) -> bool:
    return bool(_MIME.match(part.mime_type)) and part.mime_type.lower().startswith(kind) and _is_base64(part.data)


def _is_base64(data: str) -> bool:
    try:
        return bool(binascii.a2b_base64(data.encode("ascii"), strict_mode=True))
    except (binascii.Error, UnicodeEncodeError):
        return False


def _simplest(blocks: tuple[Block, ...]) -> Content:
    """Returns a single text without annotations as plain text, anything else unchanged."""
    first = blocks[0] if len(blocks) == 1 else None
    return first.text if isinstance(first, Text) and first.annotations is None else blocks


def with_remarks(result: ToolResult, remarks: Sequence[str]) -> ToolResult:
    """Returns the result with remarks of this program at its end."""
    return replace(result, content=with_text(result.content, "\n" + "\n".join(f"[{remark}]" for remark in remarks)))
