"""The files of one bot with their versions, and all that it has stored about a person, for people who look at it and change it.

The command line and the console use it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from toolcaddie.bots.people import Arranged, Arrangements
from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import Author, PersonaFile, PersonaKey
from toolcaddie.doors.channels.questions import forget_waiting
from toolcaddie.personas import StoredChats, StoredPersonas
from toolcaddie.personas.names import checked_path
from toolcaddie.personas.people import PersonData, forget, person_data
from toolcaddie.storage.database import Database
from toolcaddie.util.hunks import hunks


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The files and memories of one bot."""

    key: PersonaKey
    files: StoredPersonas
    chats: StoredChats
    database: Database

    async def versions(self, path: str) -> Sequence[PersonaFile]:
        """Returns the versions of a file, the oldest first. Raises `RequestError` if there is none."""
        versions = await self.files.versions(self.key, checked_path(path))
        if not versions:
            raise RequestError(
                f"{self.key.bot} has no file {path}; `toolcaddie persona list {self.key.bot}` lists its files",
                code="unknown_file",
            )
        return versions

    async def version(self, path: str, number: int) -> PersonaFile:
        """Returns a version of a file. Raises `RequestError` if there is none of this number."""
        return version_in(await self.versions(path), number)

    async def revert(self, path: str, number: int, author: Author) -> PersonaFile:
        """Writes the text of an earlier version as the next one. Raises `RequestError`, also if the file changed meanwhile."""
        versions = await self.versions(path)
        former, newest = version_in(versions, number), versions[-1]
        if former.deleted:
            raise RequestError(f"{path} is deleted in version {number}, so there is nothing to put back")
        if former.text == newest.text and not newest.deleted:
            raise RequestError(f"{path} is as in version {number} already")
        file = await self.files.write(
            self.key,
            former.path,
            former.text,
            author=author,
            expected=0 if newest.deleted else newest.version,
            note=f"revert to version {number}",
        )
        if file is None:
            raise RequestError(
                f"{path} was changed at this moment, so nothing was written; look at it, and try again", code="changed"
            )
        return file

    async def about(self, person: str, names: Collection[str] = ()) -> tuple[PersonData, Arranged]:
        """Returns everything that the bot has stored about a person, `tenant/id`. `names`: further names in groups."""
        data = await person_data(self.files, self.chats, self.key, person, names=names)
        return data, await self._arrangements.of(person)

    async def forget(self, person: str, names: Collection[str] = ()) -> tuple[PersonData, Arranged]:
        """Erases what `about` returns, and returns what it was."""
        await self.about(person, names)  # a person that cannot be meant is refused before anything is erased
        arranged = await self._arrangements.of(person)  # first, so that nothing of it runs and is stored meanwhile
        await forget_waiting(self.database.store, [work.id for work in arranged.waiting])
        await self._arrangements.forget(arranged)
        return await forget(self.files, self.chats, self.key, person, names=names), arranged

    @property
    def _arrangements(self) -> Arrangements:
        return Arrangements(key=self.key, rows=self.database.jobs, store=self.database.store, personas=self.files)


def version_in(versions: Sequence[PersonaFile], number: int) -> PersonaFile:
    """Returns the version of this number. Raises `RequestError` if there is none."""
    file = next((each for each in versions if each.version == number), None)
    if file is None:
        raise RequestError(
            f"{versions[0].path} has no version {number}; it has {', '.join(str(each.version) for each in versions)}",
            code="unknown_version",
        )
    return file


def difference(old: PersonaFile | None, new: PersonaFile) -> str:
    """Returns the difference between two versions of a file as a unified diff; empty: they are the same. `old`: None for
    nothing."""
    number, text = (0, "") if old is None else (old.version, old.text)
    lines = [*hunks(text.splitlines(), new.text.splitlines())]
    heads = [f"--- {new.path} version {number}", f"+++ {new.path} version {new.version}"]
    return "\n".join([*heads, *lines]) if lines else ""


def version_head(file: PersonaFile) -> dict[str, object]:
    """Returns a version without its text."""
    return {
        "path": file.path,
        "version": file.version,
        "at": file.at,
        "author": file.author,
        "note": file.note,
        "deleted": file.deleted,
    }
