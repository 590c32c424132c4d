"""Matches patterns with look-around or backreferences within a budget.

A regular expression without these features is matched in linear time. An expression with them may backtrack from every character,
and the validator (jsonschema_rs) limits only the steps from each character. So `schema.check` moves such a `pattern` under a
keyword of our own, which checks the length of the text before a match and counts the time of all matches. Costly patterns in
`patternProperties` are matched before the check, because the validator calls no code of ours for them.
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
"""Placeholder for the value in every message of a validator."""

_BACKTRACKS = 10_000
"""The largest number of backtracking steps from one character. The longest accepted text takes at most some 100 ms."""

OPTIONS = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS)

Matcher = Callable[[str], bool]


class Overspent(ValueError):
    """A text is too long for a costly pattern, or the time for such patterns is used up."""


class Budget:
    """The time that one check may spend on costly patterns. When it is used up, every further match is refused."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._seconds_left = bounds.pattern_seconds
        self.overspent: Overspent | None = None

    def matches(self, matcher: Matcher, text: str) -> bool:
        """Matches a text. Raises `Overspent` if the text is too long or the time is used up."""
        if len(text) > self._bounds.pattern_text:
            self._overspend(
                f"has {len(text):,} characters, but a pattern with look-around or backreferences is matched against "
                f"{self._bounds.pattern_text:,} at most (setting bounds.pattern_text)"
            )
        if self._seconds_left <= 0:
            self._overspend(
                f"patterns with look-around or backreferences took longer than {self._bounds.pattern_seconds:g} s "
                "together (setting bounds.pattern_seconds); send shorter or fewer texts"
            )
        started = time.perf_counter()
        try:
            return matcher(text)
        finally:
            self._seconds_left -= time.perf_counter() - started

    def _overspend(self, reason: str) -> None:
        self.overspent = self.overspent or Overspent(reason)
        raise Overspent(reason)


class _Checking(threading.local):
    """The budget of the check in this thread. It cannot be stored in a validator, because threads share the validators."""

    budget = Budget(DEFAULT)


_checking = _Checking()


def begin(bounds: Bounds) -> Budget:
    """Starts a new budget, which holds for all matches in this thread until the next call."""
    _checking.budget = Budget(bounds)
    return _checking.budget


class PatternKeyword:
    """The implementation of `KEYWORD`, as a class that jsonschema_rs calls."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        self._pattern = str(value)
        self._matcher = _matcher(self._pattern)

    def validate(self, instance: Any) -> None:
        if isinstance(instance, str) and not _checking.budget.matches(self._matcher, instance):
            raise ValueError(f'{MASK} does not match "{self._pattern}"')


def set_apart(schema: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Moves costly `pattern`s under `KEYWORD`, in place. Returns the schema and the costly patterns of its
    `patternProperties`."""
    name_patterns: dict[str, None] = {}
    for node in list(every_schema(schema)):
        pattern = node.get("pattern")
        if isinstance(pattern, str) and is_costly(pattern):
            node[KEYWORD] = node.pop("pattern")
        properties = node.get("patternProperties")
        if isinstance(properties, dict):
            name_patterns.update((name, None) for name in properties if is_costly(name))
    return schema, tuple(name_patterns)


def try_names(patterns: tuple[str, ...], value: Any, budget: Budget) -> None:
    """Matches the names of all objects in the value, only to measure the time. Raises `Overspent` for a name that is too long, or
    when the time is used up."""
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
    """Returns True if a pattern needs backtracking. Returns False for an invalid pattern, which the validator refuses."""
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
