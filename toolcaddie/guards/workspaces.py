"""The folders of the host in which tools work: one for all, or one for each tenant, bot or person."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.util.log import Logger

log = Logger(__name__)

Per = Literal["tenant", "bot", "person"]

_MODE = 0o750
_SYSTEM = (
    "/etc",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/boot",
    "/dev",
    "/proc",
    "/sys",
)
"""Folders of the system, in which no workspace may lie."""
_SHARED = ("/", "/usr", "/usr/local", "/var", "/home", "/opt", "/run")
"""Folders that are no workspace, although folders in them may be."""
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Workspaces:
    """A folder, or folders below it by tenant, bot or person, in the given order. The folder is made if it is missing.

    Raises `ConfigError`, which names the `setting`, if it cannot be made, or belongs to the system.
    """

    def __init__(self, base: Path, *, per: Sequence[Per] = (), setting: str = "base_path") -> None:
        self._per = tuple(dict.fromkeys(per))
        refuse_system(base, setting)
        try:
            if not base.exists():
                base.mkdir(_MODE, parents=True)
                log.info("workspace_made", folder=str(base.absolute()))
            self.base = base.resolve(strict=True)
        except OSError as error:
            raise ConfigError(f"{setting} {str(base)!r} cannot be used as a folder: {error.strerror}") from error
        if not self.base.is_dir():
            raise ConfigError(f"{setting} {str(base)!r} is not a folder; name a folder, or one that does not exist yet")

    def of(self, principal: Principal) -> Path:
        """Returns the folder of a principal, and makes it if it is missing."""
        folder = self.base
        for kind in self._per:
            folder /= _folder_name(_owner(principal, kind))
            try:
                folder.mkdir(_MODE)
            except FileExistsError:
                if not os.path.isdir(folder) or os.path.islink(folder):
                    raise ConfigError(f"{folder} must be a folder, because the files of a {kind} lie in it") from None
        return folder


def refuse_system(base: Path, setting: str) -> None:
    """Raises `ConfigError` for a folder of the system. Temporary files in memory, /dev/shm, are no such folder."""
    real = base.resolve()
    system = any(real.is_relative_to(folder) for folder in _SYSTEM) and not real.is_relative_to("/dev/shm/")
    if system or str(real) in _SHARED:
        raise ConfigError(f"{setting} {str(base)!r} is a folder of the system; name a folder for this work only")


def _owner(principal: Principal, kind: Per) -> str:
    match kind:
        case "tenant":
            return principal.tenant
        case "bot":
            return principal.bot or ""
        case "person":
            return principal.id


def _folder_name(name: str) -> str:
    """Returns a name that is a safe folder and belongs to this name only."""
    return name if _PLAIN.fullmatch(name) else f"={hashlib.sha256(name.encode()).hexdigest()[:32]}"
