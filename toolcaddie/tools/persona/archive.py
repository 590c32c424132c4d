"""The archive of completed goals: a note for each month, `notes/goals-archive-2026-05.md`, and a further one,
`notes/goals-archive-2026-05-2.md`, when that is full."""

from __future__ import annotations

from itertools import count

from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import GOALS, NOTES, Author, PersonaKey
from toolcaddie.personas.names import MOST_BYTES
from toolcaddie.ports import PersonaFiles

_ATTEMPTS = 50
"""The largest number of times that a file is read again because others changed it meanwhile."""


async def archive(
    files: PersonaFiles, key: PersonaKey, goals: str, *, version: int, month: str, author: Author
) -> None:
    """Adds completed goals to the archive of a month (`2026-05`), unless they were added from this version of GOALS.md already:
    several writers may take the same goals out of it at once. Raises `RequestError`."""
    note, attempts = f"from {GOALS} version {version}", 0
    for number in count(1):
        path = f"{NOTES}goals-archive-{month}{f'-{number}' if number > 1 else ''}.md"
        while attempts < _ATTEMPTS:
            versions = await files.versions(key, path)
            if any(each.note == note and goals in each.text for each in versions):
                return
            newest = versions[-1] if versions and not versions[-1].deleted else None
            before, expected = ("", 0) if newest is None else (newest.text, newest.version)
            if before and len((before + goals).encode()) > MOST_BYTES:
                break
            if await files.write(key, path, before + goals, author=author, expected=expected, note=note):
                return
            attempts += 1
        else:
            raise RequestError(f"others change {path} all the time; try again")
