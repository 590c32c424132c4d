"""Turns files and chats into lines with labels, and lines into chunks.

A chunk has about 400 tokens and begins with the last 80 tokens of the one before, so that what stands at a border is found whole.
Its lines all have the same label: a chunk is seen, or trusted, as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from urllib.parse import quote

from toolcaddie.core.bots import ChatTurn, chat_origin, is_group_chat
from toolcaddie.core.personas import LOGS, PersonaFile, read_fact
from toolcaddie.core.schema.encoding import BYTES_PER_TOKEN
from toolcaddie.tools.memory.values import Chunk, Label, Line

SESSIONS = "sessions/"
"""The folder under which stored chats are shown."""
NOBODY = "?"
"""Stands for the person of a private chat with turns of several people; nobody has this name, so nobody sees it."""

_CHUNK = round(400 * BYTES_PER_TOKEN)
_OVERLAP = round(80 * BYTES_PER_TOKEN)
_LONGEST_NAME = 64


def session_path(chat: str) -> str:
    """Returns the path under which a chat is shown: `sessions/telegram:42.md`. Two dots are spelled out, as paths have none."""
    return f"{SESSIONS}{quote(chat, safe=':@#+=,-_.~ ').replace('..', '%2E%2E')}.md"


def file_lines(file: PersonaFile) -> list[Line]:
    """Returns the lines of a daily log or a note. The comments of facts are left out: they are for programs."""
    is_log = file.path.startswith(LOGS)
    day = file.path.removeprefix(LOGS).removesuffix(".md")
    lines = []
    for number, text in enumerate(file.text.split("\n"), 1):
        fact = read_fact(text) if is_log else None
        if fact is None:
            label = Label(kind="log" if is_log else "note")
            lines.append(Line(number=number, text=text, label=label, at=_moment(day, "00:00") or file.at))
            continue
        origin = fact.provenance
        label = Label(kind="log", who=origin.who, chat=chat_origin(origin.chat), trust=origin.trust)
        at = _moment(day, fact.time) or file.at
        lines.append(Line(number=number, text=f"- {fact.time} {fact.text}", label=label, at=at))
    return lines


def turn_lines(chat: str, turn: ChatTurn, person: str, *, number: int) -> list[Line]:
    """Returns the lines of a message; none for a summary, whose messages are still stored. `person`: the person of a private
    chat. `number`: that of the first line."""
    if turn.role == "summary":
        return []
    label = _turn_label(chat, turn, person)
    time = datetime.fromtimestamp(turn.at, UTC).strftime("%Y-%m-%d %H:%M")
    head, *more = turn.text.split("\n")
    texts = [f"[{time}] {_speaker(turn)}: {head}", *more]
    return [Line(number=number + place, text=text, label=label, at=turn.at) for place, text in enumerate(texts)]


def person_of(turns: Iterable[ChatTurn], known: str = "") -> str:
    """Returns the person of a private chat: the one who wrote all of its messages to the bot. `known`: the person of the messages
    before; empty: there were none."""
    people = {turn.who for turn in turns if turn.role == "user"} | ({known} if known else set())
    return people.pop() or NOBODY if len(people) == 1 else NOBODY if people else ""


def chunks_of(path: str, lines: Sequence[Line]) -> list[Chunk]:
    """Returns the chunks of consecutive lines."""
    written = (line for line in lines if line.text.strip())
    return [
        _chunk(path, part) for _, run in groupby(written, key=lambda line: line.label) for part in _parts(list(run))
    ]


def _parts(run: Sequence[Line]) -> Iterator[list[Line]]:
    """Yields the lines of each chunk of a run with one label. A line that is longer than a chunk is cut into several."""
    part: list[Line] = []
    size = fresh = 0
    for line in _short(run):
        length = _size(line)
        if fresh and size + length > _CHUNK:
            yield part
            part, fresh = _tail(part), 0
            size = sum(map(_size, part))
        part.append(line)
        size, fresh = size + length, fresh + 1
    if fresh:
        yield part


def _short(run: Sequence[Line]) -> Iterator[Line]:
    for line in run:
        if len(line.text) <= _CHUNK:
            yield line
            continue
        for start in range(0, len(line.text), _CHUNK):
            text = line.text[start : start + _CHUNK]
            yield Line(number=line.number, text=text, label=line.label, at=line.at)


def _tail(part: Sequence[Line]) -> list[Line]:
    """Returns the last lines of a chunk with which the next one begins."""
    size, start = 0, len(part)
    while start > 1 and size + _size(part[start - 1]) <= _OVERLAP:
        start -= 1
        size += _size(part[start])
    return list(part[start:])


def _size(line: Line) -> int:
    return len(line.text) + 1


def _chunk(path: str, part: Sequence[Line]) -> Chunk:
    first = part[0]
    text = "\n".join(line.text for line in part)
    return Chunk(path=path, first=first.number, last=part[-1].number, at=first.at, label=first.label, text=text)


def _turn_label(chat: str, turn: ChatTurn, person: str) -> Label:
    origin = chat_origin(chat)
    if is_group_chat(chat):  # what one member says, another one may have asked for: nothing in a group is one person's
        return Label(kind="session", chat=origin, trust="tainted" if turn.taint else "unknown")
    return Label(kind="session", who=person, chat=origin, trust="tainted" if turn.taint else "clean")


def _speaker(turn: ChatTurn) -> str:
    name = turn.who.rpartition("/")[2] if turn.role == "user" else "you"
    return " ".join(name.split())[:_LONGEST_NAME] or "user"


def _moment(day: str, time: str) -> float | None:
    """Returns the seconds since the epoch of a time in UTC; None: there is no such day or time."""
    try:
        return datetime.fromisoformat(f"{day}T{time}+00:00").timestamp()
    except ValueError:
        return None
