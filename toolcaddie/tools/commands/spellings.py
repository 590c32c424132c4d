"""Finds the commands in a command line however they are spelled: quoted, escaped, behind `sudo`, inside `sh -c`, in variables.

It understands anything to some degree and refuses nothing, so it can be deceived. It finds what is written without the wish to
hide it, and the usual ways to hide it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from toolcaddie.tools.commands.programs import known_programs

_DEEPEST = 5
_MOST = 2_000
"""Commands of one line that are looked at."""
_MOST_WRAPPED = 50
"""Commands inside each of them."""
_GROWTH = 4
"""How many times its own length the variables of a line may add to it."""
_SHORT = 256
"""The length that a line is taken to have at least."""
_SEPARATORS = ";&|\n(){}`"
_ASSIGNMENT = re.compile(r"(?:^|[;&|\n(\s])([A-Za-z_]\w*)=((?:[^\s;&|\"'`$()\\]|\\.)+|\"[^\"]*\"|'[^']*')")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'")
_INTERPRETERS = re.compile(
    r"(?:ba|da|z|k|mk|a|c|tc|fi)?sh|eval|su|perl[\d.]*|python[\d.]*|ruby|node|php|lua|awk|gawk|mawk|ssh|parallel|find|at|batch|tmux|screen"
)


class TooMuchTextError(ValueError):
    """The variables of a command line stand for far more text than it has, so that reading it would take too long."""


def commands_in(text: str) -> Iterator[Sequence[str]]:
    """Yields the program, without its folder, and the arguments of each command that a command line may run. Raises
    `TooMuchTextError`."""
    return _commands_in(text, _Room(_GROWTH * max(len(text), _SHORT)), 0)


class _Room:
    """The number of characters that variables may still add to a line, at all depths together."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def take(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise TooMuchTextError("its variables stand for far more text than it has")


def _commands_in(text: str, room: _Room, depth: int) -> Iterator[Sequence[str]]:
    if depth > _DEEPEST:
        return
    spelled = _resolved(text.replace("\\\n", ""), room)
    groups = list(_split(spelled))[:_MOST]
    interprets = depth > 0
    for words in groups:
        for command in islice(_unwrapped(words), _MOST_WRAPPED):
            interprets = interprets or _INTERPRETERS.fullmatch(command[0]) is not None
            yield command
    for words in groups:
        for word in words:
            # A word with blanks is a command only if something takes it for one: `echo "rm -rf /"` prints.
            if (interprets and re.search(r"\s", word)) or "$(" in word or "`" in word:
                yield from _commands_in(word, room, depth + 1)


def _resolved(text: str, room: _Room) -> str:
    """Returns a line in which variables that it sets itself, `$IFS`, `$'...'` and empty expansions are replaced."""
    text = _ANSI.sub(lambda match: _decoded(match[1]), text)
    text = re.sub(r"\$\{IFS[^}]{0,64}\}|\$IFS\b", " ", text)
    values: Mapping[str, str] = {name: value.strip("\"'") for name, value in _ASSIGNMENT.findall(text)}

    def value(match: re.Match[str]) -> str:
        known = values.get(match[1] or match[2], match[0])
        room.take(len(known))
        return known

    text = re.sub(r"\$\{(\w+)\}|\$([A-Za-z_]\w*)", value, text)
    text = re.sub(r"\$[@*!]|\$\{[@*]\}", "", text)
    return re.sub(
        r"(?<!\S)\{([^{}\s]*)\}", lambda match: match[1].replace(",", " ") if "," in match[1] else match[0], text
    )


def _decoded(text: str) -> str:
    try:
        return codecs.decode(text.encode("latin-1", "replace"), "unicode_escape")
    except UnicodeDecodeError:
        return text


def _split(text: str) -> Iterator[Sequence[str]]:
    """Yields the words of each command, without their quotes."""
    words: list[str] = []
    word = _Pieces()
    quote = ""
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if quote:
            if character == quote:
                quote = ""
            elif character == "\\" and quote == '"' and at < len(text):
                word.add(text[at])
                at += 1
            else:
                word.add(character)
        elif character in "\"'":
            quote = character
            word.add("")
        elif character == "\\" and at < len(text):
            word.add(text[at])
            at += 1
        elif character in " \t" or character in _SEPARATORS or character in "<>":
            words += word.taken()
            if character in "<>":
                words.append(character)
            if character in _SEPARATORS and words:
                yield words
                words = []
        else:
            word.add(character)
    words += word.taken()
    if words:
        yield words


class _Pieces:
    """The pieces of a word that is being read. A word may be empty (`""`), and there may be none."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    def taken(self) -> Sequence[str]:
        """Returns the word, if there is one, and begins the next."""
        word = ["".join(self._pieces)] if self._pieces else []
        self._pieces.clear()
        return word


def _unwrapped(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields a command as it stands, and the commands behind `sudo` and other wrappers in front of it."""
    values = 0
    """Options of wrappers so far whose value, which looks like a program, may still come."""
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        if re.fullmatch(r"[A-Za-z_]\w*=.*", word, re.DOTALL) or re.fullmatch(r"[\d.]+[smhd]?", word):
            continue
        if word in ("<", ">") or (at and words[at - 1] in ("<", ">")):
            continue
        if word.startswith("-"):
            values += 1
            continue
        yield [name, *words[at + 1 :]]
        if name == "find":
            yield from _run_by_find(words[at:])
        if name not in known_programs().wrappers:
            if not values:
                return
            values -= 1


def _run_by_find(words: Sequence[str]) -> Iterator[Sequence[str]]:
    for at, word in enumerate(words[:-1]):
        if re.fullmatch(r"-exec(?:dir)?|-ok(?:dir)?", word):
            yield [words[at + 1].rpartition("/")[2], *words[at + 2 :]]
