"""The settings of learning: a memory of past requests and the tools they used, which helps to select tools for similar
requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.numbers import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSettings:
    """Settings of the memory: its size, its age limit, and the callers that share it."""

    scope: Literal["shared", "principal"] = "shared"
    """The requests that a caller's selection learns from: those of the same tenant (`shared`), or only the caller's own
    (`principal`). Everybody learns from the log that the operator supplies."""
    most_entries: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    """The largest number of entries. Above it, the oldest entry of the owner with the most entries is deleted."""
    keep_days: Seconds | None = 90.0
    """Days until an entry is forgotten; None: never."""
    name_others: bool = False
    """True: the reasons for a selection quote the requests of other principals too. False: such requests are only counted."""

    def __post_init__(self) -> None:
        if self.most_entries < 1:
            raise ConfigError(f"most_entries is {self.most_entries}; a memory keeps at least 1")
