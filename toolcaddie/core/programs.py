"""Programs: a short Python program by the model that calls tools as functions (`run_program`). Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from toolcaddie.core.numbers import Positive, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLimits:
    """Limits of one program. The tools that it calls have the limits of the run."""

    seconds: Seconds = 5.0
    """Seconds of computing; waiting for tools does not count."""
    memory_bytes: Positive = 64_000_000
    output_bytes: Positive = 2_000_000
    """Bytes that a program may print."""
    result_bytes: Positive = 1_000_000
    """Bytes of one tool's result. A larger result is an error in the program."""
    results_bytes: Positive = 8_000_000
    """Bytes of all results of a program together."""
    code_bytes: Positive = 50_000


class Program(Struct, frozen=True, kw_only=True):
    """A program and everything that its course depends on, apart from the results of its calls. Two runs of an equal program that
    get equal results make the same calls in the same order."""

    code: str
    stubs: str
    """Declarations of the functions that the program may call. Empty: types are not checked."""
    now: float
    """Seconds since the epoch: the time that the program reads, unchanged while it runs."""
    seed: int
    """The seed of its random numbers."""
    limits: ProgramLimits = ProgramLimits()


class ProgramCall(Struct, frozen=True, kw_only=True):
    """A call that a program makes."""

    number: int
    """The position of the call among all calls of the program, from 0."""
    function: str
    args: tuple[Any, ...] = ()
    arguments: Mapping[str, Any] = {}


class Waiting(Struct, frozen=True, kw_only=True):
    """A program that goes on when it has a result for each of these calls."""

    calls: tuple[ProgramCall, ...]
    """Calls since the last step, in their order."""


class Ended(Struct, frozen=True, kw_only=True):
    """A program that has ended."""

    output: str = ""
    """Printed text."""
    value: Any = None
    """The value of its last expression."""
    error: str = ""
    """The reason why it failed; empty: it did not."""


class ProgramResult(Struct, frozen=True, kw_only=True):
    """The result of a call, as the program reads it: a value, or an error that is raised."""

    value: Any = None
    error: str = ""


ProgramStep = Waiting | Ended
