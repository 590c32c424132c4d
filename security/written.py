"""Runs sources that bots could have written in the sandbox, one after another, and prints what each left behind:
python -m security.written FILE < LINES

FILE is a canary: a file whose content no tool may learn. The process moves into a network of its own, in which every packet is
counted, and inherits the processes whose parents die. `security.authored` starts it.
"""

from __future__ import annotations

import ast
import asyncio
import ctypes
import hashlib
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import psutil

from security.escapes import CANARY, alone_in_a_network, packets
from toolcaddie.core.tool import ToolResult
from toolcaddie.ports import Sandbox
from toolcaddie.sandbox.wall import Wall
from toolcaddie.tools.authored import running
from toolcaddie.tools.authored.values import AuthoredLimits, Definition

_LIMITS = AuthoredLimits(seconds=2.0)
_INHERIT_ORPHANS = 36
"""Number of prctl on Linux."""
_SETTLE = 0.1
"""Seconds after which no process of a tool may be alive."""
_PLACES = re.compile(r"/(?:tmp|var/tmp|dev/shm)/[\w.-]+")
_HOST_FILES = ("/etc", "/root", "/var/spool", "/usr/local/bin")
_MOST_HOST_FILES = 5_000


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
    paths = (path for place in _HOST_FILES for path in Path(place).rglob("*"))
    state: dict[str, tuple[int, int, int]] = {}
    for path, _ in zip(paths, range(_MOST_HOST_FILES), strict=False):
        try:
            status = path.lstat()
        except OSError:
            continue
        state[str(path)] = (status.st_size, status.st_mode, status.st_mtime_ns)
    return state


class Host:
    """What is watched of the host while tools run."""

    def __init__(self, canary: Path) -> None:
        self._folder = canary.parent
        self._secrets = (os.environ[CANARY], canary.read_text())
        self._files, self._host = digest_of(self._folder), host_state()
        self._packets, self._processes = packets(), self._alive()

    @staticmethod
    def _alive() -> set[int]:
        return {child.pid for child in psutil.Process().children(recursive=True)}

    def traces(self, source: str, result: ToolResult) -> Iterator[str]:
        """Yields what a tool left behind."""
        if any(secret in result.text for secret in self._secrets):
            yield "a canary was read"
        if digest_of(self._folder) != self._files:
            yield "a file was changed"
        if made := [place for place in _PLACES.findall(source) if os.path.lexists(place)]:
            yield f"{made[0]} was made"
        if packets() != self._packets:
            yield "a packet was sent"
        if self._started():
            yield "a process was left"

    def final(self) -> list[str]:
        """Returns the files of the host that were changed by any of the tools."""
        now = host_state()
        return [path for path in self._host.keys() | now.keys() if self._host.get(path) != now.get(path)]

    def _started(self) -> bool:
        until = time.monotonic() + _SETTLE
        while (left := self._alive() - self._processes) and time.monotonic() < until:
            time.sleep(0.005)
        return bool(left)


async def main(canary: Path, sources: Sequence[str]) -> None:
    """Prints one JSON list for each source, the traces that it left, and one for the host."""
    sandbox: Sandbox = Wall()
    first = await running.run(as_tool("1"), {}, sandbox=sandbox, limits=_LIMITS)
    if first.text != "1":
        raise SystemExit(f"the sandbox does not run tools: {first.text[:500]}")
    host = Host(canary)
    for source in sources:
        result = await running.run(as_tool(source), {}, sandbox=sandbox, limits=_LIMITS)
        print(msgspec.json.encode(list(host.traces(source, result))).decode(), flush=True)
    print(msgspec.json.encode(host.final()).decode(), flush=True)
    await sandbox.close()


if __name__ == "__main__":
    alone_in_a_network()
    ctypes.CDLL(None).prctl(_INHERIT_ORPHANS, 1, 0, 0, 0)
    asyncio.run(main(Path(sys.argv[1]), msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])))
