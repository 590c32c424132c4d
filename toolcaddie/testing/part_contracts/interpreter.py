"""Checks of an interpreter, which runs programs of a model. The programs of the checks are Python.

Part of the contract suite `INTERPRETER` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolcaddie.core.programs import Ended, Program, ProgramCall, ProgramLimits, ProgramResult, Waiting
from toolcaddie.ports import Interpreter
from toolcaddie.testing.contract import Checks, expect, expect_equal
from toolcaddie.testing.part_contracts.subject import Subject

CHECKS: Checks[Subject[Interpreter]] = Checks()

_TOGETHER = "import asyncio\nprint(await asyncio.gather(add(a=1, b=2), add(a=3, b=4)))"
_CHANCE = "import random, datetime\nprint(random.random(), datetime.datetime.now(), list({'b', 'a', 'c'}))"


async def _played(
    subject: Subject[Interpreter], code: str, answer: Callable[[ProgramCall], ProgramResult], **options: Any
) -> tuple[list[ProgramCall], Ended]:
    """Runs a program, and returns its calls and its end."""
    interpreter, calls = subject.make(), list[ProgramCall]()
    try:
        program = Program(**{"code": code, "stubs": "", "now": 1_000_000.0, "seed": 7, **options})
        async with interpreter.session(program) as session:
            step = await session.start()
            while isinstance(step, Waiting):
                calls += step.calls
                step = await session.go_on({call.number: answer(call) for call in step.calls})
            return calls, step
    finally:
        await interpreter.close()


def _sum(call: ProgramCall) -> ProgramResult:
    return ProgramResult(value=sum(call.arguments.values()))


def _refusal(call: ProgramCall) -> ProgramResult:
    return ProgramResult(error=f"{call.function} is refused")


@CHECKS.add()
async def calls_that_are_gathered_wait_together(subject: Subject[Interpreter]) -> None:
    calls, end = await _played(subject, _TOGETHER, _sum)
    expect_equal([call.number for call in calls], [0, 1], "the numbers of the calls")
    expect_equal([dict(call.arguments) for call in calls], [{"a": 1, "b": 2}, {"a": 3, "b": 4}], "their arguments")
    expect_equal((end.error, end.output.strip()), ("", "[3, 7]"), "the error and the output")


@CHECKS.add()
async def an_error_of_a_call_is_raised_in_the_program(subject: Subject[Interpreter]) -> None:
    caught = "try:\n    await add(a=1)\nexcept RuntimeError as error:\n    print('caught', error)"
    _, end = await _played(subject, caught, _refusal)
    expect_equal((end.error, end.output.strip()), ("", "caught add is refused"), "the error and the output")


@CHECKS.add()
async def an_error_of_the_program_is_its_end(subject: Subject[Interpreter]) -> None:
    _, end = await _played(subject, "print('first')\n1 / 0", _sum)
    expect(bool(end.error), "a program that divides by zero has no error")
    expect_equal(end.output.strip(), "first", "the output before the error")


@CHECKS.add()
async def the_same_program_takes_the_same_way(subject: Subject[Interpreter]) -> None:
    (_, first), (_, second) = await _played(subject, _CHANCE, _sum), await _played(subject, _CHANCE, _sum)
    expect_equal(first.error, "", "the error")
    expect_equal(second.output, first.output, "the output of an equal program")


@CHECKS.add()
async def a_program_cannot_read_files(subject: Subject[Interpreter]) -> None:
    _, end = await _played(subject, "print(open('/etc/hostname').read())", _sum)
    expect(bool(end.error), "a program read a file of the host")


@CHECKS.add()
async def an_endless_program_is_stopped(subject: Subject[Interpreter]) -> None:
    _, end = await _played(subject, "while True:\n    pass", _sum, limits=ProgramLimits(seconds=0.05))
    expect(bool(end.error), "an endless program ended without an error")
