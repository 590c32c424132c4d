"""Commands with placeholders: a list of words, in which `{{name}}` stands for the value of an argument.

The words are made once, when the tool is written. A value never makes another word and no shell reads it, so it arrives as one
argument, or as a part of one, byte for byte. What cannot arrive so, or would be read as an option, is refused with the reason.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.core.errors import RequestError

PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_OPERATORS = "|&;<>"
"""What a shell would read as an operator, outside of quotes."""
_LONGEST = 100_000
"""Largest number of bytes of one argument; Linux takes 131,072."""
_OPTIONS_EVERYWHERE = frozenset({"dd", "expr", "find", "ps", "tar", "test", "["})
"""Programs that read options, or words of their own language, after `--` too."""
END_OF_OPTIONS = "--"


def words_of(source: str) -> tuple[str, ...]:
    """Returns the words of a command: a JSON list of texts, or one text in which spaces part words and quotes join them, as at a
    command line. Nothing else of a shell is known. Raises `RequestError`."""
    text = source.strip()
    words = _listed(text) if text.startswith("[") else _split(text)
    if not words:
        raise _refusal("the command has no words; write the program and its arguments")
    if "\0" in source:
        raise _refusal("the command contains a NUL character; take it out")
    for word in words:
        _check_braces(word)
    return tuple(PLACEHOLDER.sub(lambda match: "{{" + match[1] + "}}", word) for word in words)


def placeholders(words: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of all placeholders, each once, in their order."""
    return tuple(dict.fromkeys(match[1] for word in words for match in PLACEHOLDER.finditer(word)))


def fill(words: Sequence[str], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the words with the values in place of the placeholders. Raises `RequestError` for a value that is missing or cannot
    be an argument."""
    values = {name: _value(name, arguments) for name in placeholders(words)}
    return tuple(_filled(words, position, values) for position in range(len(words)))


def _listed(text: str) -> list[str]:
    try:
        return msgspec.json.decode(text, type=list[str])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _refusal(f"the command is not a JSON list of texts: {error}") from error


def _split(text: str) -> list[str]:
    try:
        # A placeholder with spaces in it is still one piece of a word.
        words = shlex.split(PLACEHOLDER.sub(lambda match: "{{" + match[1] + "}}", text))
        pieces = list(shlex.shlex(text, posix=False, punctuation_chars=_OPERATORS))  # quoted pieces keep their quotes
    except ValueError as error:
        raise _refusal(f"the command cannot be split into words: {error}") from error
    if operators := [piece for piece in pieces if set(piece) <= set(_OPERATORS)]:
        raise _refusal(
            f"no shell reads the command, so {operators[0]!r} would be an argument like any other; write a tool of type python, "
            "or a JSON list of words if you mean the characters themselves"
        )
    return words


def _check_braces(word: str) -> None:
    rest = PLACEHOLDER.sub("", word)
    if "{{" in rest or "}}" in rest:
        raise _refusal(
            f"{word[:80]!r} has braces that are no placeholder; write {{{{name}}}}, with the name of a parameter"
        )


def _value(name: str, arguments: Mapping[str, Any]) -> str:
    """Returns the value of an argument as the text that the program receives."""
    value = arguments.get(name)
    if value is None:
        raise _refusal(f"the placeholder {{{{{name}}}}} has no value; pass the argument {name!r}", name)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if "\0" in text:
        raise _refusal(f"{name!r} contains a NUL character, which no argument of a program can contain", name)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise _refusal(f"{name!r} is not text: {error.reason}", name) from error
    if size > _LONGEST:
        raise _refusal(f"{name!r} has {size:,} bytes; an argument of a program may have {_LONGEST:,}", name)
    return text


def _filled(words: Sequence[str], position: int, values: Mapping[str, str]) -> str:
    word = words[position]
    text = PLACEHOLDER.sub(lambda match: values[match[1]], word)  # one pass: braces in a value stay what they are
    first = PLACEHOLDER.match(word)
    if first and text.startswith("-") and not _after_options(words, position):
        raise _refusal(
            f"{first[1]!r} begins with '-', so {words[0]} would read it as an option; pass a value that begins otherwise",
            first[1],
        )
    if len(text.encode()) > _LONGEST:
        raise _refusal(f"the argument {word[:80]!r} is longer than {_LONGEST:,} bytes with its values")
    return text


def _after_options(words: Sequence[str], position: int) -> bool:
    """Returns whether a program takes every word at this position as it is, because `--` stands before it."""
    return END_OF_OPTIONS in words[1:position] and words[0].rpartition("/")[2] not in _OPTIONS_EVERYWHERE


def _refusal(reason: str, param: str | None = None) -> RequestError:
    return RequestError(reason, param=param, code="refused")
