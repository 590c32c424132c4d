"""Hostile and harmless inputs that others wrote: files of a folder, one input a line.

A line of a `.txt` file that begins with `json:` is a JSON string. A line of a `.jsonl` file has the input in its field `text`.
The files are hostile themselves, so nothing in them is an error: bytes that are not UTF-8 are replaced, and a line without the
expected form is itself the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

LONGEST = 100_000
"""Largest number of characters of an input; the rest is cut off. Inputs that are too large are the attack `hostile`."""


def texts_of(folder: Path | None, name: str) -> Sequence[str] | None:
    """Returns the inputs of a file. None, after a sentence that says so, if there is no folder or no such file."""
    file = None if folder is None else folder / name
    if file is None or not file.is_file():
        where = "name its folder with --corpora" if folder is None else f"it is not in {folder}"
        print(f"skipped: there is no {name}; {where}")
        return None
    # Only the line feed ends a line: other separators of Unicode are part of an input.
    lines = (line.removesuffix("\r") for line in file.read_bytes().decode(errors="replace").split("\n"))
    read = _record if name.endswith(".jsonl") else _line
    return [text[:LONGEST] for line in lines if line.strip() and (text := read(line))]


def _line(line: str) -> str:
    if line.startswith("json:"):
        decoded = _decoded(line.removeprefix("json:"))
        return decoded if isinstance(decoded, str) else line
    return line


def _record(line: str) -> str:
    decoded = _decoded(line)
    text = decoded.get("text") if isinstance(decoded, dict) else decoded
    return text if isinstance(text, str) else line


def _decoded(text: str) -> Any:
    """Returns the value of a JSON text; None if it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
