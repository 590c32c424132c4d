"""Shares of a daily log: nobody can fill a whole day, so that nothing of the others would be remembered."""

from __future__ import annotations

from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import Provenance, read_fact
from toolcaddie.personas.names import MOST_BYTES

PERSON_BYTES = MOST_BYTES // 8
"""The largest size of the facts of one person in the log of a day."""
CHAT_BYTES = MOST_BYTES // 2
"""The largest size of the facts of one chat: a group with many members leaves room for others too."""


def check_shares(log: str, line: str, origin: Provenance) -> None:
    """Raises `RequestError` if a further line of that origin would exceed the share of its person or its chat."""
    of_person = of_chat = len(line.encode())
    for present in log.split("\n"):
        fact = read_fact(present)
        if fact is not None:
            size = len(present.encode()) + 1
            of_person += size * (fact.provenance.who == origin.who)
            of_chat += size * (bool(origin.chat) and fact.provenance.chat == origin.chat)
    if of_person > PERSON_BYTES:
        raise _full("this person", PERSON_BYTES)
    if of_chat > CHAT_BYTES:
        raise _full("this chat", CHAT_BYTES)


def _full(whose: str, most: int) -> RequestError:
    return RequestError(
        f"Refused: the facts of {whose} fill their share of today's log, {most // 1024} KB; nothing was saved, save it tomorrow",
        param="fact",
        code="share_used",
    )
