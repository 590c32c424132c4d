"""Looks up what fits a message before a bot answers it, without a call of the model.

recall = Recall(library)
text = await recall.context_for(PersonaKey(tenant="default", bot="coach"), "default/ann", "telegram:42", "What tea do I like?")
"""

from __future__ import annotations

from toolcaddie.core.bots import chat_origin, is_group_chat
from toolcaddie.core.personas import PersonaKey
from toolcaddie.guards.markers import neutral
from toolcaddie.tools.memory.library import Library
from toolcaddie.tools.memory.reading import session_path
from toolcaddie.tools.memory.values import Match
from toolcaddie.tools.memory.visibility import Reader

HITS, SCORE, CHARACTERS = 3, 0.25, 2_000
"""The largest number of hits, the lowest score, and the largest size of the text."""

_LOOKED_AT = 20
_SHORTEST = 200
"""Characters below which no further hit is begun."""


class Recall:
    """Recalls what one person said, or was told, while nothing untrusted had been read. So it never taints a run."""

    def __init__(self, library: Library) -> None:
        self._library = library

    async def context_for(self, key: PersonaKey, person: str, chat: str, message: str) -> str:
        """Returns at most 2,000 characters for the model; empty: nothing fits. `person`: `tenant/id`. `chat`: the name of the
        chat in which the message was written; what was said in it is left out, because the model reads it anyway."""
        if not message.strip():
            return ""
        reader = Reader(who=person, chat=chat_origin(chat), group=is_group_chat(chat), own=True)
        answer = await self._library.search(key, message, reader, most=_LOOKED_AT, least=SCORE)
        fitting = [match for match in answer.matches if match.chunk.path != session_path(chat)][:HITS]
        return _text(fitting)


def _text(matches: list[Match]) -> str:
    parts: list[str] = []
    left = CHARACTERS
    for match in matches:
        chunk = match.chunk
        part = f"{chunk.path}, lines {chunk.first} to {chunk.last}:\n{neutral(chunk.text)}"
        parts.append(part if len(part) <= left else f"{part[: max(0, left - 4)]} ...")
        left -= len(part) + 2
        if left < _SHORTEST:
            break
    return "\n\n".join(parts)[:CHARACTERS]
