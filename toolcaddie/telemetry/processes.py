"""The processor time and the memory of all processes of a server, as Prometheus metrics. Linux only: elsewhere there are none."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

_PROC = Path("/proc")


def this_process() -> Collection[int]:
    return (os.getpid(),)


def workers_of(folder: str) -> Collection[int]:
    """Returns the ids of the workers that are alive: the processes of this process's parent that count in files of `folder`."""
    names = {path.stem.rpartition("_")[2] for path in Path(folder).glob("counter_*.db")}
    return [int(name) for name in names if name.isdecimal() and _parent(int(name)) == os.getppid()]


class ProcessMetrics(Collector):
    """Reads the numbers when they are asked for. `processes` returns the ids of the processes whose numbers are added up."""

    def __init__(self, processes: Callable[[], Collection[int]] = this_process) -> None:
        self._processes = processes

    def collect(self) -> Iterator[Metric]:
        if not (_PROC / "self" / "stat").exists():
            return
        numbers = [each for each in map(_numbers, self._processes()) if each is not None]
        yield CounterMetricFamily(
            "toolcaddie_cpu_seconds", "Processor time of all processes of this server.", sum(cpu for cpu, _ in numbers)
        )
        yield GaugeMetricFamily(
            "toolcaddie_memory_bytes", "Memory of all processes of this server.", sum(memory for _, memory in numbers)
        )
        yield GaugeMetricFamily("toolcaddie_processes", "Processes of this server that answer requests.", len(numbers))


def _numbers(process: int) -> tuple[float, int] | None:
    """Returns the processor seconds and the bytes of memory of a process; None: it has ended."""
    with suppress(OSError):
        fields = _fields(process)
        ticks, pages = int(fields[11]) + int(fields[12]), int(fields[21])
        return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")
    return None


def _parent(process: int) -> int | None:
    with suppress(OSError):
        return int(_fields(process)[1])
    return None


def _fields(process: int) -> list[str]:
    """Returns the fields of `/proc/ID/stat` that follow the name, which may hold any character."""
    return (_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
