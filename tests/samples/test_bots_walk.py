"""The sample bots as somebody runs them: real servers, restarted in between, Telegram and the model on real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bots_walk import walked

pytestmark = pytest.mark.anyio


async def test_the_assistant_remembers_keeps_an_appointment_and_asks_the_therapist_who_cannot_run_commands(
    tmp_path: Path,
) -> None:
    assert await walked(tmp_path, wait=12) == []
