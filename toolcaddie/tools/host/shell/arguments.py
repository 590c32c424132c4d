"""The effects of one command, and the arguments that they are read from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEffects:
    """The effects of one command on this machine beside its files."""

    effects: tuple[str, ...] = ()
    question: str = ""
    """The reason why a person is asked in any case: it cannot be read what the command does, or it does too much."""


READS = CommandEffects()
"""A command that changes nothing of this kind."""


def operands(
    arguments: Sequence[str], *, flags: Iterable[str] = (), values: Iterable[str] = ()
) -> tuple[Sequence[str], frozenset[str]] | None:
    """Returns the arguments that are no options, and the options without a value. None: there is an option that is neither among
    `flags` nor `values`, which take a value."""
    rest: list[str] = []
    given: set[str] = set()
    names = iter(arguments)
    for name in names:
        if name == "--":
            rest += names
        elif not name.startswith("-") or name == "-":
            rest.append(name)
        elif name in flags:
            given.add(name)
        elif name in values:
            next(names, None)
        elif not (name.startswith("--") and name.partition("=")[0] in values and "=" in name):
            return None
    return rest, frozenset(given)
