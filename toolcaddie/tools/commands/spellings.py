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
_SEPARATORS = ";&|\n(){}`"
_ASSIGNMENT = re.compile(r"(?:^|[;&|\n(\s])([A-Za-z_]\w*)=((?:[^\s;&|\"'`$()\\]|\\.)+|\"[^\"]*\"|'[^']*')")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'")
_INTERPRETERS = re.compile(
    r"(?:ba|da|z|k|mk|a|c|tc|fi)?sh|eval|su|perl[\d.]*|python[\d.]*|ruby|node|php|lua|awk|gawk|mawk|ssh|parallel|find|at|batch|tmux|screen"
)


def commands_in(text: str, depth: int = 0) -> Iterator[Sequence[str]]:
    """Yields the program, without its folder, and the arguments of each command that a command line may run."""
    if depth > _DEEPEST:
        return
    spelled = _resolved(text.replace("\\\n", ""))
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
                yield from commands_in(word, depth + 1)


def _resolved(text: str) -> str:
    """Returns a line in which variables that it sets itself, `$IFS`, `$'...'` and empty expansions are replaced."""
    text = _ANSI.sub(lambda match: _decoded(match[1]), text)
    text = re.sub(r"\$\{IFS[^}]*\}|\$IFS\b", " ", text)
    values: Mapping[str, str] = {name: value.strip("\"'") for name, value in _ASSIGNMENT.findall(text)}
    text = re.sub(r"\$\{(\w+)\}|\$([A-Za-z_]\w*)", lambda match: values.get(match[1] or match[2], match[0]), text)
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
    word: str | None = None
    quote = ""
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if quote:
            if character == quote:
                quote = ""
            elif character == "\\" and quote == '"' and at < len(text):
                word = (word or "") + text[at]
                at += 1
            else:
                word = (word or "") + character
        elif character in "\"'":
            quote, word = character, word or ""
        elif character == "\\" and at < len(text):
            word = (word or "") + text[at]
            at += 1
        elif character in " \t" or character in _SEPARATORS or character in "<>":
            if word is not None:
                words.append(word)
                word = None
            if character in "<>":
                words.append(character)
            if character in _SEPARATORS and words:
                yield words
                words = []
        else:
            word = (word or "") + character
    if word is not None:
        words.append(word)
    if words:
        yield words


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
