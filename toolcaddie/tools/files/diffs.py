"""The difference between two contents of a file, for a person who is asked about a change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from toolcaddie.util.hunks import hunks

MOST_LINES = 1_000
MOST_CHARACTERS = 50_000


def unified(path: str, before: bytes | None, after: bytes) -> str:
    """Returns the unified diff of a file. `before`: None for a new file.

    Its first lines have digests of both contents. So two changes have the same diff only if they are the same, even where the
    diff is cut.
    """
    is_text = not any(b"\0" in content for content in (before or b"", after))
    body = _cut(hunks(_lines(before or b""), _lines(after))) if is_text else ["the file is not text"]
    return "\n".join([f"--- {_title(path, before)}", f"+++ {_title(path, after)}", *(body or ["nothing changes"])])


def _title(path: str, content: bytes | None) -> str:
    if content is None:
        return "/dev/null"
    return f"{path} ({len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()[:32]})"


def _lines(content: bytes) -> list[str]:
    """Returns the lines of a content. A line that has no line end, or no ordinary one, says so."""
    lines = content.decode(errors="backslashreplace").split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _cut(lines: Iterator[str]) -> list[str]:
    """Returns as many lines as a person can be shown, and how many there are beyond. Those are counted and not kept: the
    difference of two files takes several times their memory."""
    kept: list[str] = []
    size = rest = 0
    for line in lines:
        size += len(line) + 1
        if rest or len(kept) == MOST_LINES or size > MOST_CHARACTERS:
            rest += 1
        else:
            kept.append(line)
    return [*kept, f"... {rest:,} more lines of the difference are not shown"] if rest else kept
