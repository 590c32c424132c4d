"""Persona files as a folder of markdown that people edit: read, written, and compared with what a bot has by now.

An export leaves the file `.persona.json` in the folder, with the version of each file. So an import knows what the bot has
written since, and a further export what people have; neither replaces it without being told to.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import Author, PersonaFile, PersonaKey
from toolcaddie.personas.names import MOST_BYTES, MOST_FILES, is_path
from toolcaddie.ports import PersonaFiles

VERSIONS = ".persona.json"
"""The name of the file with the exported versions."""
_MOST_ENTRIES = 20_000
_DEEPEST = 16


class ExportedVersion(Struct, frozen=True, kw_only=True):
    """A file as it was exported."""

    version: int
    sha256: str


class FolderContent(Struct, frozen=True, kw_only=True):
    """What was read from a folder."""

    texts: Mapping[str, str]
    """The texts of persona files by path."""
    skipped: tuple[str, ...] = ()
    """Files that are none, by their path in the folder."""
    exported: Mapping[str, ExportedVersion] = {}
    """The files that were exported to this folder."""


class Imported(Struct, frozen=True, kw_only=True):
    """The outcome of an import."""

    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    skipped: tuple[str, ...]
    changed: tuple[str, ...] = ()
    """Files that the bot has changed since the export. They were not written."""


class Exported(Struct, frozen=True, kw_only=True):
    """The outcome of an export."""

    written: tuple[str, ...]
    unchanged: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Files of the folder with another content. They were not written."""


def read_folder(folder: Path) -> FolderContent:
    """Returns the persona files of a folder. Raises `RequestError` for a folder that is none, that is too large, or that has a
    link which leaves it."""
    if not folder.is_dir():
        raise RequestError(f"there is no folder {str(folder)!r} with persona files", param="folder")
    root = folder.resolve()
    texts: dict[str, str] = {}
    skipped: list[str] = []
    for path in _walked(root):
        name = path.relative_to(root).as_posix()
        if is_path(name):
            texts[name] = _text(path, name)
        elif name != VERSIONS:
            skipped.append(name)
    if len(texts) > MOST_FILES:
        raise RequestError(f"{str(folder)!r} has {len(texts):,} persona files; at most {MOST_FILES:,} are allowed")
    return FolderContent(
        texts=dict(sorted(texts.items())), skipped=tuple(sorted(skipped)), exported=_exported(root / VERSIONS)
    )


async def import_content(
    files: PersonaFiles, key: PersonaKey, content: FolderContent, *, author: Author, overwrite: bool = False
) -> Imported:
    """Writes the files of a folder as new versions. A file that the bot has changed since the export, or that was never
    exported, is only written with `overwrite`. Files that the folder lacks stay as they are."""
    present = await files.read_many(key, content.texts)
    written: list[str] = []
    unchanged: list[str] = []
    changed: list[str] = []
    for path, text in content.texts.items():
        old = present.get(path)
        version = 0 if old is None else old.version
        if old is not None and old.text == text:
            unchanged.append(path)
            continue
        may = overwrite or version == _version(content.exported.get(path))
        file = await files.write(key, path, text, author=author, expected=version, note="imported") if may else None
        (changed if file is None else written).append(path)
    return Imported(written=tuple(written), unchanged=tuple(unchanged), changed=tuple(changed), skipped=content.skipped)


def write_folder(folder: Path, files: Sequence[PersonaFile], *, overwrite: bool = False) -> Exported:
    """Writes files as markdown into a folder, which is made if it is missing. Files of another content are only replaced with
    `overwrite`, or if they are as an earlier export left them. Raises `RequestError`, also for links in the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        root = folder.resolve(strict=True)
        written: list[str] = []
        unchanged: list[str] = []
        changed: list[str] = []
        exported = dict(_exported(root / VERSIONS))
        for file in files:
            path, data = _checked_target(root, file.path), file.text.encode()
            old, before = _digest_of(path), exported.get(file.path)
            if old is not None and old != _digest(data) and not overwrite and (before is None or before.sha256 != old):
                changed.append(file.path)
                continue
            exported[file.path] = ExportedVersion(version=file.version, sha256=_digest(data))
            if old == _digest(data):
                unchanged.append(file.path)
            else:
                _write(path, data)
                written.append(file.path)
        _write(root / VERSIONS, msgspec.json.format(msgspec.json.encode(exported)) + b"\n")
    except OSError as error:
        raise RequestError(f"{str(folder)!r} cannot be written: {error.strerror}", param="folder") from error
    return Exported(written=tuple(written), unchanged=tuple(unchanged), changed=tuple(changed))


def _walked(root: Path) -> Iterator[Path]:
    """Yields the files below a folder. Raises `RequestError` for links to folders, for links that leave it, and for too many
    entries. Names that begin with a dot are left out."""
    left, waiting = _MOST_ENTRIES, [root]
    while waiting:
        folder = waiting.pop()
        for entry in os.scandir(folder):
            left -= 1
            path = Path(entry.path)
            name = path.relative_to(root).as_posix()
            if left < 0 or name.count("/") > _DEEPEST:
                raise RequestError(f"{str(root)!r} has more than {_MOST_ENTRIES:,} entries or very deep folders")
            if entry.is_symlink():
                _check_link(path, name, root)
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                waiting.append(path)
            elif entry.is_file():
                yield path


def _check_link(path: Path, name: str, root: Path) -> None:
    target = path.resolve()
    if not target.is_relative_to(root) or not target.is_file():
        raise RequestError(
            f"{name!r} is a link that leads to a folder, out of the persona's folder, or nowhere; remove it"
        )


def _text(path: Path, name: str) -> str:
    try:
        # A link was resolved before, so the file itself is opened, and never another one that has taken its place.
        descriptor = os.open(path.resolve(), os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise RequestError(f"{name!r} is not a file")
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise RequestError(f"{name!r} cannot be read: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise RequestError(f"{name!r} has more than {MOST_BYTES:,} bytes, the most that a persona file may have")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"{name!r} is not text in UTF-8: byte {error.start}") from error


def _exported(path: Path) -> Mapping[str, ExportedVersion]:
    """Returns the files of an earlier export; none if there was none. Raises `RequestError` if its list cannot be read."""
    if not path.is_file():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, ExportedVersion])
    except (OSError, msgspec.MsgspecError) as error:
        raise RequestError(f"{VERSIONS}, the list of exported versions, cannot be read: {error}; delete it") from error


def _version(exported: ExportedVersion | None) -> int:
    return 0 if exported is None else exported.version


def _digest_of(path: Path) -> str | None:
    """Returns the digest of a file; None: there is none."""
    return _digest(path.read_bytes()) if path.is_file() else None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _checked_target(root: Path, name: str) -> Path:
    """Returns the place of a file in the folder, whose folders are made. Raises `RequestError` for a link on the way."""
    path = root / name
    for part in (path, *path.parents[: name.count("/")]):
        if part.is_symlink():
            raise RequestError(f"{str(part)!r} is a link; nothing is written through it")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write(path: Path, data: bytes) -> None:
    """Writes a file that has its old content or the new one at each moment."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    with open(descriptor, "wb") as file:
        file.write(data)
    os.replace(temporary, path)
