"""Settings of the group `filesystem`: the table `filesystem` of the source `host`."""

from __future__ import annotations

from msgspec import Struct

from toolcaddie.core.numbers import Positive


class Root(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folder whose files the tools reach."""

    path: str
    """Absolute. A file system that is mounted below it needs a root of its own."""
    write: bool = False
    """True: files may be written."""
    private: bool = False
    """True: also files that not everyone on this machine may read, such as most logs. Where files may be written, they may be
    read too."""


DEFAULT_ROOTS = (
    Root(path="/etc"),
    Root(path="/opt"),
    Root(path="/srv"),
    Root(path="/usr"),
    Root(path="/var/log", private=True),
)


class FilesystemSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which files the tools reach, and how."""

    roots: tuple[Root, ...] | None = None
    """None: `DEFAULT_ROOTS`, as far as this machine has them. Nothing can be written then."""
    max_file_size_bytes: Positive = 1_048_576
    denied_patterns: tuple[str, ...] = ()
    """Files that are refused in addition to those with secrets, in the form of `guards/refused_paths.toml`."""


DEFAULT_FILESYSTEM = FilesystemSettings()
