"""Proposals: changes of a persona that wait for a person."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from toolcaddie.core.personas import Author
from toolcaddie.tools.files.diffs import unified

ProposalStatus = Literal["open", "applied", "rejected"]


class Change(Struct, frozen=True, kw_only=True):
    """The change of one file."""

    path: str
    before: str
    after: str
    version: int
    """The version that the reviewer read; 0: there was no file."""
    whole: str = ""
    """The new text of the whole file, if the reviewer was given only a part of it; empty: `after` is the whole."""

    @property
    def text(self) -> str:
        """The new text of the file."""
        return self.whole or self.after

    @property
    def diff(self) -> str:
        return unified(self.path, self.before.encode() if self.version else None, self.after.encode())


class Proposal(Struct, frozen=True, kw_only=True):
    """What a review proposes."""

    id: str
    tenant: str
    bot: str
    focus: str
    made: float
    """Seconds since the epoch."""
    author: Author
    """The person for whom the bot asked, and the run in which it did."""
    reviewer: str
    summary: str
    """The reviewer's words, which are text of strangers."""
    changes: tuple[Change, ...]
    status: ProposalStatus = "open"
    decided: float | None = None
    decided_by: str = ""
    note: str = ""

    @property
    def sheet(self) -> str:
        """What a person is shown who decides: where the proposal comes from, and the difference."""
        after = f", after untrusted results of {', '.join(self.author.taint)}" if self.author.taint else ""
        return f"{self.focus} of {self.bot}, by {self.reviewer} for {self.author.who}{after}\n{self.diff}"

    @property
    def diff(self) -> str:
        """The difference of all files."""
        return "\n".join(change.diff for change in self.changes)
