"""The markdown files of bots in the store: one document for each file, with its versions. Implements `ports.PersonaFiles`.

    files = StoredPersonas(store, folders={"coach": Path("personas/coach")})
    soul = await files.read(PersonaKey(tenant="default", bot="coach"), "SOUL.md")

Every change is a compare-and-set of a whole document, so nothing is lost whoever writes at the same time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path

from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import SOUL, Author, PersonaFile, PersonaKey
from toolcaddie.personas.folders import FolderContent, read_folder
from toolcaddie.personas.history import newest_of, of_versions, versions_of, with_version
from toolcaddie.personas.names import MOST_FILES, checked_path, checked_text, owner_prefix
from toolcaddie.personas.turns import ATTEMPTS, crowded, pause
from toolcaddie.ports import Store
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger

log = Logger(__name__)

KIND = "persona-file"
"""Kind of the documents; the key is tenant, bot and path."""
KEPT = 10
"""The number of versions of a file that are kept in addition to the newest one."""
IMPORT = "import"
"""The author of files that come from a folder."""

_SEEDS = "persona-seed"
"""Kind of the documents that say how far the first reading of a bot's folder is; the key is tenant and bot."""
_BEGUN, _DONE = b"begun", b"done"
_PAGE = 100
_READY = 10_000


