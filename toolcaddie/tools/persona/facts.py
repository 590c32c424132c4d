"""Facts as they are remembered: without secrets, on one line, with where they come from, and once."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import PersonaFile, Provenance, read_fact
from toolcaddie.core.run import RunContext
from toolcaddie.tools.persona.secrets import storable

_LONGEST_LINE = 12_000
"""The number of characters of a line that can be a fact. Longer ones come from nowhere here."""


def safe_fact(fact: str) -> str:
    """Returns a fact as it may be stored, on one line. Raises `RequestError` if it is empty or mostly secret."""
    if not one_line(fact):
        raise RequestError("Refused: the fact is empty, and nothing was saved.", param="fact")
    return one_line(storable(fact, param="fact"))


def one_line(text: str) -> str:
    return " ".join(text.split())


def origin_of(context: RunContext) -> Provenance:
    """Returns where a fact that is saved in a run comes from. After untrusted content it is tainted."""
    return Provenance(
        who=f"{context.principal.tenant}/{context.principal.id}",
        chat=context.conversation,
        run=context.run_id,
        trust="tainted" if context.taint else "clean",
    )


def is_known(logs: Iterable[PersonaFile], text: str, origin: Provenance) -> bool:
    """Returns True if a log has this fact of the same person. Case and punctuation do not count. A fact
    that may come from strangers does not keep the person from saying it."""
    plain = _plain(text)
    words = sorted(plain.split(), key=len, reverse=True)
    facts = (read_fact(line) for file in logs for line in _lines_with(words, file.text))
    return any(
        fact.provenance.who == origin.who
        and fact.provenance.trust in ("clean", origin.trust)
        and _plain(fact.text) == plain
        for fact in facts
        if fact is not None
    )


def _lines_with(words: Sequence[str], text: str) -> Iterator[str]:
    """Yields the lines that have all these words and may be facts. To look for a word in a whole text takes less time than to
    read its lines, and of a new fact the texts mostly lack a word."""
    folded = _folded(text)
    if not all(word in folded for word in words):
        return
    for line, folded_line in zip(text.split("\n"), folded.split("\n"), strict=True):
        if len(line) <= _LONGEST_LINE and "who=" in line and all(word in folded_line for word in words):
            yield line


def with_line(text: str, line: str) -> str:
    """Returns a log with a further line."""
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n"


def _plain(text: str) -> str:
    return one_line(re.sub(r"\W+", " ", _folded(text)))


def _folded(text: str) -> str:
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()
