"""The copy of a persona's files that a reviewer edits, and what has changed in it.

What is in the folder afterwards is hostile: a reviewer may leave links, devices, or files without end. Each file is opened
beneath the folder, without following links.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import LOGS, PersonaFile, Trust, fact_line, read_fact
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.guards.paths import Folder, PathError
from toolcaddie.ports.reviewing import Focus
from toolcaddie.tools.improve.focuses import is_in, may_be_new
from toolcaddie.tools.improve.values import Change
from toolcaddie.util.replacing import replace

MOST_FILES = 5_000
_DEEPEST = 30
_MOST_BYTES = 16 * 1024 * 1024
_MOST_FILE_BYTES = 256 * 1024
_MOST_CHANGED_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a review has changed."""

    proposed: tuple[Change, ...]
    left_out: tuple[str, ...]
    """A sentence for each change that is not proposed."""


def write_copy(folder: Path, files: Sequence[PersonaFile]) -> None:
    """Writes the files into an empty folder. Raises `RequestError` if they are too many or too large."""
    if len(files) > MOST_FILES or sum(len(file.text.encode()) for file in files) > _MOST_BYTES:
        raise RequestError("the bot has too many files for a review; archive some of its logs")
    target = Folder(folder)
    for file in files:
        target.write(file.path, file.text.encode())


def changes_in(folder: Path, files: Sequence[PersonaFile], focus: Focus, *, person: str) -> Changes:
    """Returns what has changed in the copy. Changes outside of the focus are not proposed, nor are deleted and odd files.
    `person`: `tenant/id` of the person for whom the bot asked."""
    before = {file.path: file for file in files}
    left = {file.path for file in files}
    opened, proposed, left_out, size = Folder(folder), [], [], 0
    for path in _paths(folder):
        left.discard(path)
        old = before.get(path)
        try:
            text = _text(opened, path)
        except PathError as error:
            left_out.append(f"{path[:200]}: {error}")
            continue
        if text is None or (old is not None and text == old.text):
            continue
        if problem := _problem(path, text, old, focus):
            left_out.append(f"{path[:200]}: {problem}")
            continue
        text = _with_origins(path, text, before, person)
        size += len(text.encode())
        if size > _MOST_CHANGED_BYTES:
            raise RequestError(f"the review changed more than {_MOST_CHANGED_BYTES:,} bytes; ask for a smaller focus")
        proposed.append(
            Change(path=path, before=old.text if old else "", after=text, version=old.version if old else 0)
        )
    left_out += [f"{path}: a review deletes no file" for path in sorted(left) if is_in(path, focus)]
    return Changes(proposed=tuple(proposed), left_out=tuple(left_out))


def taint_of(files: Sequence[PersonaFile]) -> tuple[str, ...]:
    """Returns the tools whose untrusted results may be in these files: those that the writers of their versions had read, and
    `save_memory` if a fact of a log is tainted."""
    names = [name for file in files for name in file.author.taint]
    lines = (line for file in files if file.path.startswith(LOGS) for line in file.text.split("\n"))
    if any((fact := read_fact(line)) is not None and fact.provenance.trust == "tainted" for line in lines):
        names.append("save_memory")
    return tuple(dict.fromkeys(names))


def _paths(folder: Path) -> Iterator[str]:
    """Yields the paths of everything in the folder that is no folder, in order. Folders below `_DEEPEST` others are not looked
    into: no file of a persona is there. Raises `RequestError` if there is too much."""
    count, waiting = 0, [""]
    while waiting:
        place = waiting.pop()
        with os.scandir(folder / place) as entries:
            for entry in sorted(islice(entries, 2 * MOST_FILES + 1), key=lambda each: each.name):
                count += 1
                if count > 2 * MOST_FILES:
                    raise RequestError("the review left too many files behind")
                path = f"{place}{entry.name}"
                if not entry.is_dir(follow_symlinks=False):
                    yield path
                elif path.count("/") < _DEEPEST:
                    waiting.append(f"{path}/")


def _text(folder: Folder, path: str) -> str | None:
    """Returns the text of a file; None: it is gone. Raises `PathError` for what is no ordinary small text."""
    data = folder.read(path, most=_MOST_FILE_BYTES)
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError as error:
        raise PathError("it is not text in UTF-8") from error


def _problem(path: str, text: str, old: PersonaFile | None, focus: Focus) -> str:
    """Returns why a change is not proposed; empty: it is."""
    if not is_in(path, focus):
        return f"outside of the focus {focus}"
    if KNOWN.redact(text) != text:
        return "it has a secret of this host in it"
    return "" if old is not None or may_be_new(path, focus) else "a review makes no new logs or notes"


def _with_origins(path: str, text: str, before: Mapping[str, PersonaFile], person: str) -> str:
    """Returns a log in which no new line says that it can be trusted: where a fact comes from is not for a reviewer to say. A
    fact that lost its comment in the review stays the person's own, because facts without one are shown to everybody."""
    if not path.startswith(LOGS):
        return text
    known = {line for file in before.values() if file.path.startswith(LOGS) for line in file.text.split("\n")}
    lines = text.split("\n")
    replaced = set(before[path].text.split("\n")).difference(lines) if path in before else set()
    facts = (read_fact(line) for line in replaced)
    own = person if any(fact is not None and fact.provenance.who for fact in facts) else ""
    return "\n".join(line if line in known else _with_unknown_trust(line, own) for line in lines)


def _with_unknown_trust(line: str, own: str) -> str:
    fact = read_fact(line)
    if fact is None:
        return line
    origin = fact.provenance
    trust: Trust = "unknown" if origin.trust == "clean" else origin.trust
    changed = replace(origin, who=origin.who or own, trust=trust)
    return line if changed == origin else fact_line(replace(fact, provenance=changed))
