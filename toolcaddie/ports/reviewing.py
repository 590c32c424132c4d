"""Interfaces (sockets, which plugins fill) for reviewing the files of a bot's persona."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from toolcaddie.core.bots import NOTHING_INHERITED, Inherited
from toolcaddie.core.control import Principal
from toolcaddie.core.tool import Spent

Focus = Literal["memory", "soul", "motivations", "identity", "all"]
"""The part of a persona that is reviewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What a reviewer is asked for."""

    folder: Path
    """A copy of the persona's files. The reviewer edits them there; nothing else of the host is its business."""
    instructions: str
    """What to look at and to change, in words for a model."""
    focus: Focus
    principal: Principal
    """The bot, and the person for whom it works."""
    seconds: float
    """The time that the review may take."""
    inherited: Inherited = NOTHING_INHERITED
    """The rest of the budget of the run that asked for the review."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """The end of a review. What was changed is in the folder."""

    summary: str
    """What was changed and why, in the reviewer's words; they are treated as text of strangers."""
    spent: Spent = Spent()
    """What the models of a review inside this host have used."""


class Reviewer(Protocol):
    """Edits a copy of a bot's files."""

    @property
    def name(self) -> str: ...

    @property
    def contained(self) -> bool:
        """True if it can reach nothing of the host but the folder of a review. False: a person is asked before each review."""
        ...

    async def review(self, review: Review) -> Reviewed:
        """Edits the files in the folder, and returns a summary. Raises an error of `core.errors` if it fails, and `RunError`
        after `review.seconds`."""
        ...
