"""`[storage] durable = "answer"`: what was answered is on record, even if the server is killed in the same moment."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_cli_serve import _serving


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
@pytest.mark.parametrize("stream", [False, True])
def test_with_durable_answers_a_server_killed_behind_an_answer_has_it_on_record(tmp_path: Path, stream: bool) -> None:
    with (
        _serving(tmp_path, "--catalog", "gym", TOOLCADDIE_STORAGE_DURABLE="answer") as server,
        server.client() as client,
    ):
        answer = client.chat.completions.create(
            model="practice", messages=[{"role": "user", "content": "hello"}], stream=stream
        )
        if stream:
            assert list(answer)[-1].choices[0].finish_reason == "stop"
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(20)
    with contextlib.closing(sqlite3.connect(tmp_path / "toolcaddie-data" / "toolcaddie.sqlite")) as other:
        kinds = [kind for (kind,) in other.execute("select kind from events order by id")]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
