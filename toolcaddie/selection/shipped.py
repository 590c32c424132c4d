"""Reads the data files that are part of this package."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolcaddie.core.errors import ConfigError


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Raises `ConfigError` with the name of the file if it is missing or damaged, in place of what numpy raises in the block."""
    try:
        yield
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ConfigError(
            f"{file} cannot be read ({error}); it is part of toolcaddie: install toolcaddie again"
        ) from error
