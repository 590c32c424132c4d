"""A few dangerous commands in the real sandbox, as `python -m security commands` plays many."""

from __future__ import annotations

import pytest

from security.commands import OWN_DANGEROUS, OWN_SAFE, played
from tests.tools.command_rig import sandbox_of

pytestmark = pytest.mark.anyio

LONG = ("sleep", "while", ":|:", "dd ", "10**8", "seq ", "curl")
SHORT = [line for line in OWN_DANGEROUS if not any(word in line for word in LONG)][::2]
"""Some of those that end by themselves at once."""


async def test_dangerous_commands_leave_nothing_behind_even_if_a_person_approves_them() -> None:
    await sandbox_of("wall").close()
    traces = played("forced", SHORT)
    assert len(traces) == len(SHORT) > 7
    assert [(line, trace.left) for line, trace in zip(SHORT, traces, strict=True) if trace.left] == []
    assert {trace.end for trace in traces} == {"ran"}


async def test_dangerous_commands_are_refused_asked_about_or_contained_and_harmless_ones_run() -> None:
    await sandbox_of("wall").close()
    lines = [*OWN_DANGEROUS, *OWN_SAFE[:5]]
    traces = played("policy", lines)
    assert [(line, trace.left) for line, trace in zip(lines, traces, strict=True) if trace.left] == []
    ends = [trace.end for trace in traces]
    assert ends.count("asked") > 15
    assert set(ends[len(OWN_DANGEROUS) :]) == {"ran"}
