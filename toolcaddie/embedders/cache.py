"""Files worked out once and kept in the user's cache folder, where losing one costs time and nothing else."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from toolcaddie.util.log import Logger

log = Logger(__name__)


def cache_folder() -> Path:
    """`XDG_CACHE_HOME`/toolcaddie where that is set, else where the system keeps such things."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "toolcaddie"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "toolcaddie" / "cache"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "toolcaddie"


def cached(name: str) -> bytes | None:
    """The file of that name; None: there is none that can be read."""
    try:
        return (cache_folder() / name).read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: this user has no home
        return None


def keep(name: str, content: bytes) -> None:
    """Write the file so that nobody ever reads half of it. A folder that cannot be written is said, not raised."""
    try:
        _replace(cache_folder(), name, content)
    except (OSError, RuntimeError) as error:
        log.warning("cache_not_written", file=name, error=str(error), cost="it is worked out again at the next start")


def _replace(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, unfinished = tempfile.mkstemp(prefix=f"{name}.", dir=folder)  # readable by its owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(unfinished).replace(folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(unfinished).unlink()
        raise
