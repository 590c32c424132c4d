"""Judges a program by the lists in `programs.toml`: programs that only read, and the options with which others do more."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec


class _Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a program that only reads without them."""

    short: str = ""
    long: tuple[str, ...] = ()
    values: str = ""
    operands: int | None = None
    require: str = ""
    """Short options of which one must be given."""
    require_long: tuple[str, ...] = ()


class Programs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lists of `programs.toml`, which says what each is."""

    any: frozenset[str]
    git: frozenset[str]
    shell: frozenset[str]
    wrappers: frozenset[str]
    options: Mapping[str, _Options]
    verbs: Mapping[str, frozenset[str]]


def listed_doubt(program: str, arguments: Sequence[str]) -> str:
    """Returns the reason why a program with these arguments may do more than read; empty: it only reads."""
    programs = known_programs()
    if program in programs.any:
        return ""
    if program in programs.options:
        return _options_doubt(program, arguments, programs.options[program])
    if program in programs.verbs:
        verb = arguments[0] if arguments else ""
        return "" if verb in programs.verbs[program] else f"{program} {verb}".rstrip() + " may change something"
    return f"{program} is not known as a program that only reads"


def _options_doubt(program: str, arguments: Sequence[str], options: _Options) -> str:
    short, long, operands = _split(arguments, options.values)
    for letter in short:
        if letter in options.short:
            return f"{program} -{letter} writes a file or runs a program"
    for name in long:
        # A program accepts a long option by its first letters.
        if any(option.startswith(name) for option in options.long):
            return f"{program} --{name} writes a file or runs a program"
    if options.operands is not None and operands > options.operands:
        return f"{program} with {operands} operands may write a file"
    if options.require and not set(short) & set(options.require) and not set(long) & set(options.require_long):
        return f"{program} may write files"
    return ""


def _split(arguments: Sequence[str], values: str) -> tuple[list[str], list[str], int]:
    """Returns the letters of the short options, the names of the long ones, and the number of operands. The value of a short
    option among `values` is neither."""
    short: list[str] = []
    long: list[str] = []
    operands = 0
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            operands += len(list(rest))
        elif argument.startswith("--"):
            long.append(argument[2:].partition("=")[0])
        elif argument.startswith("-") and len(argument) > 1:
            for at, letter in enumerate(argument[1:], 2):
                short.append(letter)
                if letter in values:
                    if at == len(argument):
                        next(rest, None)
                    break
        else:
            operands += 1
    return short, long, operands


@lru_cache(maxsize=1)
def known_programs() -> Programs:
    """Returns the lists."""
    text = Path(__file__).with_name("programs.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Programs)
