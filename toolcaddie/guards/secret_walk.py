"""Which files and folders below a folder hold secrets, so that a sandbox can hide them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.guards.secret_paths import SecretPaths

MOST_ENTRIES = 200_000
_NAMED_BY_CONTENT = ".git/objects"
"""A folder whose files have digests as names. It is large, and no name in it says anything."""


class TooManyFilesError(ToolcaddieError):
    """A folder has too many entries to look for secrets among them."""


@dataclass(slots=True)
class _Walk:
    """What was seen so far."""

    left: int
    secret: list[str] = field(default_factory=list)
    inodes: dict[int, list[str]] = field(default_factory=dict)
    """The other files by inode, because one of them may be a second name of a secret one."""
    secret_inodes: set[int] = field(default_factory=set)


def secret_entries(folder: Path, secrets: SecretPaths, *, most: int = MOST_ENTRIES) -> tuple[str, ...]:
    """Returns the paths below a folder that hold secrets, relative to it and sorted. Of a secret folder only itself is returned.

    Links are not followed, because what they lead to is judged by its own path. A folder that cannot be read is among the secret
    ones. Raises `TooManyFilesError` for more than `most` entries, and `OSError` if the folder itself cannot be read.
    """
    walk = _Walk(left=most)
    folders = [""]
    while folders:
        inside = folders.pop()
        try:
            folders += _looked_at(walk, folder, inside, secrets)
        except OSError:
            if not inside:
                raise
            walk.secret.append(inside)
        if walk.left < 0:
            raise TooManyFilesError(
                f"{folder} has more than {most:,} files and folders, so that its secrets cannot be hidden; use a smaller folder"
            )
    names = (path for inode in walk.secret_inodes for path in walk.inodes.get(inode, ()))
    return tuple(sorted({*walk.secret, *names}))


def _looked_at(walk: _Walk, folder: Path, inside: str, secrets: SecretPaths) -> Iterator[str]:
    """Adds the entries of one folder to the walk, and yields the folders among them."""
    with os.scandir(folder / inside) as entries:
        for entry in entries:
            walk.left -= 1
            if walk.left < 0:
                return
            path = f"{inside}/{entry.name}" if inside else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            is_secret = secrets.reason(f"{path}/" if is_folder else path) is not None
            if is_secret:
                walk.secret.append(path)
            if is_folder and not is_secret and not path.endswith(_NAMED_BY_CONTENT):
                yield path
            elif entry.is_file(follow_symlinks=False):
                _add_inode(walk, entry, path, is_secret)


def _add_inode(walk: _Walk, entry: os.DirEntry[str], path: str, is_secret: bool) -> None:
    if not is_secret:
        walk.inodes.setdefault(entry.inode(), []).append(path)
    elif entry.stat(follow_symlinks=False).st_nlink > 1:
        walk.secret_inodes.add(entry.inode())
