"""No probe gets out of the wall; the probes are real: some of them are seen to get out of a sandbox without one."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from security import probes_inside
from security.probes import probed
from tests.sandbox.machines import WALL_MISSING
from toolcaddie.sandbox.plain import Plain
from toolcaddie.sandbox.wall import Wall

pytestmark = pytest.mark.anyio

LONG = {"names", "memory", "memory_in_files", "forks", "disk", "depths", "log_flood"}
"""Probes that use up what there is; `make security` runs them."""
PAGE = Path(__file__).parents[2] / "docs" / "security.md"


@pytest.fixture
async def wall() -> AsyncIterator[Wall]:
    sandbox = Wall()
    yield sandbox
    await sandbox.close()


@pytest.mark.skipif(bool(WALL_MISSING), reason=WALL_MISSING)
@pytest.mark.parametrize("name", [name for name in probes_inside.PROBES if name not in LONG])
async def test_no_probe_gets_out_of_the_wall(wall: Wall, name: str) -> None:
    assert await probed(wall, name) == []


@pytest.mark.parametrize("name", sorted(probes_inside.HARMLESS))
async def test_a_probe_gets_out_of_a_sandbox_that_protects_nothing(name: str) -> None:
    assert await probed(Plain(), name) != []


def test_the_page_lists_every_probe_with_what_it_tries() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text().partition("## Probes of the wall")[2], re.MULTILINE)
    texts = {name: " ".join((inspect.getdoc(probe) or "").split()) for name, probe in probes_inside.PROBES.items()}
    assert dict(rows[: len(texts)]) == texts
