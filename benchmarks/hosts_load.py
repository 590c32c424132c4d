"""Requests at once that use a host's systemd and Open vSwitch: python -m benchmarks.hosts_load [--requests 100] [--rounds 3]

Each request goes through a gateway on a real socket and changes something of its own: it restarts a unit, or adds a port to a
bridge and removes it. Every fourth unit fails. All requests share one connection to the back end, so an answer that reached the
wrong request would name a unit or a bridge of another one. Afterwards nothing may be left open. The exit code is 1 if a goal is
missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from benchmarks.hosts_gateway import Step, answers, execution, follower, hosting, or_reason
from tests.databases import database_url, rows
from tests.tools.host.ovs_rig import running_machine
from tests.tools.host.systemd_rig import real_systemd

_FAILING = 4
"""Every so many-th unit fails when it is started."""
_OWN_ROWS = ("conversation", "hidden")
"""Documents that each request leaves until they expire."""
_SETTLED_SECONDS = 10.0


class BackEnd(Struct, frozen=True, kw_only=True):
    """A running back end with a thing for each number. `connections` counts those that it has."""

    settings: Mapping[str, Any]
    steps: Callable[[int], Sequence[Step]]
    is_own: Callable[[int, str], bool]
    """Returns whether this is the answer to the request with this number."""
    connections: Callable[[], int]


class Open(Struct, frozen=True, kw_only=True):
    """Resources that are open."""

    files: int
    """Files and sockets of this process, without those of the database: their number depends on how many requests have used it at
    the same moment, and has a bound."""
    tasks: int
    connections: int


class Load(Struct, frozen=True, kw_only=True):
    """The outcome."""

    requests: int
    failures: int
    wrong: int
    """Answers with something of another request."""
    idle: Open
    """After the first round."""
    after: Open
    """After the last round."""
    begun: Open
    """Before the gateway was started."""
    ended: Open
    """After it was closed."""
    unfinished: int
    rows: int
    """Rows that are neither of the trail nor of conversations."""
    seconds: float

    @property
    def missed(self) -> list[str]:
        problems = {
            f"{self.failures} requests failed": self.failures,
            f"{self.wrong} answers had something of another request": self.wrong,
            f"left open after the last round: {self.idle} became {self.after}": not _within(self.after, self.idle),
            f"left open after the end: {self.begun} became {self.ended}": not _within(self.ended, self.begun),
            f"{self.unfinished} runs have no end": self.unfinished,
            f"{self.rows} rows were left": self.rows,
        }
        return [problem for problem, holds in problems.items() if holds]


def _within(after: Open, before: Open) -> bool:
    return after.files <= before.files and after.tasks <= before.tasks and after.connections <= before.connections


@contextmanager
def units(count: int) -> Iterator[BackEnd]:
    """Runs a real systemd with a unit for each number."""
    with real_systemd() as world:
        for number in range(count):
            fails = number % _FAILING == 0
            command = "/bin/sh -c 'exit 3'" if fails else "/bin/sleep 1000"
            world.service(f"unit-{number}.service", command, service="Type=oneshot" if fails else "")
        yield BackEnd(
            settings={
                "groups": ["systemd"],
                "systemd": {"units": ["unit-*.service"], "bus": world.address, "timeout": 60.0},
            },
            steps=lambda number: [
                execution(f"systemd_{verb}", {"unit": f"unit-{number}.service"})
                for verb in ("restart_unit", "unit_status")
            ],
            is_own=_is_own_unit,
            connections=lambda: len(world.names_on_the_bus()),
        )


def _is_own_unit(number: int, text: str) -> bool:
    state = '"failed"' if number % _FAILING == 0 else '"running"'
    return state in text and _numbers(r"unit-(\d+)", text) == {number}


def _numbers(pattern: str, text: str) -> set[int]:
    return set(map(int, re.findall(pattern, text)))


@contextmanager
def bridges(count: int) -> Iterator[BackEnd]:
    """Runs a real Open vSwitch with a bridge for each number."""
    with running_machine() as machine:
        machine.vsctl(*" -- ".join(f"add-br br{number}" for number in range(count)).split())
        yield BackEnd(
            settings={
                "groups": ["ovs"],
                "ovs": {"database": machine.database, "folder": str(machine.folder), "timeout": 60.0},
            },
            steps=lambda number: [
                execution("ovs_add_port", {"bridge": f"br{number}", "port": f"p{number}"}),
                execution("ovs_list_ports", {"bridge": f"br{number}"}),
                execution("ovs_del_port", {"bridge": f"br{number}", "port": f"p{number}"}),
            ],
            is_own=_is_own_bridge,
            connections=machine.sessions,
        )


def _is_own_bridge(number: int, text: str) -> bool:
    return _numbers(r"\bbr(\d+)\b", text) == {number} == _numbers(r"\bp(\d+)\b", text)


BACK_ENDS = {"D-Bus (systemd)": units, "OVSDB (Open vSwitch)": bridges}


def measured(back_end: Callable[[int], Any], *, requests: int, rounds: int) -> Load:
    """Sends this many requests at once, several times. Raises `pytest.skip.Exception` where the back end does not run."""
    with back_end(requests) as running, tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measured(running, Path(folder), requests, rounds))


async def _measured(running: BackEnd, folder: Path, requests: int, rounds: int) -> Load:
    texts: list[tuple[int, int, str]] = []
    began, begun = time.monotonic(), _open(running, folder)
    async with hosting(folder, follower(running.steps), running.settings) as served:
        idle = None
        for _ in range(rounds):
            numbers = range(requests)
            texts += [(number, *each) for number, each in zip(numbers, await answers(served, numbers), strict=True)]
            idle = idle or await _settled(running, folder, None)
        assert idle is not None
        after = await _settled(running, folder, idle)
    ended = await _settled(running, folder, begun)
    unfinished, left = _left_rows(database_url(folder / "gateway.sqlite"))
    return Load(
        requests=len(texts),
        failures=sum(status != 200 for _, status, _ in texts),
        wrong=sum(status == 200 and not running.is_own(number, text) for number, status, text in texts),
        idle=idle,
        after=after,
        begun=begun,
        ended=ended,
        unfinished=unfinished,
        rows=left,
        seconds=time.monotonic() - began,
    )


def _open(running: BackEnd, folder: Path) -> Open:
    gc.collect()
    files = [os.readlink(file) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    return Open(
        files=sum(not file.startswith(f"{folder}/") for file in files),
        tasks=len(asyncio.all_tasks()),
        connections=running.connections(),
    )


async def _settled(running: BackEnd, folder: Path, before: Open | None) -> Open:
    """Returns what is open as soon as it is no more than before, or after some seconds."""
    end = time.monotonic() + _SETTLED_SECONDS
    while True:
        await asyncio.sleep(0.05)
        now = _open(running, folder)
        if before is None or _within(now, before) or time.monotonic() > end:
            return now


def _left_rows(url: str) -> tuple[int, int]:
    """Returns the runs without an end, and the rows that no request should leave."""
    kinds = rows(url, "SELECT kind, count(*) FROM documents GROUP BY kind")
    ((entries,),) = rows(url, "SELECT count(*) FROM log_entries")
    ((unfinished,),) = rows(url, "SELECT count(*) FROM runs WHERE status != 'completed'")
    return unfinished, entries + sum(count for kind, count in kinds if kind not in _OWN_ROWS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    missed = False
    for name, back_end in BACK_ENDS.items():
        load = or_reason(lambda back_end=back_end: measured(back_end, requests=options.requests, rounds=options.rounds))
        if isinstance(load, str):
            print(f"{name}: skipped: {load}")
            continue
        print(f"{name}: {options.requests} requests at once, {options.rounds} times, {load.seconds:.1f} s")
        print(f"  failed {load.failures}, with something of another request {load.wrong} (goal: 0 and 0)")
        for words, before, later in (("later rounds", load.idle, load.after), ("gateway", load.begun, load.ended)):
            print(
                f"  before and after the {words}: files and sockets {before.files} and {later.files}, tasks {before.tasks} and "
                f"{later.tasks}, connections of the back end {before.connections} and {later.connections} (goal: no more)"
            )
        print(f"  runs without an end {load.unfinished}, other rows left {load.rows} (goal: 0 and 0)")
        print("".join(f"  missed: {problem}\n" for problem in load.missed), end="")
        missed |= bool(load.missed)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
