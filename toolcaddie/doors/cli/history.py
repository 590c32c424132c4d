"""A conversation read from a file: a JSON array, or one JSON object a line, of {"role", "content"}."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from toolcaddie.core.message import Message, Role
from toolcaddie.core.tool import ToolCall
from toolcaddie.wires.chat.content import read_content


class _Function(msgspec.Struct):
    name: str
    arguments: str = "{}"


class _Call(msgspec.Struct):
    function: _Function
    id: str = ""


class _Entry(msgspec.Struct):
    role: Role
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


history_option = click.option(
    "--history",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Earlier messages: a JSON array, or JSON lines, of {"role": ..., "content": ...}.',
)


def read_history(path: Path | None) -> tuple[Message, ...]:
    """Returns the messages of a file, oldest first; no file: no messages. Raises `click.UsageError` with the wrong line."""
    if path is None:
        return ()
    raw = path.read_bytes().strip()
    if raw.startswith(b"["):
        entries = _decode(raw, list[_Entry], f"{path}")
    else:
        lines = enumerate(raw.splitlines(), start=1)
        entries = [_decode(line, _Entry, f"{path}, line {number}") for number, line in lines if line.strip()]
    return tuple(_message(entry) for entry in entries)


def _decode(raw: bytes, shape: Any, place: str) -> Any:
    try:
        return msgspec.json.decode(raw, type=shape)
    except (msgspec.DecodeError, UnicodeError) as error:
        advice = 'write {"role": "user", "content": "..."}'
        raise click.UsageError(f"--history {place}: {error}; {advice}") from error


def _message(entry: _Entry) -> Message:
    return Message(
        role=entry.role,
        content=read_content(entry.content),
        tool_calls=tuple(
            ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
            for call in entry.tool_calls or ()
        ),
        tool_call_id=entry.tool_call_id,
    )
