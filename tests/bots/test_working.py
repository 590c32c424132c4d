"""Durable work: a killed process loses nothing, and no call that must not be repeated is made twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.durable_runs import marks_server, script, worker
from benchmarks.durable_worker import CALLS
from tests.databases import database_url
from toolcaddie.testing import ScriptedUpstream

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
@pytest.mark.parametrize("stop_at", [1, 10])
def test_work_of_a_killed_process_is_finished_by_another_one_without_a_doubled_call(
    tmp_path: Path, stop_at: int
) -> None:
    with ScriptedUpstream(script) as model, marks_server(stop_at) as marks:
        command = worker(database_url(tmp_path / "db.sqlite"), model.base_url, marks.url, ["work_1"])
        first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert marks.reached.wait(60)
        first.kill()
        first.wait()
        marks.released.set()
        second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert second.stdout.splitlines()[-1] == "work_1 completed Done."
    assert [number for _, number in marks.marks] == list(range(1, CALLS + 1))
    assert {run for run, _ in marks.marks} == {"work_1"}
