"""A settings file: TOML, and the line of every key in it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from toolcaddie.core.errors import ConfigError

DEFAULT_FILE = "toolcaddie.toml"


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A parsed TOML file. `name` is None if there is no file."""

    name: str | None
    text: str
    data: dict[str, Any]

    def place(self, path: Sequence[str]) -> str:
        """Returns the file and line of a key (`toolcaddie.toml:12`), or of the nearest table around it."""
        line = _line_of(self.text, tuple(path))
        return f"{self.name}:{line}" if line else str(self.name)


def read_file(path: Path | None) -> SettingsFile:
    """Returns the file at `path`. Without a path it is `toolcaddie.toml` of the current folder; if that does not exist, the
    result is empty.

    Raises `ConfigError`.
    """
    if path is None:
        path = Path(DEFAULT_FILE)
        if not path.exists():
            return SettingsFile(None, "", {})
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; `toolcaddie init` writes a new one") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    try:
        return SettingsFile(str(path), text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def starter_toml() -> str:
    """Returns the file that `toolcaddie init` writes: valid, with everything that would change a default
    commented out."""
    return files(__package__).joinpath("starter.toml").read_text("utf-8")


_HEADER = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")


def _line_of(text: str, path: tuple[str, ...]) -> int | None:
    """Returns the line of a key, or of the nearest table around it. None: the text has neither."""
    best, line = 0, None
    table: tuple[str, ...] = ()
    last_items: dict[tuple[str, ...], int] = {}
    for number, content in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(content):
            header_path = _parts(header[2])
            if header[1] == "[[":
                last_items[header_path] = last_items.get(header_path, -1) + 1
            here = table = _numbered(header_path, last_items)
        elif key := _KEY.match(content):
            here = (*table, *_parts(key[1]))
        else:
            continue
        if len(here) > best and path[: len(here)] == here:
            best, line = len(here), number
        elif line is None and here[: len(path)] == path:  # the first item of a list that should be a table
            line = number
    return line


def _numbered(names: Sequence[str], last_items: Mapping[tuple[str, ...], int]) -> tuple[str, ...]:
    """Returns a table's path with an index after the name of each list: in TOML such a name stands for the last item so far."""
    path: list[str] = []
    for length, name in enumerate(names, start=1):
        path.append(name)
        if (index := last_items.get(tuple(names[:length]))) is not None:
            path.append(str(index))
    return tuple(path)


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip(" \"'") for part in dotted.split("."))
