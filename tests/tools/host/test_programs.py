"""Programs of the system that the host's plugins run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.programs import run

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the programs are those of Linux")]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return True
    return False


async def test_the_error_of_a_program_is_told_in_one_bounded_line() -> None:
    with pytest.raises(HostError, match=r"ls failed with exit code 2: .*cannot access '/none'") as failed:
        await run("ls", "--", "/none", *(f"/none/{number}" for number in range(1_000)))
    assert len(str(failed.value)) < 600
    assert "\n" not in str(failed.value)


async def test_a_missing_program_is_named() -> None:
    with pytest.raises(HostError, match="the program nosuchprogram is not installed"):
        await run("nosuchprogram")


async def test_a_program_that_hangs_is_killed_at_its_deadline() -> None:
    with pytest.raises(HostError, match=r"did not end within 0\.2 seconds and was killed"):
        await run("sleep", "600", seconds=0.2)


async def test_a_program_dies_with_the_call_that_is_cancelled(tmp_path: Path) -> None:
    fifo = tmp_path / "pid"
    os.mkfifo(fifo)
    call = asyncio.create_task(run("sh", "-c", f"echo $$ > {fifo}; exec sleep 600"))
    pid = int(await asyncio.to_thread(fifo.read_text))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert is_gone(pid)


async def test_a_program_sees_nothing_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCADDIE_SECRET", "s3cret")
    await run("sh", "-c", f"env > {tmp_path}/env")
    assert "s3cret" not in (tmp_path / "env").read_text()
