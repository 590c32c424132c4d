"""Which files and folders below a folder hold secrets, so that a sandbox can hide them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.guards.secret_paths import SecretPaths

MOST_ENTRIES = 200_000

_OBJECTS = re.compile(r"(?:.*/)?\.git/objects/[0-9a-f]{2}", re.DOTALL)
_OBJECT = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
"""Git's name of a file with an object, in a folder of `_OBJECTS`. There are thousands, and such a name says nothing, so it is not
judged. Every other name there is, because a program could put any folder in the place of Git's."""
_SETTLED_NS = 1_000_000_000
"""A folder that was changed within this time may change again without a new time stamp."""


class TooManyFilesError(ToolcaddieError):
    """A folder has too many entries to look for secrets among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """What one folder has, by names."""

    identity: tuple[int, ...]
    """The folder's inode and time stamps, which change with every name in it."""
    folders: Sequence[str]
    secret_folders: Sequence[str]
    secret_files: Sequence[str]
    files: Sequence[tuple[int, str]]
    """The other files with their inodes, because one of them may be a second name of a secret one."""

    @property
    def size(self) -> int:
        return len(self.folders) + len(self.secret_folders) + len(self.secret_files) + len(self.files)


@dataclass(slots=True)
class SecretWalk:
    """Looks for secrets below a folder, again and again. Folders that have not changed meanwhile are not read again.

    Links are not followed, because what they lead to is judged by its own path. A folder that cannot be read counts as secret.
    """

    folder: Path
    secrets: SecretPaths
    most: int = field(kw_only=True, default=MOST_ENTRIES)
    """The largest number of files and folders below the folder."""
    _listings: dict[str, _Listing] = field(init=False, default_factory=dict)

    def entries(self) -> tuple[str, ...]:
        """Returns the paths that hold secrets, relative to the folder and sorted. Of a secret folder only itself is returned.

        Raises `TooManyFilesError` if there are too many files to be sure, and `OSError` if the folder itself cannot be read.
        """
        listings: dict[str, _Listing] = {}
        secret: list[str] = []
        folders, size = [""], 0
        while folders:
            inside = folders.pop()
            try:
                listing = listings[inside] = self._listing(inside)
            except OSError:
                if not inside:
                    raise
                secret.append(inside)
                continue
            size += listing.size
            if size > self.most:
                raise TooManyFilesError(
                    f"{self.folder} has more than {self.most:,} files and folders, so that its secrets cannot be hidden; "
                    "use a smaller folder"
                )
            secret += (_joined(inside, name) for name in (*listing.secret_folders, *listing.secret_files))
            folders += (_joined(inside, name) for name in listing.folders)
        self._listings = listings
        return tuple(sorted({*secret, *self._second_names(listings)}))

    def _listing(self, inside: str) -> _Listing:
        """Returns what a folder has: what was read before, if the folder has not changed since."""
        status = os.stat(self.folder / inside)
        identity = (status.st_dev, status.st_ino, status.st_ctime_ns, status.st_mtime_ns)
        known = self._listings.get(inside)
        if known is not None and known.identity == identity:
            return known
        is_settled = time.time_ns() - status.st_ctime_ns > _SETTLED_NS
        return self._read(inside, identity if is_settled else ())

    def _read(self, inside: str, identity: tuple[int, ...]) -> _Listing:
        folders: list[str] = []
        secret_folders: list[str] = []
        secret_files: list[str] = []
        files: list[tuple[int, str]] = []
        is_objects = _OBJECTS.fullmatch(inside) is not None
        with os.scandir(self.folder / inside) as entries:
            for number, entry in enumerate(entries):
                if number > self.most:
                    break
                path, is_folder = _joined(inside, entry.name), entry.is_dir(follow_symlinks=False)
                is_object = is_objects and not is_folder and _OBJECT.fullmatch(entry.name) is not None
                if not is_object and self.secrets.reason(f"{path}/" if is_folder else path) is not None:
                    (secret_folders if is_folder else secret_files).append(entry.name)
                elif not is_folder:
                    files.append((entry.inode(), entry.name))
                else:
                    folders.append(entry.name)
        return _Listing(
            identity=identity, folders=folders, secret_folders=secret_folders, secret_files=secret_files, files=files
        )

    def _second_names(self, listings: dict[str, _Listing]) -> Iterator[str]:
        """Yields the paths of files that are also secret ones (hard links)."""
        inodes: set[int] = set()
        for path in (_joined(inside, name) for inside, listing in listings.items() for name in listing.secret_files):
            with suppress(FileNotFoundError):  # it was removed at this moment
                status = os.lstat(self.folder / path)
                inodes |= {status.st_ino} if status.st_nlink > 1 else set()
        for inside, listing in listings.items() if inodes else ():
            yield from (_joined(inside, name) for inode, name in listing.files if inode in inodes)


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def secret_entries(folder: Path, secrets: SecretPaths, *, most: int = MOST_ENTRIES) -> tuple[str, ...]:
    """Returns `SecretWalk.entries` of one walk."""
    return SecretWalk(folder, secrets, most=most).entries()
