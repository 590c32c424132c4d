"""Files beneath a folder, by paths that a model wrote. No path, link, device or moved folder leads out of it.

Every path is opened once, by `openat2`, which the kernel keeps beneath the folder. What was opened is then looked at (is it a
regular file? has it no second name? what is its real path?) and read, and never looked up by its path again.

A file is written as a new one in the same folder, which then takes the name of the old one. So a reader finds the old content or
the new one, and a crash leaves one of them.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from toolcaddie.core.errors import ConfigError, ToolcaddieError
from toolcaddie.guards.openat2 import (
    BENEATH,
    NO_LINKS,
    NO_MAGIC_LINKS,
    NO_MOUNTS,
    open_beneath,
    problem,
    rename,
)

if sys.platform != "win32":
    import fcntl

Refuse = Callable[[str], str | None]
"""Returns why a path relative to the folder is refused, or None. It is asked about the path as it was written and about the
real one."""

_INSIDE = BENEATH | NO_MAGIC_LINKS | NO_MOUNTS
_FILE_MODE = 0o640
_FOLDER_MODE = 0o750
_MOST_FOLDERS = 32
"""The largest number of folders of a path that are made for one file."""
_LONGEST = 4_000
_LOCK_SECONDS, _LOCK_PAUSE = 2.0, 0.0005
_LOOKS = 8
"""The number of times that a path is looked up, if its file is replaced by others meanwhile."""
_NO_SUCH_RENAME = (errno.EINVAL, errno.ENOSYS)


class PathError(ToolcaddieError):
    """A path is refused, or its file cannot be read or written. The message is for the model."""


class FolderPathError(PathError):
    """A path is that of a folder, where a file is needed."""


class ChangedFileError(PathError):
    """A file was changed by somebody else between reading and writing. Nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFile:
    """A regular file beneath the folder, open for reading."""

    descriptor: int
    path: str
    """Its real path, relative to the folder."""
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A name in a folder, where a file is or will be."""

    folder: int
    name: str
    path: str
    """The real path, relative to the base."""
    old: os.stat_result | None
    """None: there is no file yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A name in a folder."""

    name: str
    is_dir: bool
    """False for a link to a folder too."""
    size: int
    """Bytes of a file."""


class Folder:
    """A folder of the host, and the files beneath it.

    Raises `ConfigError` if there is no such folder, or if this machine cannot open files safely. `refuse` says of each path
    whether it is refused.
    """

    def __init__(self, folder: Path, *, refuse: Refuse = lambda path: None) -> None:
        if reason := problem():
            raise ConfigError(f"files beneath a folder cannot be opened safely on this machine: {reason}")
        if not folder.is_dir():
            raise ConfigError(f"there is no folder {folder}; make it, or name another one")
        # Links on the way to the folder itself count now and never again: a later call that meets one is refused.
        self.folder = folder.resolve()
        self._refuse = refuse

    @contextmanager
    def opened(self, path: str) -> Iterator[OpenedFile]:
        """Opens a file for reading. Raises `PathError`."""
        with self._explained(path), self._base() as base, self._target(base, self._inner(path)) as found:
            target, real = found
            # By this name the kernel opens the very file that was looked at, whatever has its path now.
            descriptor = os.open(f"/proc/self/fd/{target}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            yield OpenedFile(descriptor=descriptor, path=real, size=os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)

    def read(self, path: str, *, most: int) -> bytes | None:
        """Returns the content of a file; None if there is none. Raises `PathError`, also for more than `most` bytes."""
        try:
            with self.opened(path) as file:
                if file.size > most:
                    raise PathError(f"{path} has {file.size:,} bytes; at most {most:,} are allowed")
                return read_up_to(file.descriptor, most)
        except MissingFileError:
            self.check(path)
            return None

    def check(self, path: str) -> str:
        """Returns the real path of a file that may be read or made. Raises `PathError` if it may not, as far as that can be known
        without an effect."""
        with self._explained(path), self._base() as base:
            inner = self._inner(path)
            try:
                with self._target(base, inner) as (_, real):
                    return real
            except FileNotFoundError:
                return self._check_new(base, inner, path)

    def write(self, path: str, data: bytes) -> str:
        """Makes a file, or replaces its whole content, and makes missing folders. Returns the real path. Raises `PathError`."""
        for _ in range(_LOOKS):
            with suppress(ChangedFileError):
                return self._written(path, data)
        return self._written(path, data)

    def replace(self, path: str, data: bytes, *, before: bytes | None) -> str:
        """Replaces the content of a file that still has the content `before`; None: makes a file that does not exist.

        Returns the real path. Raises `ChangedFileError` if the file has another content, and `PathError`.
        """
        inner = self._inner(path)
        with self._explained(path), self._base() as base, self._place(base, inner, make=before is None) as place:
            if (place.old is None) != (before is None):
                raise _changed(path)
            with _temporary(place, data) as temporary, _locked(place):
                _check_place(base, inner, place)
                if before is None:
                    _take_name(place, temporary, path)
                else:
                    _exchange_if(place, temporary, before, path)
            return place.path

    def status(self, path: str) -> os.stat_result | None:
        """Returns the status of a file; None if there is none. Raises `PathError`."""
        try:
            with self.opened(path) as file:
                return os.fstat(file.descriptor)
        except MissingFileError:
            return None

    def names(self, path: str, *, most: int) -> list[str]:
        """Returns the sorted names in a folder, `/` after those of folders, without refused ones. Raises `PathError`."""
        entries, is_whole = self.entries(path, most=most)
        names = [entry.name + "/" * entry.is_dir for entry in entries]
        return sorted(names if is_whole else [*names, "..."])

    def entries(self, path: str, *, most: int) -> tuple[list[Entry], bool]:
        """Returns the entries of a folder by name, without refused ones, and whether these are all of at most `most`. Raises
        `PathError`."""
        with self._explained(path), self._base() as base:
            target = open_beneath(base, self._inner(path), os.O_RDONLY | os.O_DIRECTORY, resolve=_INSIDE)
            try:
                real = _real(base, target)
                self._check_name(_joined(real, "-"))
                with os.scandir(target) as scanned:
                    first = list(islice(scanned, most + 1))
                    shown = sorted(self._shown(real, first[:most]), key=lambda entry: entry.name)
                return shown, len(first) <= most
            finally:
                os.close(target)

    # --- steps ---------------------------------------------------------------------------------------------------------

    def _written(self, path: str, data: bytes) -> str:
        inner = self._inner(path)
        with self._explained(path), self._base() as base, self._place(base, inner) as place:
            with _temporary(place, data) as temporary, _locked(place):
                _check_place(base, inner, place)
                os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            return place.path

    def _shown(self, folder: str, entries: Iterable[os.DirEntry[str]]) -> Iterator[Entry]:
        for entry in entries:
            is_dir = entry.is_dir(follow_symlinks=False)
            if self._refuse(_joined(folder, entry.name + "/" * is_dir)) is None:
                with suppress(FileNotFoundError):  # it was removed at this moment
                    size = entry.stat(follow_symlinks=False).st_size
                    yield Entry(name=entry.name, is_dir=is_dir, size=0 if is_dir else size)

    @contextmanager
    def _base(self) -> Iterator[int]:
        """Opens the folder itself. It is refused if a step of its path has become a link."""
        try:
            base = open_beneath(None, str(self.folder), os.O_PATH | os.O_DIRECTORY, resolve=NO_LINKS)
        except OSError as error:
            raise PathError(f"the folder of the files cannot be opened: {error.strerror}") from error
        try:
            yield base
        finally:
            os.close(base)

    def _inner(self, path: str) -> str:
        """Returns the path relative to the folder, as it was written. Raises `PathError` for one that is refused as it stands."""
        if not path.strip():
            raise PathError("the path is empty; name a file, such as notes.txt")
        if "\0" in path or (not path.isascii() and any("\ud800" <= character <= "\udfff" for character in path)):
            raise PathError("the path contains a character that no name of a file may have")
        if len(path) > _LONGEST:
            raise PathError(f"the path has more than {_LONGEST:,} characters")
        if path.startswith("/"):
            own = f"{str(self.folder).removesuffix('/')}/"
            if not path.startswith(own):
                raise PathError(f"{path} lies outside of the files' folder; write the path relative to that folder")
            path = path.removeprefix(own).lstrip("/") or "."
        self._check_name(path)
        return path

    def _check_name(self, path: str) -> None:
        reason = self._refuse(path)
        if reason is not None:
            raise PathError(f"{path} is refused: {reason}")

    @contextmanager
    def _target(self, base: int, inner: str) -> Iterator[tuple[int, str]]:
        """Opens a path so that it can be looked at but not read, and yields it with its real path. Raises `PathError` unless it
        is a regular file with one name, and not a refused one."""
        target, real, status = _looked_up(base, inner)
        try:
            if stat.S_ISDIR(status.st_mode):
                raise FolderPathError(f"{inner} is a folder")
            if not stat.S_ISREG(status.st_mode):
                raise PathError(f"{inner} is not a regular file but a device, pipe or socket")
            if status.st_nlink != 1:
                raise PathError(f"{inner} has more than one name (hard links), of which others may lie outside")
            self._check_name(real)
            yield target, real
        finally:
            os.close(target)

    def _check_new(self, base: int, inner: str, path: str) -> str:
        """Returns the real path of a file that does not exist. Raises `PathError` if it may not be made: because of its name, or
        of the folder in which it would be, as far as that folder exists."""
        *folders, name = _parts(inner)
        opened, missing = self._last_folder(base, folders)
        try:
            real = _joined(_real(base, opened), "/".join([*missing, name]))
            self._check_name(real)
            if not missing and _status(opened, name) is not None:
                raise PathError(f"{path} is a link that leads nowhere")
            return real
        finally:
            os.close(opened)

    @contextmanager
    def _place(self, base: int, inner: str, *, make: bool = True) -> Iterator[_Place]:
        """Yields the place of a file that will be written."""
        try:
            with self._target(base, inner) as (target, real):
                old = os.fstat(target)
            folder, name = os.path.split(real)
            opened = open_beneath(base, folder or ".", os.O_RDONLY | os.O_DIRECTORY, resolve=_INSIDE | NO_LINKS)
        except FileNotFoundError:
            if not make:
                raise
            opened, name = self._made(base, inner)
            real, old = _joined(_real(base, opened), name), None
        try:
            now = _status(opened, name)
            if (now and (now.st_dev, now.st_ino)) != (old and (old.st_dev, old.st_ino)):
                raise ChangedFileError(f"{inner} was moved or replaced at this moment, or is a link that leads nowhere")
            yield _Place(folder=opened, name=name, path=real, old=old)
        finally:
            os.close(opened)

    def _made(self, base: int, inner: str) -> tuple[int, str]:
        """Returns the folder of a file that does not exist, opened, and the file's name. Missing folders are made."""
        *folders, name = _parts(inner)
        folder, missing = self._last_folder(base, folders)
        try:
            self._check_name(_joined(_real(base, folder), "/".join([*missing, name])))
            for part in missing:
                # If another call made it at this moment, that is as good; a link is refused by the next line.
                with suppress(FileExistsError):
                    os.mkdir(part, _FOLDER_MODE, dir_fd=folder)
                inside = open_beneath(folder, part, os.O_PATH | os.O_DIRECTORY, resolve=_INSIDE | NO_LINKS)
                os.close(folder)
                folder = inside
            return os.open(f"/proc/self/fd/{folder}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), name
        finally:
            os.close(folder)

    def _last_folder(self, base: int, folders: list[str]) -> tuple[int, list[str]]:
        """Returns the last folder of a path that exists, opened, and the names of those that do not exist."""
        for count in range(len(folders), -1, -1):
            missing = folders[count:]
            if len(missing) > _MOST_FOLDERS:
                break
            with suppress(FileNotFoundError):
                path = "/".join(folders[:count]) or "."
                opened = open_beneath(base, path, os.O_PATH | os.O_DIRECTORY, resolve=_INSIDE)
                if ".." in missing:
                    os.close(opened)
                    raise PathError("the path goes through a folder that does not exist and back out of it by `..`")
                return opened, missing
        raise PathError(f"more than {_MOST_FOLDERS} folders of the path do not exist; make the path shorter")

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """Turns errors of the system into `PathError`s in words."""
        try:
            yield
        except FileNotFoundError as error:
            raise MissingFileError(f"there is no {path}") from error
        except (OSError, UnicodeEncodeError) as error:
            number = error.errno if isinstance(error, OSError) else None
            words = _WORDS.get(number or 0) or getattr(error, "strerror", None) or "its name cannot be written"
            raise PathError(f"{path} is refused: {words}") from error


class MissingFileError(PathError):
    """There is no file of this path."""


_WORDS = {
    errno.EXDEV: "it leads out of the files' folder",
    errno.ELOOP: "it goes through a link that leads in circles, or that may not be followed",
    errno.ENOTDIR: "a part of it is a file and not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "it is too long",
    errno.EACCES: "this process has no permission",
    errno.EPERM: "this process has no permission",
    errno.EAGAIN: "folders of it were moved at this moment; try again",
    errno.ENOSPC: "the disk is full",
    errno.EROFS: "the disk is read-only",
}


def read_up_to(descriptor: int, most: int) -> bytes:
    """Returns the next bytes of a file, at most `most`, also if it grows meanwhile."""
    pieces, left = [], most
    while left > 0 and (piece := os.read(descriptor, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _looked_up(base: int, inner: str) -> tuple[int, str, os.stat_result]:
    """Opens a path so that it can be looked at, and returns it with its real path and its status."""
    for _ in range(_LOOKS):
        target = open_beneath(base, inner, os.O_PATH, resolve=_INSIDE)
        try:
            # The status comes last: a file that has a name now was not removed before, when its path was read.
            real, status = _real(base, target), os.fstat(target)
        except BaseException:
            os.close(target)
            raise
        if status.st_nlink:
            return target, real, status
        os.close(target)
    raise ChangedFileError(f"{inner} is replaced by others all the time; try again")


def _real(base: int, target: int) -> str:
    """Returns the real path of an open file relative to the base, without links."""
    folder = os.readlink(f"/proc/self/fd/{base}").removesuffix("/")
    path = os.readlink(f"/proc/self/fd/{target}").removesuffix("/")
    if path == folder:
        return "."
    if not path.startswith(f"{folder}/"):
        raise PathError("the path, or the folder of the files, was moved at this moment")
    return path.removeprefix(f"{folder}/")


def _joined(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"


def _parts(path: str) -> list[str]:
    """Returns the names of a path whose last one can be that of a new file. Raises `PathError`."""
    if not path.isprintable():
        raise PathError("the name of a new file has characters that cannot be printed; use others")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.endswith(("/", "/.")) or not parts or parts[-1] == "..":
        raise FolderPathError(f"{path} is the path of a folder; name a file")
    return parts


def _status(folder: int, name: str) -> os.stat_result | None:
    """Returns the status of a name in a folder, of a link itself; None if there is none."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


@contextmanager
def _temporary(place: _Place, data: bytes) -> Iterator[str]:
    """Writes a new file beside a place, and yields its name, under which no file is left afterwards."""
    name = _new_file(place, data)
    try:
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=place.folder)
    os.fsync(place.folder)


def _new_file(place: _Place, data: bytes) -> str:
    """Writes a new file beside a place, with the owner and mode of the old one, and returns its name."""
    name = f".{secrets.token_hex(16)}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, _FILE_MODE if place.old is None else 0o600, dir_fd=place.folder)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if place.old is not None:
            _take_over(descriptor, place.old)
        os.fsync(descriptor)
    except BaseException:
        os.unlink(name, dir_fd=place.folder)
        raise
    finally:
        os.close(descriptor)
    return name


def _take_over(descriptor: int, old: os.stat_result) -> None:
    """Gives a new file the owner and the permissions of the old one, without set-user-id."""
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)


def _changed(path: str) -> ChangedFileError:
    return ChangedFileError(f"{path} was changed by somebody else meanwhile, and nothing was written; read it again")


@contextmanager
def _locked(place: _Place) -> Iterator[None]:
    """Keeps other calls, also those of other processes of ours, from giving names in this folder at the same time."""
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(place.folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > end:
                raise PathError(f"the folder of {place.path} is locked by another program; try again later") from None
            time.sleep(_LOCK_PAUSE)
    try:
        yield
    finally:
        fcntl.flock(place.folder, fcntl.LOCK_UN)


def _check_place(base: int, inner: str, place: _Place) -> None:
    """Raises `ChangedFileError` if the path no longer leads to this place: while another call replaces the file, the old one has
    the name of a temporary file for a moment, and what is written there is lost."""
    if place.old is None:
        return
    target, real, _ = _looked_up(base, inner)
    os.close(target)
    if real != place.path:
        raise _changed(inner)


def _take_name(place: _Place, temporary: str, path: str) -> None:
    """Gives the temporary file the place's name, if no file has it."""
    try:
        rename(place.folder, temporary, place.name, how="new")
    except FileExistsError as error:
        raise _changed(path) from error
    except OSError as error:
        if error.errno not in _NO_SUCH_RENAME:
            raise
        os.link(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder, follow_symlinks=False)


def _exchange_if(place: _Place, temporary: str, before: bytes, path: str) -> None:
    """Gives the temporary file the place's name, if the file there has the content `before`.

    The two names are exchanged, and then the old file is looked at, because nobody can replace it any more. If it is not the
    expected one, because another program replaced it, they are exchanged back.
    """
    if _content(place.folder, place.name, len(before)) != before:
        raise _changed(path)
    ours = os.stat(temporary, dir_fd=place.folder, follow_symlinks=False).st_ino
    try:
        rename(place.folder, temporary, place.name, how="exchange")
    except FileNotFoundError as error:
        raise _changed(path) from error
    except OSError as error:
        if error.errno not in _NO_SUCH_RENAME:
            raise
        # NFS and FAT: a change in the microseconds since the comparison would be overwritten.
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        return
    if _content(place.folder, temporary, len(before)) == before:
        return
    rename(place.folder, temporary, place.name, how="exchange")
    if os.stat(temporary, dir_fd=place.folder, follow_symlinks=False).st_ino != ours:
        rename(
            place.folder, temporary, place.name, how="exchange"
        )  # what somebody put there at this moment stays there
    raise _changed(path)


def _content(folder: int, name: str, size: int) -> bytes | None:
    """Returns the first `size` + 1 bytes of a regular file in a folder; None if there is none."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=folder)
    except OSError:
        return None
    try:
        return read_up_to(descriptor, size + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)
