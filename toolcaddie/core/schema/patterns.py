"""Patterns with look-around or backreferences, matched within a budget.

A regular expression without them is matched in linear time. One with them may go back and begin again at every character, and
the validator gives up only so many steps after each beginning. So such a `pattern` becomes a keyword of our own, which looks
at the length of the text first and at the clock after each match. The names that such a `patternProperties` is held against
are tried beforehand, because nobody is asked in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import jsonschema_rs

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.schema.walk import every_schema

KEYWORD = "toolcaddie-pattern"

MASK = "\x00"
"""Stands for the value in every message of a validator."""

_BACKTRACKS = 10_000
"""Steps from one beginning; with the longest text that is accepted some 100 ms at the very worst."""

OPTIONS = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS)

Matcher = Callable[[str], bool]


class Overspent(ValueError):
    """A text is too long for such a pattern, or there are too many."""


class Budget:
    """What one check may spend on these patterns. Refuses everything once it is spent."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._left = bounds.pattern_seconds
        self.overspent: Overspent | None = None

    def matches(self, matcher: Matcher, text: str) -> bool:
        """Raises `Overspent`."""
        if len(text) > self._bounds.pattern_text:
            self._overspend(
                f"has {len(text):,} characters, but a pattern with look-around or backreferences is matched against "
                f"{self._bounds.pattern_text:,} at most (setting bounds.pattern_text)"
            )
        if self._left <= 0:
            self._overspend(
                f"patterns with look-around or backreferences took longer than {self._bounds.pattern_seconds:g} s "
                "together (setting bounds.pattern_seconds); send shorter or fewer texts"
            )
        started = time.perf_counter()
        try:
            return matcher(text)
        finally:
            self._left -= time.perf_counter() - started

    def _overspend(self, why: str) -> None:
        self.overspent = self.overspent or Overspent(why)
        raise Overspent(why)


class _Checking(threading.local):
    """The budget of the check that this thread is at: a validator is shared by all of them."""

    budget = Budget(DEFAULT)


_checking = _Checking()


def begin(bounds: Bounds) -> Budget:
    """A new budget for all matches of this thread until the next one."""
    _checking.budget = Budget(bounds)
    return _checking.budget


class PatternKeyword:
    """The keyword as jsonschema_rs knows it."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        self._pattern = str(value)
        self._matcher = _matcher(self._pattern)

    def validate(self, instance: Any) -> None:
        if isinstance(instance, str) and not _checking.budget.matches(self._matcher, instance):
            raise ValueError(f'{MASK} does not match "{self._pattern}"')


def set_apart(schema: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The schema with its costly `pattern`s under our keyword, and the costly patterns of names. Changes the schema."""
    of_names: dict[str, None] = {}
    for node in list(every_schema(schema)):
        pattern = node.get("pattern")
        if isinstance(pattern, str) and is_costly(pattern):
            node[KEYWORD] = node.pop("pattern")
        named = node.get("patternProperties")
        if isinstance(named, dict):
            of_names.update((name, None) for name in named if is_costly(name))
    return schema, tuple(of_names)


def try_names(patterns: tuple[str, ...], value: Any, budget: Budget) -> None:
    """Matches every name of an object in the value. Raises `Overspent` with the name at fault."""
    for name in dict.fromkeys(_names(value)):
        for pattern in patterns:
            budget.matches(_matcher(pattern), name)


def _names(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield from (name for name in node if isinstance(name, str))
            pending.extend(node.values())
        elif isinstance(node, list | tuple):
            pending.extend(node)


@lru_cache(maxsize=4_096)
def is_costly(pattern: str) -> bool:
    """Whether a pattern needs an engine that goes back. One that no engine takes is left to the validator to refuse."""
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
    except jsonschema_rs.ValidationError:
        return _compiles(pattern)
    return False


def _compiles(pattern: str) -> bool:
    try:
        _matcher(pattern)
    except jsonschema_rs.ValidationError:
        return False
    return True


@lru_cache(maxsize=1_024)
def _matcher(pattern: str) -> Matcher:
    matcher: Matcher = jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=OPTIONS).is_valid
    return matcher
