"""What a bot remembers that fits a message, without being asked: for the prompt, near the end of the messages."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from toolcaddie.core.control import Principal
from toolcaddie.core.personas import PersonaKey
from toolcaddie.tools.memory.memory import Memory
from toolcaddie.tools.memory.values import Match
from toolcaddie.tools.memory.visibility import Reader

MOST_CHARACTERS = 2_000
_HITS = 3
_LEAST = 0.25
_LOOKED_AT = 12
"""Chunks among which clean ones are looked for."""


class Recalled(Struct, frozen=True, kw_only=True):
    """What fits a message."""

    text: str = ""
    """Not marked yet; empty: nothing fits."""
    matches: tuple[Match, ...] = ()


@dataclass(frozen=True, slots=True)
class Recall:
    """Looks up memory. It shows only words that the person trusts anyway, so it never taints a run."""

    memory: Memory

    async def context_for(self, key: PersonaKey, person: Principal, chat: str, message: str) -> Recalled:
        """Returns at most three chunks with a score of at least 0.25, in at most 2,000 characters."""
        reader = Reader.of(person, chat)
        answer = await self.memory.search(key, reader, message, most=_LOOKED_AT, least=_LEAST)
        matches = tuple(match for match in answer.matches if reader.trusts(match.chunk.label))[:_HITS]
        if not matches:
            return Recalled()
        body = "\n\n".join(f"{match.chunk.path}, line {match.chunk.first}:\n{match.chunk.text}" for match in matches)
        return Recalled(text=body[:MOST_CHARACTERS], matches=matches)
