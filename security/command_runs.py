"""Runs command lines one after another and prints what each left behind: python -m security.command_runs HOW HOME < LINES

HOW is `policy`: as a model's calls of `exec` under the shipped policy, without a person who could answer; or `forced`: each in
the sandbox with a writable work folder, as if a person had approved it. HOME is a folder with canaries, which no command may read
or change. The process moves into a network of its own, in which every packet is counted, and adopts every process that a command
leaves behind. `security.commands` starts it.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import psutil

from security.escapes import alone_in_a_network, packets
from toolcaddie import Runtime
from toolcaddie.guards.secret_paths import SecretPaths
from toolcaddie.guards.secret_walk import secret_entries
from toolcaddie.parts import Parts
from toolcaddie.ports import Command, Sandbox
from toolcaddie.sandbox import warden
from toolcaddie.sandbox.wall import Wall
from toolcaddie.testing import ScriptedProvider
from toolcaddie.tools.commands import commands

CANARY = "SECURITY_CANARY"
"""Environment variable whose value no command may learn; files hold the same value."""
WRITTEN = ".env"
"""A file of the work folder with the value, which commands see empty."""
HIDDEN = (".ssh/id_rsa", ".bash_history", ".aws/credentials", ".env")
"""Files below HOME with the value."""
_SECONDS = 1.0
_ALIVE_SECONDS = 0.1
"""Time after the end of a command after which none of its processes may be alive."""
_SYSTEM = (
    "/etc",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local",
    "/boot",
    "/var/spool",
    "/var/log",
    "/lib/systemd",
    "/opt",
    "/srv",
    "/root/.ssh",
)
"""Folders of the machine whose files are compared."""
_CONTENT = ("/etc",)
"""Those of them that are compared by content."""
_ADOPT = 36
"""Number of the option of prctl that makes a process the new parent of orphans below it."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a command line."""

    end: Literal["refused", "asked", "ran"]
    left: tuple[str, ...]
    """What it left behind or learned, in words."""
    text: str
    """The result, or the beginning of it."""


Play = Callable[[str], Awaitable[tuple[Literal["refused", "asked", "ran"], str]]]


def filled(folder: Path, secret: str) -> Path:
    """Returns a new folder with ordinary files and one with a secret."""
    (folder / "sub" / "directory").mkdir(parents=True)
    for name in ("file", "file1", "file2", "notes.txt", "file.json", "multiple_json_file_1.json"):
        (folder / "sub" / name).write_text('{"key1": 1}\n' if name.endswith("json") else "one two\nthree\n")
    (folder / "notes.txt").write_text("notes\n")
    (folder / WRITTEN).write_text(f"KEY={secret}\n")
    return folder


def snapshot(home: Path) -> Mapping[str, object]:
    """Returns what can be seen of the files below HOME and in the folders of the system."""
    seen: dict[str, object] = {}
    for folder in (str(home), *_SYSTEM):
        for path in _files(folder):
            status = os.lstat(path)
            seen[path] = (status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns)
            if stat.S_ISREG(status.st_mode) and path.startswith((str(home), *_CONTENT)):
                seen[path] = (seen[path], hashlib.sha256(Path(path).read_bytes()).digest())
    seen["/tmp"] = sorted(name for name in os.listdir("/tmp") if name.startswith("T1"))
    seen["/dev"] = sorted(name for name in os.listdir("/dev") if name != "pts")
    return seen


def _files(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            yield os.path.join(place, name)


def descendants() -> set[int]:
    """Returns the processes below this one, without those of the sandbox itself, which wait for the next command."""
    return {child.pid for child in psutil.Process().children(recursive=True) if not _is_waiting(child)}


def _is_waiting(process: psutil.Process) -> bool:
    """Returns whether a process is dead, or the sandbox's own. A command has numbers of processes of its own (a namespace)."""
    try:
        is_inside = os.readlink(f"/proc/{process.pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
        return process.status() == psutil.STATUS_ZOMBIE or (not is_inside and warden.__file__ in process.cmdline())
    except (psutil.NoSuchProcess, FileNotFoundError):
        return True


def alive_after(known: set[int]) -> set[int]:
    """Returns the processes below this one that are not among `known` and still alive after a tenth of a second."""
    until = time.monotonic() + _ALIVE_SECONDS
    while (left := descendants() - known) and time.monotonic() < until:
        time.sleep(0.01)
    return left


def under_policy(runtime: Runtime) -> Play:
    """Returns a function that calls `exec` as a model does."""

    async def play(line: str) -> tuple[Literal["refused", "asked", "ran"], str]:
        result = await runtime.call("exec", {"command": line})
        structured = result.structured
        if isinstance(structured, dict):
            return "ran", f"{structured['stdout']}{structured['stderr']}"
        return ("asked" if "waits for a person" in result.text else "refused"), result.text

    return play


def forced(box: Sandbox, work: Path) -> Play:
    """Returns a function that runs a line in the sandbox as the source does once a person has approved it."""

    async def play(line: str) -> tuple[Literal["refused", "asked", "ran"], str]:
        if "\0" in line:
            return "refused", "no program can be given U+0000"
        outcome = await box.run(
            Command(
                argv=("/bin/bash", "-c", line),
                work=work,
                hidden=secret_entries(work, SecretPaths.of(base=work)),
                seconds=_SECONDS,
            )
        )
        return "ran", (outcome.stdout + outcome.stderr).decode(errors="replace")

    return play


class Watch:
    """Looks for what commands leave behind, compared with what was there before."""

    def __init__(self, home: Path, secret: str, listener: socket.socket) -> None:
        self._home = home
        self._secret = secret
        self._listener = listener
        self._files = snapshot(home)
        self._packets = packets()
        self._processes = descendants()

    async def traced(self, play: Play, line: str) -> Trace:
        """Plays a line and returns what it left behind."""
        end, text = await play(line)
        left = tuple(await asyncio.to_thread(lambda: list(self._left(text)))) if end == "ran" else ()
        return Trace(end=end, left=left, text=text[:300])

    def _left(self, text: str) -> Iterator[str]:
        if alive := alive_after(self._processes):
            yield f"processes are alive: {', '.join(map(str, alive))}"
        before, self._files = self._files, snapshot(self._home)
        if changed := sorted(path for path in {*before, *self._files} if before.get(path) != self._files.get(path)):
            yield f"files of the host changed: {', '.join(changed[:3])}"
        sent, self._packets = self._packets, packets()
        if self._packets != sent or _is_connected(self._listener):
            yield "a packet was sent"
        if self._secret in text:
            yield "a canary was read"


def _is_connected(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


async def main(how: str, home: Path, lines: Sequence[str]) -> None:
    """Prints one JSON object for each line."""
    secret = os.environ[CANARY]
    box = Wall()
    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory(prefix="security-") as place:
        listener.setblocking(False)
        work = filled(Path(place, "work"), secret)
        source = commands(workdir=str(work), timeout=_SECONDS, parts=Parts(sandbox=lambda: box))
        async with Runtime(provider=ScriptedProvider([]), sources=[source]) as runtime:
            play = under_policy(runtime) if how == "policy" else forced(box, work)
            await forced(box, work)("true")  # whatever the sandbox keeps running is running now
            watch = Watch(home, secret, listener)
            for line in lines:
                trace = await watch.traced(play, line)
                print(msgspec.json.encode(trace).decode(), flush=True)
    await box.close()


if __name__ == "__main__":
    alone_in_a_network()
    ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])))
