"""The part of a chat that is sent to the model: the last messages, behind a summary of what came before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolcaddie.core.bots import ChatTurn
from toolcaddie.core.message import Message
from toolcaddie.guards.markers import marked_as, neutral

MOST_TURNS = 200
"""Messages of a chat above which the older half is summarised."""
READ = 2 * MOST_TURNS
"""The number of last messages of a chat that are read."""

_SUMMARY = "Summary of the earlier part of this chat:\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The messages of a chat that are still sent, the oldest first."""

    turns: tuple[ChatTurn, ...] = ()
    """If the first one is a summary, it stands for all messages before the others."""

    @property
    def window(self) -> str:
        """The name of this part of the chat, which changes with each new summary (`RunRequest.window`)."""
        first = self.turns[0] if self.turns else None
        return first.key if first is not None and first.role == "summary" else ""

    @property
    def taint(self) -> tuple[str, ...]:
        """Tools whose untrusted results the writers of these messages had read."""
        return tuple(dict.fromkeys(name for turn in self.turns for name in turn.taint))

    @property
    def bytes(self) -> int:
        return sum(len(turn.text.encode()) for turn in self.turns)

    def messages(self) -> Sequence[Message]:
        """Returns the messages for the model."""
        return [_message(turn) for turn in self.turns if turn.text]


def history_of(turns: Sequence[ChatTurn]) -> History:
    """Returns the part of a chat that is still sent, from its last messages (`READ`)."""
    at = next((at for at in range(len(turns) - 1, -1, -1) if turns[at].role == "summary"), None)
    if at is None:
        return History(turns=tuple(turns))
    before = [turn for turn in turns[:at] if turn.role != "summary"]
    return History(turns=(turns[at], *before[len(before) - turns[at].keeps :], *turns[at + 1 :]))


def _message(turn: ChatTurn) -> Message:
    if turn.role == "summary":  # what a stranger wrote gains no weight by being summarised
        text = marked_as(turn.text, turn.key) if turn.taint else neutral(turn.text)
        return Message(role="system", content=f"{_SUMMARY}{text}")
    return Message(role=turn.role, content=turn.text)