class StoredPersonas:
    """The files of all bots in `store`.

    `folders`: for a bot, the folder from which its files are read when it has none yet. `clock`: seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        folders: Mapping[str, Path] | None = None,
        kept: int = KEPT,
    ) -> None:
        self._store = store
        self._clock = clock
        self._folders = folders or {}
        self._kept = kept
        self._ready: Bounded[PersonaKey, bool] = Bounded(_READY)
        """Bots whose folder need not be looked at any more."""

    async def read(self, key: PersonaKey, path: str) -> PersonaFile | None:
        return (await self.read_many(key, [path])).get(checked_path(path))

    async def read_many(self, key: PersonaKey, paths: Iterable[str]) -> Mapping[str, PersonaFile]:
        await self._seed(key)
        owner = owner_prefix(key.tenant, key.bot)
        names = [f"{owner}{checked_path(path)}" for path in paths]
        documents = await self._store.get_many(KIND, names)
        files = [newest_of(documents[name]) for name in dict.fromkeys(names) if name in documents]
        return {file.path: file for file in files if not file.deleted}

    async def paths(self, key: PersonaKey, prefix: str = "") -> Sequence[PersonaFile]:
        await self._seed(key)
        files = [newest_of(document) async for document in self._documents(key, prefix)]
        return [file for file in files if not file.deleted]

    async def page(
        self, key: PersonaKey, prefix: str = "", *, cursor: str | None = None, limit: int
    ) -> tuple[Sequence[PersonaFile], str | None]:
        """Returns at most `limit` of the files whose paths begin with `prefix`, in the order of their paths, and the cursor of
        the next page; None: there is none."""
        await self._seed(key)
        beginning = owner_prefix(key.tenant, key.bot) + prefix
        page = await self._store.scan(KIND, prefix=beginning, cursor=cursor, limit=limit)
        files = [newest_of(document.value) for document in page.documents]
        return [file for file in files if not file.deleted], page.cursor

    async def versions(self, key: PersonaKey, path: str) -> Sequence[PersonaFile]:
        await self._seed(key)
        document = await self._store.get(KIND, _name(key, checked_path(path)))
        return [] if document is None else versions_of(document)

    async def write(
        self, key: PersonaKey, path: str, text: str, *, author: Author, expected: int | None, note: str = ""
    ) -> PersonaFile | None:
        path = checked_path(path)
        checked_text(path, text)
        await self._seed(key)
        return await self._write(key, path, text, author=author, expected=expected, note=note)

    async def delete(self, key: PersonaKey, path: str, *, author: Author, forget: bool = False) -> bool:
        path = checked_path(path)
        if forget:
            return await self._store.delete(KIND, _name(key, path))
        for number in ATTEMPTS:
            file = await self.read(key, path)
            if file is None:
                return False
            if await self._write(key, path, "", author=author, expected=file.version, note="deleted", deleted=True):
                return True
            await pause(number)
        raise crowded(path)

    async def seed(self, key: PersonaKey, texts: Mapping[str, str]) -> None:
        """Writes the files of a new bot. Files that it has by now stay as they are."""
        if len(texts) > MOST_FILES:
            raise _too_many()
        for path, text in texts.items():
            checked_text(checked_path(path), text)
        for path, text in texts.items():
            await self._write(key, path, text, author=Author(who=IMPORT), expected=0, counted=True)

    async def all_versions(self, key: PersonaKey) -> AsyncIterator[Sequence[PersonaFile]]:
        """Yields the versions of each file, those of deleted files included."""
        async for document in self._documents(key):
            yield versions_of(document)

    async def rewrite(self, key: PersonaKey, path: str, change: Callable[[PersonaFile], PersonaFile]) -> None:
        """Changes versions where they are. The newest one becomes the next version, so that nobody who has read it writes it
        back."""
        name = _name(key, path)
        for number in ATTEMPTS:
            document = await self._store.get(KIND, name)
            before = [] if document is None else versions_of(document)
            after = [change(version) for version in before]
            if after == before:
                return
            *earlier, newest = after
            following = _next(newest, newest.text, author=newest.author, note=newest.note, at=newest.at)
            value = of_versions([*earlier, following])
            if await self._store.compare_and_set(KIND, name, value, expected=document):
                return
            await pause(number)
        raise crowded(path)

    # --- steps ---------------------------------------------------------------------------------------------------------

    async def _write(
        self,
        key: PersonaKey,
        path: str,
        text: str,
        *,
        author: Author,
        expected: int | None,
        note: str = "",
        deleted: bool = False,
        counted: bool = False,
    ) -> PersonaFile | None:
        """Writes the next version. `counted`: the caller has made sure that the bot has not too many files."""
        name = _name(key, path)
        for number in ATTEMPTS:
            document = await self._store.get(KIND, name)
            last = None if document is None else newest_of(document)
            if expected is not None and expected != (0 if last is None or last.deleted else last.version):
                return None
            if last is None and not counted:
                await self._check_number(key)
            start = last or PersonaFile(path=path, text="", version=0, at=0.0, author=author)
            file = _next(start, text, author=author, note=note, at=self._clock(), deleted=deleted)
            value = with_version(document, file, keep=self._kept)
            if await self._store.compare_and_set(KIND, name, value, expected=document):
                return file
            await pause(number)
        raise crowded(path)

    async def _seed(self, key: PersonaKey) -> None:
        """Reads the folder of a bot that has no files yet, once."""
        folder = self._folders.get(key.bot)
        if folder is None or key in self._ready:
            return
        owner = owner_prefix(key.tenant, key.bot)
        state = await self._store.get(_SEEDS, owner)
        if state is None and not (await self._store.scan(KIND, prefix=owner, limit=1)).documents:
            await self._store.compare_and_set(_SEEDS, owner, _BEGUN, expected=None)
            state = _BEGUN
        if state == _BEGUN:  # by this process, or by one that may have died over it
            content = await asyncio.to_thread(_content, key.bot, folder)
            await self.seed(key, content.texts)
            await self._store.put(_SEEDS, owner, _DONE)
            log.info("persona_read", bot=key.bot, folder=str(folder), files=len(content.texts), skipped=content.skipped)
        self._ready.put(key, True)

    async def _check_number(self, key: PersonaKey) -> None:
        """Raises `RequestError` if a bot has as many files as it may have."""
        number = 0
        async for _ in self._documents(key):
            number += 1
        if number >= MOST_FILES:
            raise _too_many()

    async def _documents(self, key: PersonaKey, prefix: str = "") -> AsyncIterator[bytes]:
        cursor: str | None = None
        while True:
            beginning = owner_prefix(key.tenant, key.bot) + prefix
            page = await self._store.scan(KIND, prefix=beginning, cursor=cursor, limit=_PAGE)
            for document in page.documents:
                yield document.value
            cursor = page.cursor
            if cursor is None:
                return


def _content(bot: str, folder: Path) -> FolderContent:
    if not folder.is_dir():
        raise RequestError(
            f"the bot {bot!r} has no files yet, and there is no folder {str(folder)!r} from which to read them; make it, with "
            f"{SOUL} in it, or remove bots.{bot}.persona from the settings",
            param="folder",
        )
    return read_folder(folder)


def _next(
    last: PersonaFile, text: str, *, author: Author, note: str, at: float, deleted: bool | None = None
) -> PersonaFile:
    return PersonaFile(
        path=last.path,
        text=text,
        version=last.version + 1,
        at=at,
        author=author,
        note=note,
        deleted=last.deleted if deleted is None else deleted,
    )


def _name(key: PersonaKey, path: str) -> str:
    return f"{owner_prefix(key.tenant, key.bot)}{path}"


def _too_many() -> RequestError:
    return RequestError(f"a bot has at most {MOST_FILES:,} files; delete old notes first", param="path")
