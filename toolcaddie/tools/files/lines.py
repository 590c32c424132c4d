"""The lines of a file with their numbers, also of a file that is too large to be read as a whole."""

from __future__ import annotations

import codecs

from toolcaddie.guards.paths import OpenedFile, PathError, read_up_to

MOST_LINES = 50_000
"""The largest number of lines that are shown at once: the number of an empty line is longer than the line."""
_CHUNK = 1 << 20
_MOST_SKIPPED = 1 << 30
"""The largest number of bytes before the first line that is shown."""
_PROBE = 8_192


def numbered(file: OpenedFile, *, offset: int, limit: int | None, most: int) -> str:
    """Returns `limit` lines from line `offset` on, at most `most` bytes of them, each with its number. A last line in brackets
    says what is missing. Raises `PathError` if there is no such line, or the file is not text."""
    start = _after(file, offset - 1)
    data = start + read_up_to(file.descriptor, max(0, most + 1 - len(start)))
    if b"\0" in data[:_PROBE]:
        raise PathError(f"{file.path} is not text but a binary file of {file.size:,} bytes")
    if not data:
        if offset > 1:
            raise PathError(f"{file.path} has fewer than {offset} lines")
        return "[the file is empty]"
    part = _first_lines(data, MOST_LINES if limit is None else min(limit, MOST_LINES), most=most)
    notes = _notes(part, offset, most=most) if len(part) < len(data) else []
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(part, final=len(part) == len(data))
    if "\ufffd" in text and "\ufffd".encode() not in part:
        notes.append("bytes that are not UTF-8 are shown as \ufffd")
    lines = text.removesuffix("\n").split("\n")
    if all(line.endswith("\r") for line in lines):
        lines = [line.removesuffix("\r") for line in lines]
        notes.append("lines end with CR LF")
    numbers = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, offset))
    return f"{numbers}\n[{'; '.join(notes)}]" if notes else numbers


def _after(file: OpenedFile, lines: int) -> bytes:
    """Reads past a number of lines. Returns what was read of the next ones."""
    passed = 0
    while lines:
        chunk = read_up_to(file.descriptor, _CHUNK)
        if not chunk:
            return b""
        count = chunk.count(b"\n")
        if count >= lines:
            return chunk.split(b"\n", lines)[lines]
        lines -= count
        passed += len(chunk)
        if passed > _MOST_SKIPPED:
            raise PathError(
                f"{file.path} has more than {_MOST_SKIPPED:,} bytes before that line, too many to read past"
            )
    return b""


def _first_lines(data: bytes, limit: int, *, most: int) -> bytes:
    """Returns the first lines that may be shown, whole ones if there is one."""
    if len(data) > most:
        data = data[:most]
        data = data[: data.rfind(b"\n") + 1] or data
    if data.count(b"\n") < limit:
        return data
    return data[: len(data) - len(data.split(b"\n", limit)[limit])]


def _notes(part: bytes, offset: int, *, most: int) -> list[str]:
    """Returns what is missing of a file of which only a part is shown, in words."""
    if part.endswith(b"\n"):
        following = offset + part.count(b"\n")
        return [f"more lines follow; read on with offset={following}"]
    return [f"line {offset} is longer than {most:,} bytes and is cut; the next one is offset={offset + 1}"]
