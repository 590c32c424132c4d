"""The form of a hostile case: turns of a model, each with the calls that it makes at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Call = tuple[str, Any]
"""A tool and its arguments."""
Turn = Callable[[Sequence[str]], Sequence[Call]]
"""Returns the calls of a turn from the texts of all results so far."""
Forgery = Callable[[Any], Any]
"""Returns a difference that the plugin never made, from one that it made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One attempt of the model."""

    kind: str
    turns: Sequence[Turn]
    note: str = ""
    """A text of a stranger that the model can read in the file `note.txt`."""
    walled: bool = True
    """False: commands run without a wall, so that they could have effects on the namespaces of the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of attack."""

    name: str
    hostile: Sequence[Sequence[Turn]]
    honest: Sequence[Turn] = ()
    """The same request in a form that an operator may write, which takes effect when everything is allowed. Empty: there is no
    such form, because the attack is only a form."""
    walled: bool = True

    def case(self, turns: Sequence[Turn]) -> Case:
        return Case(kind=self.name, turns=turns, walled=self.walled)


def one(tool: str, **arguments: Any) -> list[Turn]:
    """Returns the turn with one call."""
    return [lambda results: [(tool, arguments)]]


def raw(tool: str, arguments: Any) -> list[Turn]:
    """Returns the turn with one call, whose arguments need not be an object."""
    return [lambda results: [(tool, arguments)]]


def at_once(*calls: Call) -> list[Turn]:
    """Returns the turn with several calls."""
    return [lambda results: calls]


def applied(plugin: str, desired: Any, forgery: Forgery = lambda diff: diff, **options: Any) -> list[Turn]:
    """Returns the turns that make a difference, apply it, and confirm it."""
    given = {"dry_run": False, **options}

    def apply(results: Sequence[str]) -> Sequence[Call]:
        diff = value_of(results[0])
        return [] if diff is None else [(f"plugin_{plugin}_apply", {"diff": forgery(diff), **given})]

    return [lambda results: [(f"plugin_{plugin}_diff", {"desired_state": desired})], apply, apply]


def value_of(text: str) -> Any:
    """Returns the first JSON object of a result; None: it has none."""
    try:
        return json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    except ValueError:
        return None
