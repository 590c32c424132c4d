"""The wall and the plain sandbox keep the contract of a sandbox."""

from __future__ import annotations

import pytest

from tests.sandbox.machines import WALL_MISSING
from toolcaddie.ports import Sandbox
from toolcaddie.sandbox.plain import Plain
from toolcaddie.sandbox.wall import Wall
from toolcaddie.testing.part_contracts import SANDBOX, Check, Subject

pytestmark = pytest.mark.anyio

needs_wall = pytest.mark.skipif(bool(WALL_MISSING), reason=WALL_MISSING)


@pytest.mark.parametrize("check", SANDBOX, ids=str)
@pytest.mark.parametrize(
    "subject",
    [Subject(name="plain", make=Plain), pytest.param(Subject(name="wall", make=Wall), marks=needs_wall)],
    ids=str,
)
async def test_a_sandbox_keeps_the_contract(subject: Subject[Sandbox], check: Check[Subject[Sandbox]]) -> None:
    await check(subject)
