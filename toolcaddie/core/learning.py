"""The settings of a memory of past requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.numbers import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSettings:
    """The extent of a memory, and the callers that it teaches for."""

    scope: Literal["shared", "principal"] = "shared"
    """The requests that teach: those of the caller's tenant, or only the caller's own. The operator's log teaches for
    everybody."""
    most_entries: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    """Entries at most; beyond that the owner with the most loses the oldest."""
    keep_days: Seconds | None = 90.0
    """Days until an entry is forgotten; None: never."""
    name_others: bool = False
    """True: reasons quote the requests of other principals too. False: these are only counted."""

    def __post_init__(self) -> None:
        if self.most_entries < 1:
            raise ConfigError(f"most_entries is {self.most_entries}; a memory keeps at least 1")
