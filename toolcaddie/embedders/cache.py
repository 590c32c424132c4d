"""Computed files in the user's cache folder, such as the int8 graph of the embedder `minilm`. A lost file is computed again."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from toolcaddie.util.log import Logger

log = Logger(__name__)


def cache_folder() -> Path:
    """Returns `XDG_CACHE_HOME`/toolcaddie if that is set, else the cache folder of the system."""
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder) / "toolcaddie"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "toolcaddie" / "cache"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "toolcaddie"


def cached(name: str) -> bytes | None:
    """Returns the content of the file of that name, or None if it cannot be read."""
    try:
        return (cache_folder() / name).read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: this user has no home folder
        return None


def keep(name: str, content: bytes) -> None:
    """Writes the file in one step, so that no reader sees half of it. If the folder cannot be written, a warning is logged."""
    try:
        _replace(cache_folder(), name, content)
    except (OSError, RuntimeError) as error:
        log.warning("cache_not_written", file=name, error=str(error), cost="it is computed again at the next start")


def _replace(folder: Path, name: str, content: bytes) -> None:
    """Writes a file beside the old one and then renames it. Raises `OSError`."""
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
