"""The elements of every contract suite of `toolcaddie.testing`: the checks, their errors, and functions that run them.

A contract suite is a list of checks that every implementation of one interface must pass. A check tests one promise of the
interface. It gets a subject: a value that makes the implementation under test. `str(subject)` is its name in error messages.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

S = TypeVar("S")

_LINE = 240
"""Largest number of characters of a value, and of an error in the list of broken promises; the rest is cut off."""


class ContractError(AssertionError):
    """The implementation under test breaks a promise. The message says what was expected and what was found."""


class BrokenPromises(ContractError):
    """One or more checks failed. The message has a line for each of them: the promise, and what was found instead.

    `failures`: errors by the name of the check. `of`: number of checks that apply. `untried`: number of those that were not run.
    """

    def __init__(self, subject: object, failures: Mapping[str, Exception], *, of: int, untried: int = 0) -> None:
        lines = "".join(f"\n- {name}: {_summary(error)}" for name, error in failures.items())
        rest = f"; the other {untried} were not tried" if untried else ""
        super().__init__(f"{subject} breaks {len(failures)} of {of} promises{rest}:{lines}")
        self.failures = failures
        """The error of each failed check, with its traceback, by the name of the check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[S]):
    """The test of one promise. Call it with a subject: it raises `ContractError` if the promise is broken."""

    name: str
    """The promise in words."""
    run: Callable[[S], Awaitable[None]]
    applies_to: Callable[[S], bool]
    """Returns whether the check makes sense for a subject."""

    def __str__(self) -> str:
        return self.name

    async def __call__(self, subject: S) -> None:
        await self.run(subject)


def always(_subject: object) -> bool:
    return True


class Checks(Generic[S]):
    """The checks of a suite, in the order in which they were written.

    `@CHECKS.add()` makes a check of a function that takes a subject. The words of the function's name are the promise, as error
    messages print it: `a_later_put_replaces_the_value` is reported as "a later put replaces the value".
    """

    def __init__(self) -> None:
        self._checks: list[Check[S]] = []

    def __iter__(self) -> Iterator[Check[S]]:
        return iter(self._checks)

    def add(
        self, *, applies_to: Callable[[S], bool] = always
    ) -> Callable[[Callable[[S], Awaitable[None]]], Callable[[S], Awaitable[None]]]:
        """Decorates a function, and makes a check of it. `applies_to` returns whether the check makes sense for a subject."""

        def decorate(run: Callable[[S], Awaitable[None]]) -> Callable[[S], Awaitable[None]]:
            self.append(promise_of(run), run, applies_to)
            return run

        return decorate

    def append(self, name: str, run: Callable[[S], Awaitable[None]], applies_to: Callable[[S], bool] = always) -> None:
        self._checks.append(Check(name=name, run=run, applies_to=applies_to))


def promise_of(run: Callable[..., Any]) -> str:
    """Returns the promise that a function checks: the words of the function's name."""
    return run.__name__.strip("_").replace("_", " ")


async def check_all(subject: S, checks: Iterable[Check[S]]) -> None:
    """Runs every check that applies to the subject. Raises `BrokenPromises`, which lists all that failed."""
    applicable = [check for check in checks if check.applies_to(subject)]
    if failures := await failures_of(subject, applicable):
        raise BrokenPromises(subject, failures, of=len(applicable))


async def failures_of(subject: S, checks: Iterable[Check[S]]) -> dict[str, Exception]:
    """Runs checks, and returns the errors of those that failed, by the name of the check."""
    failures: dict[str, Exception] = {}
    for check in checks:
        try:
            await check(subject)
        except Exception as error:  # noqa: BLE001  the remaining checks run as well
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
    """Returns an error as one short line. An error that is not a `ContractError` is shown with its type and its source line."""
    text = " ".join(str(error).split())
    if not isinstance(error, ContractError):
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {text} ({Path(last.filename).name}, line {last.lineno})"
    return text if len(text) <= _LINE else f"{text[:_LINE]}..."
