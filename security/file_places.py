"""A folder of files deep below folders that no path may lead to, with canaries in all of them."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TARGETS = (
    "etc/passwd", "etc/shadow", "etc/hosts", "etc/issue", "proc/self/environ", "boot.ini", "windows/win.ini", "winnt/win.ini",
    "windows/system32/drivers/etc/hosts", "var/log/syslog", "root/.ssh/id_rsa", "secret", "secret.txt", "passwd", "file.txt",
)  # fmt: skip
"""What paths of attackers lead to. Each folder above the base has them, so that every `../..` meets a canary."""
_DEPTH = 24
"""The number of folders above the base: more than most attackers go up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A base for the files of a tool, and everything around it."""

    root: Path
    base: Path
    outside: Path
    """A folder beside the base."""
    canary: str
    """A text in every file outside of the base."""

    def outside_state(self) -> Mapping[str, str]:
        """Returns a digest of each file outside of the base, by its path."""
        return {str(path): _digest(path) for path in _walked(self.root, self.base)}


@contextmanager
def place(*, memory: bool = False, depth: int = _DEPTH) -> Iterator[Place]:
    """Makes a place, and removes it. `memory`: on a file system in memory if there is one, where many writes take no time."""
    where = "/dev/shm" if memory and os.access("/dev/shm", os.W_OK) else None
    root = Path(tempfile.mkdtemp(prefix="security-", dir=where))
    try:
        yield _made(root, depth)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _made(root: Path, depth: int) -> Place:
    canary = secrets.token_hex(16)
    above = root
    for level in range(depth):
        for target in _TARGETS:
            file = above / target
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{canary} outside\n")
        above = above / f"level{level}"
        above.mkdir()
    base, outside = above / "base", above / "outside"
    base.mkdir()
    for folder in (outside, above / "base-evil"):
        folder.mkdir()
        (folder / "secret").write_text(f"{canary} outside\n")
    return Place(root=root, base=base, outside=outside, canary=canary)


def _walked(folder: Path, without: Path) -> Iterator[Path]:
    for entry in os.scandir(folder):
        path = Path(entry.path)
        if path == without:
            continue
        yield path
        if entry.is_dir(follow_symlinks=False):
            yield from _walked(path, without)


def _digest(path: Path) -> str:
    status = path.lstat()
    if stat.S_ISREG(status.st_mode):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return os.readlink(path) if stat.S_ISLNK(status.st_mode) else f"{status.st_mode:o}"


def host_state(paths: Sequence[str] = ("/etc/passwd", "/etc/shadow", "/etc/hosts", "/etc/group")) -> Mapping[str, str]:
    """Returns a digest of files of this machine that attackers ask for."""
    return {path: _digest(Path(path)) for path in paths if os.access(path, os.R_OK)}
