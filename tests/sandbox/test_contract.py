"""The wall and the plain sandbox keep the contract of a sandbox."""

from __future__ import annotations

import pytest

from tests.walls import needs_the_wall
from toolcaddie.ports import Command, Sandbox
from toolcaddie.sandbox.plain import Plain
from toolcaddie.sandbox.wall import Wall
from toolcaddie.testing.part_contracts import SANDBOX, Check, Subject

pytestmark = pytest.mark.anyio


shipped = pytest.mark.parametrize(
    "subject",
    [Subject(name="plain", make=Plain), pytest.param(Subject(name="wall", make=Wall), marks=needs_the_wall)],
    ids=str,
)


@pytest.mark.parametrize("check", SANDBOX, ids=str)
@shipped
async def test_a_sandbox_keeps_the_contract(subject: Subject[Sandbox], check: Check[Subject[Sandbox]]) -> None:
    await check(subject)


@shipped
async def test_programs_of_administrators_are_commands_too(subject: Subject[Sandbox]) -> None:
    sandbox = subject.make()
    outcome = await sandbox.run(Command(argv=("sh", "-c", "command -v nologin")))
    await sandbox.close()
    assert outcome.stdout == b"/usr/sbin/nologin\n"
