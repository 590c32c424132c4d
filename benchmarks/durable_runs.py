"""Durable runs of bots whose processes are killed at random moments: python -m benchmarks.durable_runs [--runs N] [--seed N]

Each run makes ten calls of a tool that must not be repeated. A process works on 20 runs at once and is killed with SIGKILL at a
random moment; another one finishes them. A server on a real socket counts the calls. The exit code is 1 if a run does not finish,
or a call was made twice.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.durable_worker import CALLS
from toolcaddie.testing import Reply, ScriptedUpstream, call, say

_AT_ONCE = 20
_LATEST_KILL = 1.0
"""The largest number of seconds after the first call at which a process is killed."""
_TIMEOUT = 300
_ROOT = Path(__file__).parents[1]


def script(body: Mapping[str, Any]) -> Reply:
    """Calls the tool ten times, and then answers."""
    done = sum(message["role"] == "tool" for message in body["messages"])
    return call("mark", {"number": done + 1}, call_id=f"call_{done + 1}") if done < CALLS else say("Done.")


class Marks:
    """A server on a real socket that counts marks. At the mark `stop_at` it waits until `released` is set; None: at none."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.marks: list[tuple[str, int]] = []
        self.reached, self.released, self.first = threading.Event(), threading.Event(), threading.Event()
        marks = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                marks.marks.append((body["run"], body["number"]))
                marks.first.set()
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
def marks_server(stop_at: int | None = None) -> Iterator[Marks]:
    """Yields a running server."""
    marks = Marks(stop_at)
    threading.Thread(target=marks.server.serve_forever, daemon=True).start()
    try:
        yield marks
    finally:
        marks.released.set()
        marks.server.shutdown()
        marks.server.server_close()


def worker(database_url: str, model_url: str, marks_url: str, ids: Sequence[str]) -> list[str]:
    """Returns the command of a process that works."""
    return [sys.executable, "-m", "benchmarks.durable_worker", database_url, model_url, marks_url, *ids]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance, began, finished, early = random.Random(options.seed), time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as folder, ScriptedUpstream(script) as model, marks_server() as marks:
        for start in range(0, options.runs, _AT_ONCE):
            ids = [f"work_{number}" for number in range(start, min(start + _AT_ONCE, options.runs))]
            command = worker(f"sqlite:///{folder}/wave{start}.sqlite", model.base_url, marks.url, ids)
            marks.first.clear()
            first = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True)
            marks.first.wait(_TIMEOUT)
            time.sleep(chance.uniform(0, _LATEST_KILL))
            first.kill()
            done, _ = first.communicate()
            early += done.count(" completed ")
            second = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
            finished += sum(f"{work_id} completed Done." in second.stdout for work_id in ids)
            print(f"{start + len(ids)} of {options.runs} runs", file=sys.stderr, flush=True)
    made = Counter(marks.marks)
    doubled = sum(count - 1 for count in made.values())
    unknown = options.runs * CALLS - len(made)
    print(f"runs that finished: {finished} of {options.runs}, {early} of them before the kill")
    print(f"calls that were made twice: {doubled} of {options.runs * CALLS:,}")
    print(f"calls that were not made, because the kill came between their intent and the request: {unknown}")
    print(f"{time.monotonic() - began:.0f} s")
    return 0 if finished == options.runs and not doubled else 1


if __name__ == "__main__":
    sys.exit(main())
