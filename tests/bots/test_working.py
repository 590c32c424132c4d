"""Durable work: a killed process loses nothing, and no call that must not be repeated is made twice."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.durable_worker import CALLS
from toolcaddie.testing import Reply, ScriptedUpstream, call, say

ROOT = Path(__file__).parents[2]


def script(body: Mapping[str, Any]) -> Reply:
    """Calls `mark` ten times, and then answers."""
    done = sum(message["role"] == "tool" for message in body["messages"])
    return call("mark", {"number": done + 1}, call_id=f"call_{done + 1}") if done < CALLS else say("Done.")


class Marks:
    """A server on a real socket that counts marks, and stops at one of them until it is released."""

    def __init__(self, stop_at: int) -> None:
        self.marks: list[tuple[str, int]] = []
        self.reached, self.released = threading.Event(), threading.Event()
        marks = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                marks.marks.append((body["run"], body["number"]))
                if body["number"] == stop_at and not marks.released.is_set():
                    marks.reached.set()
                    marks.released.wait(60)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"marked")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"


@contextmanager
def marks_server(stop_at: int) -> Iterator[Marks]:
    marks = Marks(stop_at)
    threading.Thread(target=marks.server.serve_forever, daemon=True).start()
    try:
        yield marks
    finally:
        marks.released.set()
        marks.server.shutdown()
        marks.server.server_close()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
@pytest.mark.parametrize("stop_at", [1, 6, 10])
def test_work_of_a_killed_process_is_finished_by_another_one_without_a_doubled_call(
    tmp_path: Path, stop_at: int
) -> None:
    with ScriptedUpstream(script) as model, marks_server(stop_at) as marks:
        command = [sys.executable, "-m", "benchmarks.durable_worker", f"sqlite:///{tmp_path}/db.sqlite", model.base_url]
        command += [marks.url, "work_1"]
        first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert marks.reached.wait(60)
        first.kill()
        first.wait()
        marks.released.set()
        second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert second.stdout.splitlines()[-1] == "work_1 completed Done."
    assert [number for _, number in marks.marks] == list(range(1, CALLS + 1))
    assert {run for run, _ in marks.marks} == {"work_1"}
