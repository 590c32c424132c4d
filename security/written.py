"""Runs sources that bots could have written in the sandbox, one after another, and prints what each left behind:
python -m security.written FILE < LINES

FILE is a canary: a file whose content no tool may learn. The process moves into a network of its own, in which every packet is
counted, and inherits the processes whose parents die. `security.authored` starts it.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import ctypes
import hashlib
import itertools
import os
import re
import sys
import time
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec
import psutil

from security.escapes import CANARY, alone_in_a_network, packets
from toolcaddie.core.tool import ToolResult
from toolcaddie.ports import Sandbox
from toolcaddie.sandbox import warden
from toolcaddie.sandbox.wall import Wall
from toolcaddie.tools.authored import running
from toolcaddie.tools.authored.values import AuthoredLimits, Definition

_LIMITS = AuthoredLimits(seconds=3.0)
_INHERIT_ORPHANS = 36
"""Number of prctl on Linux."""
_SETTLE = 0.1
"""Seconds after which no process of a tool may be alive."""
_PLACES = re.compile(r"/(?:tmp|var/tmp|dev/shm)/[\w.-]+")
_HOST_FILES = ("/etc", "/usr/local", "/var/spool", "/boot", "/srv", "/opt")
_MOST_FILES = 2_000
"""Number of files watched in each of these folders."""


def as_tool(source: str) -> Definition:
    """Returns a tool that runs a source when it is loaded, and returns the value of its last expression."""
    return Definition(
        name="written",
        description="A tool of the attack.",
        type="python",
        source=f"{_with_value(source)}\n\ndef run():\n    return repr(globals().get('_value'))\n",
        parameters={"type": "object", "properties": {}},
    )


def _with_value(source: str) -> str:
    """Returns the source with the value of its last expression under a name; as it is, if it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        last = tree.body[-1] if tree.body else None
        if not isinstance(last, ast.Expr):
            return source
        tree.body[-1] = ast.Assign(targets=[ast.Name(id="_value", ctx=ast.Store())], value=last.value)
        return ast.unparse(ast.fix_missing_locations(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source


def digest_of(folder: Path) -> str:
    """Returns a digest of the names and contents of all files below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path}\0{path.lstat().st_mode}\0".encode())
        if path.is_file() and not path.is_symlink():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def host_state() -> dict[str, tuple[int, int, int]]:
    """Returns size, mode and time of change of files that a tool with the host's permissions could change."""
    paths = itertools.chain.from_iterable(
        itertools.islice(Path(place).rglob("*"), _MOST_FILES) for place in _HOST_FILES
    )
    state: dict[str, tuple[int, int, int]] = {}
    for path in paths:
        try:
            status = path.lstat()
        except OSError:
            continue
        state[str(path)] = (status.st_size, status.st_mode, status.st_mtime_ns)
    return state


def _is_dead(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _waits(pid: int) -> bool:
    """Returns whether a process is the sandbox's own, which waits for the next command: it is not behind the wall yet."""
    try:
        is_outside = os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
        return is_outside and warden.__file__ in psutil.Process(pid).cmdline()
    except (OSError, psutil.Error):
        return False


def _name_of(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())[:80]
    except psutil.Error:
        return str(pid)


def places_of(text: str) -> set[str]:
    """Returns the files that a text names in folders for temporary files, if the host has them now."""
    return {place for place in _PLACES.findall(text) if os.path.lexists(place)}


class Host:
    """What is watched of the host while tools run."""

    def __init__(self, canary: Path) -> None:
        self._folder = canary.parent
        self._secrets = (os.environ[CANARY], canary.read_text())
        self._files, self._host = digest_of(self._folder), host_state()
        self._packets, self._processes = packets(), self._alive()

    @staticmethod
    def _alive() -> set[int]:
        """Returns the processes below this one, without those that are dead."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # orphans that have died
                pass
        children = psutil.Process().children(recursive=True)
        return {child.pid for child in children if not _is_dead(child) and not _waits(child.pid)}

    def traces(self, result: ToolResult, made: Collection[str]) -> Iterator[str]:
        """Yields what a tool left behind. `made`: the named files that were not there before."""
        if any(secret in result.text for secret in self._secrets):
            yield "a canary was read"
        if digest_of(self._folder) != self._files:
            yield "a file was changed"
        if made:
            yield f"{', '.join(made)} was made"
        if packets() != self._packets:
            yield "a packet was sent"
        if names := self._left():
            yield f"a process was left: {names}"

    def final(self) -> list[str]:
        """Returns the files of the host that were changed by any of the tools."""
        now = host_state()
        return [path for path in self._host.keys() | now.keys() if self._host.get(path) != now.get(path)]

    def _left(self) -> str:
        """Returns the names of processes that a tool left alive."""
        until = time.monotonic() + _SETTLE
        while (left := self._alive() - self._processes) and time.monotonic() < until:
            time.sleep(0.005)
        return ", ".join(_name_of(pid) for pid in left)


async def main(canary: Path, sources: Sequence[str]) -> None:
    """Prints one JSON list for each source, the traces that it left, and one for the host."""
    sandbox: Sandbox = Wall()
    first = await running.run(as_tool("1"), {}, sandbox=sandbox, limits=AuthoredLimits())
    if first.text != "1":
        raise SystemExit(f"the sandbox does not run tools: {first.text[:500]}")
    host = Host(canary)
    for source in sources:
        before = places_of(source)
        result = await running.run(as_tool(source), {}, sandbox=sandbox, limits=_LIMITS)
        print(msgspec.json.encode(list(host.traces(result, places_of(source) - before))).decode(), flush=True)
    print(msgspec.json.encode(host.final()).decode(), flush=True)
    await sandbox.close()


if __name__ == "__main__":
    alone_in_a_network()
    ctypes.CDLL(None).prctl(_INHERIT_ORPHANS, 1, 0, 0, 0)
    asyncio.run(main(Path(sys.argv[1]), msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])))
