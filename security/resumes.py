"""Kills processes while they resume runs. Two processes work on one database; one of them is killed, and another takes its
place."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from security.counted import Count, none_of, tried
from security.goals import Goal
from security.model import answer_in_process, request_text
from security.recorded import Book, doubled, few_unknown, of_all_runs, open_calls, stuck
from security.resumer import LEASE, TOGETHER, AsksOnce, finished, runtime_over
from security.tools import EFFECTS
from toolcaddie.storage.database import Database

_AT_ONCE = 12
"""Number of runs that wait for the two processes."""
_ENTRIES = 3
_GIVEN_UP = 180.0


def killed(times: int) -> Sequence[Count | Goal]:
    """Kills a process `times` times and returns the counts."""
    with tempfile.TemporaryDirectory(prefix="security-") as folder:
        return _Siege(Path(folder)).run(times)


class _Siege:
    def __init__(self, folder: Path) -> None:
        self.book = Book(database=folder / "resumed.sqlite", effects=folder / "effects")
        self.book.effects.touch()
        self.log = folder / "resumers.log"
        self.url = f"sqlite:///{self.book.database}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def run(self, times: int) -> Sequence[Count | Goal]:
        try:
            for _ in range(times):
                while len(self.processes) < 2:
                    self.processes.append(self.start())
                asyncio.run(self.kill_one_meanwhile())
            left = self.finish()
        finally:
            for process in self.processes:
                self.kill(process)
        return self.counts(times, left)

    async def kill_one_meanwhile(self) -> None:
        """Kills one of the two processes while there is work for both."""
        killing = asyncio.create_task(asyncio.sleep(random.uniform(0.1, 1.2)))
        killing.add_done_callback(lambda _: self.kill(self.processes.pop(random.randrange(2))))
        await self.pause_some()
        await killing

    async def pause_some(self) -> None:
        """Starts runs that pause for an approval, until `_AT_ONCE` runs wait. The two processes resume them at once."""
        async with Database(self.url, lease=LEASE) as database:
            waiting = self.book.number("select count(*) from runs where status in ('pending', 'running')")
            runtime = runtime_over(database, answer_in_process, policy=AsksOnce())
            for _ in range(_AT_ONCE - waiting):
                paused = await runtime.run(request_text(uuid.uuid4().hex, _ENTRIES))
                assert paused.status == "pending", paused

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "security.resumer", self.url]
        environment = {**os.environ, EFFECTS: str(self.book.effects)}
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise RuntimeError(f"a process did not start: {self.log.read_text()[-2000:]}")
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.communicate()

    def finish(self) -> Sequence[str]:
        """Lets the remaining runs be resumed without another kill. Returns the runs that could not be completed."""
        self.processes.append(self.start())
        until = time.monotonic() + _GIVEN_UP
        while (left := finished(self.book)) and time.monotonic() < until:
            time.sleep(0.2)
        return left

    def counts(self, times: int, left: Sequence[str]) -> Sequence[Count | Goal]:
        statuses = self.book.rows("select status, count(*) from runs group by status order by status")
        return [
            tried("processes killed in the middle of resumes", times),
            *(tried(f"runs {status}", int(str(number))) for status, number in statuses),
            tried("resumed", self.book.number("select count(*) from events where kind = 'run_resumed'")),
            few_unknown(self.book, times * TOGETHER),
            tried("effects", len(self.book.entries())),
            none_of("runs that could not be resumed to their end", left),
            none_of("pending and cannot be resumed", stuck(self.book)),
            none_of("calls neither done, failed nor unknown", open_calls(self.book)),
            *of_all_runs(self.book, [], what="after the last process"),
            none_of("doubled effects", doubled(self.book)),
        ]
