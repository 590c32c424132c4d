"""The elements of every contract suite: checks, how they fail, and running all of them against a subject.

A subject is a value that says what is checked and how it is made; `str(subject)` names it in messages.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

S = TypeVar("S")

_LINE = 240
"""Characters of a failure in the list of all broken promises."""


class ContractError(AssertionError):
    """The subject does not keep the contract; the message says what was expected and what was seen."""


class BrokenPromises(ContractError):
    """Several checks failed. The message has a line for each: the promise, and what was seen instead."""

    def __init__(self, subject: object, failures: Mapping[str, Exception], *, of: int, untried: int = 0) -> None:
        lines = "".join(f"\n- {name}: {_summary(error)}" for name, error in failures.items())
        rest = f"; the other {untried} were not tried" if untried else ""
        super().__init__(f"{subject} breaks {len(failures)} of {of} promises{rest}:{lines}")
        self.failures = failures
        """By the name of its check, each with its own traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[S]):
    """One promise. Call it with a subject; it raises `ContractError` where the promise is broken."""

    name: str
    run: Callable[[S], Awaitable[None]]
    applies_to: Callable[[S], bool]

    def __str__(self) -> str:
        return self.name

    async def __call__(self, subject: S) -> None:
        await self.run(subject)


def always(_subject: object) -> bool:
    return True


class Checks(Generic[S]):
    """Checks in the order they were written. Decorates a function of a subject, whose name is the promise."""

    def __init__(self) -> None:
        self._checks: list[Check[S]] = []

    def __iter__(self) -> Iterator[Check[S]]:
        return iter(self._checks)

    def add(
        self, *, applies_to: Callable[[S], bool] = always
    ) -> Callable[[Callable[[S], Awaitable[None]]], Callable[[S], Awaitable[None]]]:
        def decorate(run: Callable[[S], Awaitable[None]]) -> Callable[[S], Awaitable[None]]:
            self.append(promise_of(run), run, applies_to)
            return run

        return decorate

    def append(self, name: str, run: Callable[[S], Awaitable[None]], applies_to: Callable[[S], bool] = always) -> None:
        self._checks.append(Check(name=name, run=run, applies_to=applies_to))


def promise_of(run: Callable[..., Any]) -> str:
    """Returns the promise that a check is named for: the words of its function's name."""
    return run.__name__.strip("_").replace("_", " ")


async def check_all(subject: S, checks: Iterable[Check[S]]) -> None:
    """Runs every check that applies. Raises `BrokenPromises`, which lists all that failed."""
    applicable = [check for check in checks if check.applies_to(subject)]
    if failures := await failures_of(subject, applicable):
        raise BrokenPromises(subject, failures, of=len(applicable))


async def failures_of(subject: S, checks: Iterable[Check[S]]) -> dict[str, Exception]:
    """Runs checks, and returns the errors of those that failed, by the name of the check."""
    failures: dict[str, Exception] = {}
    for check in checks:
        try:
            await check(subject)
        except Exception as error:  # noqa: BLE001  the others are to be checked as well
            failures[check.name] = error
    return failures


def expect(condition: bool, message: str) -> None:
    """Raises `ContractError` with the message unless the condition holds."""
    if not condition:
        raise ContractError(message)


def expect_equal(actual: Any, expected: Any, message: str) -> None:
    """Raises `ContractError` with both values unless they are equal."""
    if actual != expected:
        raise ContractError(f"{message}: expected {_short(expected)}, got {_short(actual)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LINE else f"{text[:_LINE]}..."


def _summary(error: Exception) -> str:
    """Returns an error in one short line; if it is none of the contract's, with its type and the line that raised it."""
    text = " ".join(str(error).split())
    if not isinstance(error, ContractError):
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {text} ({Path(last.filename).name}, line {last.lineno})"
    return text if len(text) <= _LINE else f"{text[:_LINE]}..."
