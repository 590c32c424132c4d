"""The judgement of a change of a file: its difference, as a person who is asked sees it, and its effect."""

from __future__ import annotations

from toolcaddie.core.assessment import Assessment
from toolcaddie.guards.paths import Folder
from toolcaddie.tools.files.diffs import unified
from toolcaddie.tools.files.sizes import check_size


def judged_write(folder: Folder, path: str, data: bytes, *, append: bool = False, most: int) -> Assessment:
    """Returns the judgement of writing a file as a whole, or to its end. Raises `PathError` if that would fail."""
    real = folder.check(path)
    status = folder.status(path)
    if status is not None and status.st_size > most and not append:
        old = f"replaces {path}, a file of {status.st_size:,} bytes, last changed at {status.st_mtime_ns / 1e9:.9f}, by"
        return changing(folder, real, f"{old}\n{unified(path, None, data)}")
    before = folder.read(path, most=most)
    after = (before or b"") + data if append else data
    check_size(len(after), most=most)
    return changing(folder, real, unified(path, before, after))


def changing(folder: Folder, real: str, preview: str) -> Assessment:
    """Returns the judgement of a change of the file with this real path in a folder."""
    return Assessment(preview=preview, effects=(f"file.write {printable(str(folder.folder / real))}",))


def printable(text: str) -> str:
    """Returns a text in which names of files that are not Unicode are spelt out."""
    return text.encode(errors="backslashreplace").decode()
