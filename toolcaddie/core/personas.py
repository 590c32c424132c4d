"""The files of a bot's persona, as values: markdown that people can read and edit, with versions, and facts with provenance.

A fact is one line of a daily log, for example:

    - 14:05 Ann's birthday is on 3 May. <!-- who=default/ann chat=telegram:42 run=run_1 trust=clean -->

A reader of the file sees a sentence; who said it, where and how far it can be trusted stands in a comment, which a line without
one simply lacks.
"""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import quote, unquote

from msgspec import Struct

Trust = Literal["clean", "tainted", "unknown"]
"""`clean`: the person said it, and the run had read nothing untrusted. `tainted`: it may come from a page or a tool. `unknown`:
the file does not say, for example because a person wrote it by hand or another program did."""

SOUL, IDENTITY, GOALS, MOTIVATIONS = "SOUL.md", "IDENTITY.md", "GOALS.md", "MOTIVATIONS.md"
LOGS = "memory/"
"""The folder of the daily logs, one file `YYYY-MM-DD.md` for each day."""
NOTES = "notes/"
"""The folder of notes that people or an import put there."""


class PersonaKey(Struct, frozen=True, kw_only=True):
    """The owner of persona files: one bot of one tenant."""

    tenant: str
    bot: str


class Author(Struct, frozen=True, kw_only=True):
    """Who wrote a version of a file, and in which run."""

    who: str
    """`tenant/id` of the principal, or `import`."""
    run_id: str = ""
    """Empty: a person wrote it without a run."""
    taint: tuple[str, ...] = ()
    """Tools whose untrusted results the run had read."""


class PersonaFile(Struct, frozen=True, kw_only=True):
    """A version of a file."""

    path: str
    """Relative to the persona, with `/`."""
    text: str
    version: int
    """Counts from 1 for each file."""
    at: float
    """Seconds since the epoch."""
    author: Author
    note: str = ""
    """What the change is for, such as `revert to version 3`."""
    deleted: bool = False


class Provenance(Struct, frozen=True, kw_only=True):
    """Where a fact comes from."""

    who: str = ""
    """`tenant/id` of the person in whose conversation it was said; empty: unknown."""
    chat: str = ""
    run: str = ""
    trust: Trust = "unknown"


class Fact(Struct, frozen=True, kw_only=True):
    """A line of a daily log."""

    time: str
    """HH:MM."""
    text: str
    provenance: Provenance = Provenance()


_TIME = re.compile(r"- ([0-9]{2}:[0-9]{2}) ")
_OPENING, _CLOSING = "<!-- ", " -->"
_TRUSTS: tuple[Trust, ...] = ("clean", "tainted", "unknown")


def fact_line(fact: Fact) -> str:
    """Returns the line of a fact. The text becomes one line, and nothing in it can end or imitate the comment."""
    text = " ".join(fact.text.split()).replace("<!--", "<! --").replace("-->", "-- >")
    origin = fact.provenance
    pairs = [("who", origin.who), ("chat", origin.chat), ("run", origin.run), ("trust", origin.trust)]
    note = " ".join(f"{name}={quote(value, safe='/:@._')}" for name, value in pairs if value)
    return f"- {fact.time} {text} {_OPENING}{note}{_CLOSING}"


def read_fact(line: str) -> Fact | None:
    """Returns the fact of a line; None: the line is something else. Without a readable comment, its provenance is unknown. The
    time grows with the length of the line alone, because lines may come from a reviewer or an import."""
    match = _TIME.match(line)
    if match is None:
        return None
    text, note = _split(line[match.end() :].rstrip())
    values = dict(pair.partition("=")[::2] for pair in note.split())
    trust: Trust = next((known for known in _TRUSTS if known == values.get("trust")), "unknown")
    origin = Provenance(
        who=unquote(values.get("who", "")),
        chat=unquote(values.get("chat", "")),
        run=unquote(values.get("run", "")),
        trust=trust,
    )
    return Fact(time=match[1], text=text, provenance=origin)


def _split(rest: str) -> tuple[str, str]:
    """Returns the text of a fact, and what its comment says; empty: it has none."""
    start = rest.rfind(_OPENING) if rest.endswith(_CLOSING) else -1
    note = rest[start + len(_OPENING) : -len(_CLOSING)]
    if start < 0 or start + len(_OPENING) + len(_CLOSING) > len(rest) or not {"<", ">"}.isdisjoint(note):
        return rest, ""
    return rest[:start].rstrip(), note
