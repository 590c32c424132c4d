"""The folder of tools on disk: a folder for each tool, with its two files, its seal and its approved versions.

    <id>/meta.json  <id>/tool.py           the tool as it is now
    <id>/state.json                        the last decision, sealed
    <id>/versions/<number>/meta.json ...   approved states
    changed                                replaced after every change

Names of folders are ids of this program; anything else is reported and never opened. Links are not followed. A file is
written beside its place, synced and renamed, so that a reader finds the old one or the new one.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolcaddie.core.errors import RequestError, StorageError
from toolcaddie.tools.authored.files import META, SOURCES, Files, meta_of

CHANGED = "changed"
STATE = "state.json"
_VERSIONS = "versions"
_ID = re.compile(r"tool_[0-9a-f]{32}")
_LONGEST_FILE = 4_000_000
_TEMPORARY = ".new-"

Signature = tuple[tuple[int, int, int], ...]
"""Inode, size and time of change of each file of a tool; another one if anything was written."""


def new_id(now: float) -> str:
    """Returns an id for a tool that is written now. Ids have the order of time, so that tools keep their places."""
    return f"tool_{int(now * 1_000_000) & 0xFFFFFFFFFFFFFF:014x}{secrets.token_hex(9)}"


class ToolFolder:
    """Reads and writes the folder. Its methods block; they read and write a few small files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def ids(self) -> Sequence[str]:
        """Returns the ids of all tools that have a folder."""
        return [name for name in self._names() if _ID.fullmatch(name)]

    def strangers(self) -> Sequence[str]:
        """Returns the names of everything else in the folder."""
        return [
            name
            for name in self._names()
            if not _ID.fullmatch(name) and name != CHANGED and not name.startswith(_TEMPORARY)
        ]

    def read(self, tool_id: str) -> Files:
        """Returns the files of a tool. Raises `RequestError` (code `broken`) if they are not there or are no plain files."""
        return self._read(self.path / _checked(tool_id))

    def read_version(self, tool_id: str, number: int) -> Files:
        """Returns an approved state. Raises `RequestError` as `read` does."""
        return self._read(self.path / _checked(tool_id) / _VERSIONS / str(int(number)))

    def read_state(self, tool_id: str) -> bytes:
        """Returns the sealed state, or nothing if there is none."""
        try:
            return _content(self.path / _checked(tool_id), STATE)
        except RequestError:
            return b""

    def add(self, tool_id: str, files: Files) -> None:
        """Makes the folder of a new tool, whole or not at all."""
        with _storing(self.path):
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            made = self.path / f"{_TEMPORARY}{secrets.token_hex(8)}"
            made.mkdir(mode=0o700)
            self._write(made, files)
            made.rename(self.path / _checked(tool_id))
            _sync(self.path)

    def replace(self, tool_id: str, files: Files) -> None:
        """Replaces the files of a tool. Between the two files its digest is neither the old nor the new one."""
        with _storing(self.path):
            self._write(self.path / _checked(tool_id), files)

    def add_version(self, tool_id: str, number: int, files: Files) -> None:
        """Keeps an approved state."""
        folder = self.path / _checked(tool_id) / _VERSIONS / str(int(number))
        with _storing(self.path):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._write(folder, files)

    def drop_version(self, tool_id: str, number: int) -> None:
        """Removes an approved state."""
        shutil.rmtree(self.path / _checked(tool_id) / _VERSIONS / str(int(number)), ignore_errors=True)

    def write_state(self, tool_id: str, data: bytes) -> None:
        """Writes the sealed state; does nothing if the tool has no folder."""
        with _storing(self.path):
            folder = self.path / _checked(tool_id)
            if folder.is_dir() and not folder.is_symlink():
                _write_file(folder, STATE, data)

    def delete(self, tool_id: str) -> None:
        """Removes a tool with its versions."""
        with _storing(self.path), contextlib.suppress(FileNotFoundError):
            gone = self.path / f"{_TEMPORARY}{secrets.token_hex(8)}"
            (self.path / _checked(tool_id)).rename(gone)  # at once out of sight, then piece by piece
            if gone.is_symlink():
                gone.unlink()
            else:
                shutil.rmtree(gone)

    def note_change(self) -> None:
        """Lets all processes that use the folder know that something changed."""
        with _storing(self.path):
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write_file(self.path, CHANGED, secrets.token_hex(16).encode())

    def change(self) -> Signature:
        """Returns another value after every `note_change`. Takes microseconds."""
        return _signature([self.path / CHANGED])

    def signature(self, tool_id: str) -> Signature:
        """Returns another value after a file of the tool was written, by whomever."""
        folder = self.path / tool_id
        return _signature([folder / META, folder / STATE, *(folder / name for name in SOURCES.values())])

    def _names(self) -> Sequence[str]:
        try:
            return sorted(os.listdir(self.path))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(f"the folder of tools {self.path} cannot be read: {error}") from error

    def _read(self, folder: Path) -> Files:
        meta = _content(folder, META)
        return Files(meta=meta, source=_content(folder, SOURCES[meta_of(meta).type]))

    def _write(self, folder: Path, files: Files) -> None:
        name = SOURCES[meta_of(files.meta).type]
        _write_file(folder, name, files.source)
        _write_file(folder, META, files.meta)


def _checked(tool_id: str) -> str:
    if not _ID.fullmatch(tool_id):
        raise RequestError(f"{tool_id[:80]!r} is no id of a tool", code="unknown_tool")
    return tool_id


def _content(folder: Path, name: str) -> bytes:
    """Returns a plain file of a folder, without following links. Raises `RequestError`."""
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # A pipe without a writer would block the open without O_NONBLOCK.
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
        finally:
            os.close(place)
        with open(file, "rb") as opened:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise RequestError(f"{name} is no plain file", code="broken")
            content = opened.read(_LONGEST_FILE + 1)
    except OSError as error:
        raise RequestError(f"{name} cannot be read: {error.strerror}", code="broken") from error
    if len(content) > _LONGEST_FILE:
        raise RequestError(f"{name} is larger than {_LONGEST_FILE:,} bytes", code="broken")
    return content


def _write_file(folder: Path, name: str, data: bytes) -> None:
    made = folder / f"{_TEMPORARY}{secrets.token_hex(8)}"
    file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(file, "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(file)
    made.rename(folder / name)
    _sync(folder)


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _signature(paths: Sequence[Path]) -> Signature:
    signature = []
    for path in paths:
        try:
            status = os.lstat(path)
        except OSError:
            continue
        signature.append((status.st_ino, status.st_size, status.st_mtime_ns ^ status.st_ctime_ns))
    return tuple(signature)


@contextlib.contextmanager
def _storing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"the folder of tools {path} cannot be written: {error}") from error
