"""The roots: folders of the settings, each with what may be done with its files."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from toolcaddie.core.errors import ConfigError
from toolcaddie.guards.openat2 import problem
from toolcaddie.guards.paths import Folder, OpenedFile, PathError
from toolcaddie.guards.secret_paths import SecretPaths
from toolcaddie.guards.workspaces import refuse_system
from toolcaddie.tools.host.filesystem.settings import DEFAULT_ROOTS, FilesystemSettings, Root

_NO_FILES = ("/proc", "/sys", "/dev", "/run")
"""Folders whose files are switches, devices and secrets of processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRoot:
    """A root whose folder exists."""

    root: Root
    reading: Folder
    writing: Folder | None
    """None: nothing may be written."""

    def check_public(self, file: OpenedFile) -> None:
        """Raises `PathError` for a file of which this root shows nothing because not everyone may read it."""
        if self.root.private or self.root.write:
            return
        if not os.fstat(file.descriptor).st_mode & stat.S_IROTH:
            raise PathError(
                f"{file.path} is refused: not everyone on this machine may read it; "
                f"an operator can set private for {self.root.path}"
            )


class Roots:
    """All roots. Raises `ConfigError` for one that cannot be used."""

    def __init__(self, settings: FilesystemSettings) -> None:
        named = settings.roots
        roots = [root for root in DEFAULT_ROOTS if os.path.isdir(root.path)] if named is None else list(named)
        self._roots: dict[str, OpenRoot] = {}
        self.problem = problem()
        """The reason why this machine cannot open files safely; empty: it can."""
        if self.problem:
            return
        paths = [_checked(root) for root in roots]
        for root, path in zip(roots, paths, strict=True):
            if path in self._roots:
                raise ConfigError(f"filesystem.roots: {root.path} is named twice")
            opened = _opened(root, Path(path), paths, settings.denied_patterns)
            self._roots[path] = self._roots[root.path.rstrip("/") or "/"] = opened

    def of(self, path: str) -> tuple[OpenRoot, str]:
        """Returns the root of an absolute path, as it is written, and the path from the root's real place. Raises `PathError` if
        there is none."""
        if self.problem:
            raise PathError(f"files cannot be opened safely on this machine: {self.problem}")
        if not path.startswith("/"):
            raise PathError(f"{path[:200]!r} is not absolute; write the whole path, such as /etc/hostname")
        parents = [path.rstrip("/") or "/", *(str(parent) for parent in PurePosixPath(path).parents)]
        parent = next((each for each in parents if each in self._roots), None)
        if parent is None:
            raise PathError(f"{path[:200]} lies outside of the folders that may be read: {self._names()}")
        root = self._roots[parent]
        base = str(root.reading.folder).rstrip("/")
        return root, f"{base}/{path.removeprefix(parent).lstrip('/') or '.'}"

    def writable(self, path: str) -> tuple[Folder, str]:
        """Returns the folder in which the file of a path may be written, and that path from the folder's real place. Raises
        `PathError` if there is none."""
        root, real = self.of(path)
        if root.writing is None:
            names = self._names(writable=True)
            raise PathError(f"{path[:200]} may not be written; folders that may be written: {names}")
        return root.writing, real

    def _names(self, *, writable: bool = False) -> str:
        names = {each.root.path for each in self._roots.values() if each.writing or not writable}
        return ", ".join(sorted(names)) or "none"


def _checked(root: Root) -> str:
    """Returns the real path of a root. Raises `ConfigError`."""
    where = f"filesystem.roots: {root.path!r}"
    if not os.path.isabs(root.path) or "\0" in root.path:
        raise ConfigError(f"{where} is not absolute; write the whole path")
    real = Path(root.path).resolve()
    if not real.is_dir():
        raise ConfigError(f"{where} is not a folder; make it, or name another one")
    if any(real.is_relative_to(folder) for folder in _NO_FILES) and not real.is_relative_to("/dev/shm/"):
        raise ConfigError(f"{where} holds no ordinary files; the group system reads what the kernel tells")
    if root.write:
        refuse_system(real, "filesystem.roots with write:")
    return str(real)


def _opened(root: Root, path: Path, others: Sequence[str], denied: Sequence[str]) -> OpenRoot:
    inner = tuple(other for other in others if other != str(path) and Path(other).is_relative_to(path))

    def folder(*, writing: bool) -> Folder:
        secret = SecretPaths.of(denied, base=path, writing=writing).reason
        return Folder(path, refuse=lambda name: secret(name) or _other_root(path, name, inner))

    return OpenRoot(root=root, reading=folder(writing=False), writing=folder(writing=True) if root.write else None)


def _other_root(base: Path, name: str, inner: Sequence[str]) -> str | None:
    """Returns why a path in a root is refused: it lies in a root within that one, which has its own permissions."""
    if not inner:
        return None
    path = PurePosixPath(os.path.normpath(base / name))
    other = next((each for each in inner if path.is_relative_to(each)), None)
    return other and f"it belongs to {other}; write its path from there"
