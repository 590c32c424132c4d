"""The source `memory`: a bot searches and reads its daily logs, notes and earlier conversations.

[[source]]
type = "memory"
search = true       # default; false leaves the tools out
"""

from __future__ import annotations

from toolcaddie.parts import Parts
from toolcaddie.tools.memory.library import Library
from toolcaddie.tools.memory.recall import Recall
from toolcaddie.tools.memory.source import MemorySource


def memory(*, search: bool = True, parts: Parts) -> MemorySource:
    """Returns the source. `search` False: it has no tools. Raises `ConfigError` if the host has no files or chats of bots."""
    return MemorySource(Library.of(parts) if search else None)


def recall_of(parts: Parts) -> Recall:
    """Returns the automatic recall of a host. Raises `ConfigError` if the host has no files or chats of bots."""
    return Recall(Library.of(parts))


__all__ = ["Library", "MemorySource", "Recall", "memory", "recall_of"]
