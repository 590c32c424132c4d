"""Probes of the wall: programs that try to get out of it. Nothing of them may reach the host.

Each of `probes_inside` runs in the wall as a command does. Whether it got out is seen by its exit status, and on the host: a file
that must not change, listeners that must hear nothing, a process that must live, the settings and mounts of the kernel, and
processes that must be dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import resource
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from security import probes_inside
from security.goals import Goal, none_of
from toolcaddie.core.errors import ConfigError
from toolcaddie.ports import Command, Outcome, Sandbox, SandboxLimits
from toolcaddie.ports.sandbox import FILES, MEGABYTE
from toolcaddie.sandbox.wall import Wall

_MARK = secrets.token_hex(8)
_ENVIRONMENT = {"PROBES_MARK": _MARK}
SECRET_VARIABLE = "PROBES_SECRET"
_SECONDS: Mapping[str, float] = {"daemons_at_the_end_of_time": 0.5, "forks": 3.0, "log_flood": 3.0, "names": 10.0}
"""The time of probes that go on until they are ended."""
_LIMITS = SandboxLimits(memory_bytes=256 * MEGABYTE, processes=32, disk_bytes=128 * MEGABYTE, file_bytes=32 * MEGABYTE)
_GROWTH = 64 * MEGABYTE
_DISK = 1024 * MEGABYTE
"""The largest accepted use of the disk: a look at it takes a moment, in which a fast disk takes much."""
_DEATH, _DEATH_QUICK = 0.1, 1.0
"""Seconds after a timeout in which everything must be dead; the longer time is for busy machines."""
_STARTS, _STARTS_QUICK = 200, 40
_START, _START_QUICK = 0.020, 0.100
_TRIES = 3
_OUTLIVING = {
    "a fork bomb": "while True:\n try: os.fork()\n except OSError: pass",
    "daemons": "for _ in range(8):\n if os.fork() == 0:\n  os.setsid(); os.fork()\n  while True: time.sleep(.01)\ntime.sleep(60)",
    "deaf processes": "for n in range(1, 32):\n try: signal.signal(n, signal.SIG_IGN)\n except (OSError, ValueError): pass\n"
    "for _ in range(4): os.fork()\nwhile True: time.sleep(.01)",
    "busy processes": "for _ in range(4): os.fork()\nwhile True: pass",
    "stopped processes": "for _ in range(3): os.fork()\nos.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(60)",
}
"""Programs that do not want to end."""
_ROUNDS, _ROUNDS_QUICK = 10, 2


def attacked(*, quick: bool) -> Sequence[Goal]:
    """Returns the goals of the wall."""
    try:
        return asyncio.run(_attacked(quick=quick))
    except ConfigError as error:
        return [Goal(name="a wall on this machine", figure=str(error), goal="one", met=False)]


async def _attacked(*, quick: bool) -> Sequence[Goal]:
    wall = Wall()
    try:
        return [await _probes(wall), await _deaths(wall, quick=quick), await _starts(wall, quick=quick)]
    finally:
        await wall.close()


# ---------------------------------------------------------------- probes


async def _probes(wall: Sandbox) -> Goal:
    """Runs every probe, and prints a line for each."""
    results = {name: await probed(wall, name) for name in probes_inside.PROBES}
    for name, traces in results.items():
        print(f"    {'OUT' if traces else 'held':<4} {name}{': ' if traces else ''}{'; '.join(traces)}")
    return none_of("probes that got out of the wall", sum(map(bool, results.values())), len(results))


async def probed(sandbox: Sandbox, name: str) -> Sequence[str]:
    """Runs a probe. Returns what of it was seen outside, in words; nothing: it did not get out."""
    with Host() as host:
        before = _memory()
        outcome = await sandbox.run(_command(name, host))
        await asyncio.sleep(0)
        return [*_confessed(outcome), *host.traces(), *_excess(outcome, _memory() - before)]


def _command(name: str, host: Host) -> Command:
    return Command(
        argv=("python3", f"{FILES}/probe.py", name, json.dumps(host.facts)),
        files={"probe.py": Path(probes_inside.__file__).read_bytes()},
        work=host.work,
        hidden=(".env", "secrets"),
        env=_ENVIRONMENT,
        seconds=_SECONDS.get(name, 20.0),
        limits=_LIMITS,
    )


def _confessed(outcome: Outcome) -> Iterator[str]:
    """Yields what the probe itself says, and a mistake in it: a probe that fails early proves nothing."""
    if outcome.exit_code == probes_inside.OUT:
        yield outcome.stdout.decode(errors="replace").strip()
    elif b"Traceback" in outcome.stderr and not outcome.stderr.rstrip().endswith(b"MemoryError"):
        yield f"the probe has a mistake: {outcome.stderr.decode(errors='replace').strip().splitlines()[-1]}"


def _excess(outcome: Outcome, growth: int) -> Iterator[str]:
    if growth > _GROWTH:
        yield f"this process grew by {growth / MEGABYTE:.0f} MiB"
    if len(outcome.stdout) > MEGABYTE:
        yield "more output was kept than may be"


class Host:
    """What a probe may try to reach, and what shows that it did."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="security-"))
        self._folder.chmod(0o755)
        self._secret = secrets.token_hex(16)
        self._target = self._folder / "target"
        self._target.write_bytes(secrets.token_bytes(64))
        self._target.chmod(0o666)
        self._hash = _hash(self._target)
        self._names = f"toolcaddie-probe-{secrets.token_hex(4)}"
        self.work = self._folder / "work"
        self.work.mkdir()
        (self.work / "secrets").mkdir()
        for path in (self._folder / "secret", self.work / ".env", self.work / "secrets" / "key"):
            path.write_text(self._secret)
            path.chmod(0o644)

    def __enter__(self) -> Self:
        os.environ[SECRET_VARIABLE] = self._secret
        self._inherited = os.open(self._folder / "secret", os.O_RDONLY)
        os.set_inheritable(self._inherited, True)
        self._victim = subprocess.Popen(["sleep", "600"])
        self._listeners = list(self._listening())
        self._kernel = _kernel()
        self._clock = time.time() - time.monotonic()
        self._processes = _processes()
        ports = [each.getsockname()[1] for each in self._listeners[:2]]
        self.facts: Mapping[str, Any] = {
            "secret_file": str(self._folder / "secret"),
            "secret": self._secret,
            "target": str(self._target),
            "tcp": ports[0],
            "udp": ports[1],
            "path_socket": str(self._folder / "socket"),
            "abstract_socket": self._names,
            "victim": self._victim.pid,
            "addresses": _addresses(),
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._victim.kill()
        self._victim.wait()
        for each in self._listeners:
            each.close()
        os.close(self._inherited)
        del os.environ[SECRET_VARIABLE]
        subprocess.run(
            ["rm", "-rf", "--", str(self._folder)], check=True
        )  # folders may be nested too deep for `shutil`

    def traces(self) -> Iterator[str]:
        """Yields what the probe changed on the host."""
        if _hash(self._target) != self._hash:
            yield "a file of the host was changed"
        if self._victim.poll() is not None:
            yield "a process of the host was ended"
        if any(map(_heard, self._listeners)):
            yield "a listener of the host was reached"
        if changed := [name for name, value in _kernel().items() if value != self._kernel.get(name)]:
            yield f"settings of the kernel were changed: {', '.join(changed)}"
        if abs(time.time() - time.monotonic() - self._clock) > 5:
            yield "the clock was changed"
        if alive := _processes() - self._processes:
            yield f"{len(alive)} processes outlived the command"
        yield from self._left()

    def _listening(self) -> Iterator[socket.socket]:
        """Yields sockets for TCP, for UDP, at a path, and with an abstract name."""
        for kind, family, address in (
            (socket.SOCK_STREAM, socket.AF_INET, ("0.0.0.0", 0)),
            (socket.SOCK_DGRAM, socket.AF_INET, ("0.0.0.0", 0)),
            (socket.SOCK_STREAM, socket.AF_UNIX, str(self._folder / "socket")),
            (socket.SOCK_STREAM, socket.AF_UNIX, f"\0{self._names}"),
        ):
            listener = socket.socket(family, kind)
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen()
            yield listener
        (self._folder / "socket").chmod(0o777)

    def _left(self) -> Iterator[str]:
        """Yields what is wrong with the files in the work folder."""
        used = 0
        for blocks, mode, kind, name in _entries(self.work):
            used += int(blocks) * 512
            if int(mode, 8) & 0o6000:
                yield f"{name} sets its user or group"
            if kind in "bc":
                yield f"{name} is a device"
        if used > _DISK:
            yield f"{used / MEGABYTE:.0f} MiB of the disk were used"


def _entries(folder: Path) -> Iterator[tuple[str, ...]]:
    """Yields blocks of 512 bytes, permissions, kind and name of everything in a folder, however deep it is nested."""
    command = ["find", str(folder), "-mindepth", "1", "-printf", r"%b %m %y %f\0"]
    listing = subprocess.run(command, check=True, capture_output=True).stdout.decode(errors="replace")
    return (tuple(entry.split(" ", 3)) for entry in listing.split("\0")[:-1])


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _heard(listener: socket.socket) -> bool:
    """Returns True if somebody connected to a listener or sent it something."""
    listener.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        listener.recv(1) if listener.type == socket.SOCK_DGRAM else listener.accept()[0].close()
        return True
    return False


def _kernel() -> Mapping[str, str]:
    """Returns settings of the kernel, the modules, the mounts and the machine's name."""
    paths = ["/proc/modules", "/proc/self/mounts", "/proc/swaps", "/proc/sys/kernel/hostname"]
    paths += [str(path) for folder in ("kernel", "vm", "fs") for path in Path("/proc/sys", folder).glob("*")]
    return {path: _content(path) for path in paths if not path.endswith(_MOVING)}


_MOVING = ("-nr", "-state", "pty/nr", "random", "ns_last_pid", "uuid", "stat_refresh", "nr_open", "entropy_avail")
"""Ends of the names of settings that change by themselves."""


def _content(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _processes() -> set[int]:
    """Returns the living processes behind walls of this process: those with another process namespace that are below this process
    or have its mark in their environment."""
    own, mine = os.readlink("/proc/self/ns/pid"), _below(os.getpid())
    others = [int(name) for name in os.listdir("/proc") if name.isdecimal() and not _is_dead(name)]
    return {
        pid
        for pid in others
        if _namespace(pid) not in ("", own) and (pid in mine or _MARK in _content(f"/proc/{pid}/environ"))
    }


def _is_dead(pid: str) -> bool:
    """Returns True for a process that has ended and waits to be collected."""
    return _content(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] in ([], ["Z"], ["X"])


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:  # it has ended, or is none of ours
        return ""


def _below(pid: int) -> set[int]:
    """Returns the processes below a process."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:  # it has ended
        return set()
    children = {child for thread in threads for child in _content(f"/proc/{pid}/task/{thread}/children").split()}
    return {int(child) for child in children}.union(*(_below(int(child)) for child in children))


def _addresses() -> list[str]:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        route.connect(("192.0.2.1", 9))
        return [route.getsockname()[0]]
    return []


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# ---------------------------------------------------------------- ends and starts


async def _deaths(wall: Sandbox, *, quick: bool) -> Goal:
    """Looks a moment after the timeout of programs that do not want to end whether something is alive."""
    rounds, seconds = (_ROUNDS_QUICK, _DEATH_QUICK) if quick else (_ROUNDS, _DEATH)
    alive = [(name, await _alive(wall, code, seconds)) for name, code in _OUTLIVING.items() for _ in range(rounds)]
    for name, count in alive:
        if count:
            print(f"    {name}: {count} processes were alive")
    name = f"commands of which something is alive {seconds * 1000:.0f} ms after their timeout"
    return none_of(name, sum(count > 0 for _, count in alive), len(alive))


async def _alive(wall: Sandbox, code: str, after: float) -> int:
    """Returns how many processes of a program are alive some seconds after its timeout."""
    before, seconds = _processes(), 0.5
    running = await wall.start(
        Command(
            argv=("python3", "-c", f"import os, signal, time\n{code}"),
            seconds=seconds,
            limits=_LIMITS,
            env=_ENVIRONMENT,
        )
    )
    await asyncio.sleep(seconds + after)
    alive = _processes() - before
    await running.wait()
    return len(alive)


async def _starts(wall: Sandbox, *, quick: bool) -> Goal:
    """Measures the time from the order to the end of `/bin/true`, up to `_TRIES` times until the goal is met, because a delay by
    the wall repeats and a delay by the machine does not."""
    most, p95 = _START_QUICK if quick else _START, 0.0
    for _ in range(_TRIES):
        p95 = await _start_p95(wall, _STARTS_QUICK if quick else _STARTS)
        if p95 <= most:
            break
    return Goal(
        name="start and end of a command in the wall, p95",
        figure=f"{p95 * 1000:.1f} ms",
        goal=f"at most {most * 1000:g} ms",
        met=p95 <= most,
    )


async def _start_p95(wall: Sandbox, count: int) -> float:
    seconds = []
    for _ in range(count):
        begun = time.perf_counter()
        await wall.run(Command(argv=("/bin/true",)))
        seconds.append(time.perf_counter() - begun)
    return statistics.quantiles(seconds, n=20)[-1]


def main(arguments: Sequence[str]) -> int:
    """Runs one probe or all, for a look at what each does: `python -m security.probes [NAME]`."""
    for name in arguments or probes_inside.PROBES:
        begun = time.monotonic()
        traces = asyncio.run(_alone(name))
        print(
            f"{'OUT' if traces else 'held':<4} {name} {time.monotonic() - begun:.1f} s {'; '.join(traces)}", flush=True
        )
    return 0


async def _alone(name: str) -> Sequence[str]:
    wall = Wall()
    try:
        return await probed(wall, name)
    finally:
        await wall.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
