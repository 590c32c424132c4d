"""The option `--history`: reads a conversation from a file, a JSON array or JSON lines of {"role": ..., "content": ...}."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message
from toolcaddie.wires.chat.messages import read_message

history_option = click.option(
    "--history",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Earlier messages: a JSON array, or JSON lines, of {"role": ..., "content": ...}.',
)


def read_history(path: Path | None) -> tuple[Message, ...]:
    """Returns the messages of a file, the oldest first; without a file, none. Raises `click.UsageError`, which names the wrong
    message or line."""
    if path is None:
        return ()
    raw = path.read_bytes().strip()
    if raw.startswith(b"["):
        return tuple(
            _message(item, f"messages[{index}]", f"{path}") for index, item in enumerate(_decoded(raw, f"{path}"))
        )
    lines = ((f"{path}, line {number}", line) for number, line in enumerate(raw.splitlines(), start=1) if line.strip())
    return tuple(_message(_decoded(line, place), "message", place) for place, line in lines)


def _decoded(raw: bytes, place: str) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _unreadable(place, error) from error


def _message(value: Any, where: str, place: str) -> Message:
    """Returns a message from its JSON. The error names `where`, the path within the JSON, and `place`, the file and line."""
    try:
        return read_message(value, where, by_hand=True)
    except RequestError as error:
        raise _unreadable(place, error) from error


def _unreadable(place: str, error: Exception) -> click.UsageError:
    return click.UsageError(f'--history {place}: {error}; write {{"role": "user", "content": "..."}}')
