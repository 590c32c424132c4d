"""The texts of the prompt as data: `blocks.toml` has the thirteen blocks, one for each group of tools, `frame.toml` the rest."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

from toolcaddie.core.bots import GROUPS, Mode

Language = Literal["en", "es"]


class Words(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text in each language."""

    en: str
    es: str

    def of(self, language: Language) -> str:
        return self.en if language == "en" else self.es


class Line(Words, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of a block, with the conditions under which it is shown."""

    tools: tuple[str, ...] = ()
    """One of these tools must be offered; empty: any tool of the group is enough."""
    without: tuple[str, ...] = ()
    """None of these tools may be offered."""
    modes: tuple[Mode, ...] = ("conversation", "collaboration", "autonomous")
    fetched: bool | None = None
    """Whether memories must have been fetched before the run; None: it makes no difference."""


class Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The instructions for a group of tools."""

    title: Words
    lines: tuple[Line, ...]


class Part(Words, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of a bot's persona in the prompt: its heading, and the largest number of its characters that are shown."""

    most: int


class Frame(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands around the blocks."""

    autonomy: Block
    group_chat: Block
    expansion: Block
    words: Mapping[str, Words]
    persona: Mapping[str, Part]
    """By the path of the file, in the order in which they are shown."""


@lru_cache(maxsize=1)
def blocks() -> Mapping[str, Block]:
    """Returns the thirteen blocks by group, in the order of `core.bots.GROUPS`."""
    known = msgspec.convert(_read("blocks.toml"), dict[str, Block])
    return {group: known[group] for group in GROUPS if group in known}


@lru_cache(maxsize=1)
def frame() -> Frame:
    """Returns what stands around the blocks."""
    return msgspec.convert(_read("frame.toml"), Frame)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
