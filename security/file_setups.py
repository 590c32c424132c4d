"""Links, devices and races below the base of the file tools: nothing outside is read or written, and nothing hangs.

A set-up of `path_fs_cases.jsonl` is a command of the shell in which BASE and OUTSIDE stand for folders, or one of those that are
made here because no command can make them.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from security.file_places import Place, place
from toolcaddie.core.tool import ToolResult
from toolcaddie.guards.openat2 import rename
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.testing.part_contracts.subject import context
from toolcaddie.tools.files import files

_SHELL = re.compile(r"(?:ln|mkfifo|mknod|mkdir|echo|truncate|touch|mount|chmod|cp|printf)\b")
_SLOWEST = 1.0
"""The largest number of seconds that a call may take."""
_ATTEMPTS = 3
"""A busy disk holds up one attempt; what is too slow by itself is too slow in each."""
_MEMORY = 64 * 1024 * 1024
_WRITER = """
import sys
from pathlib import Path
from toolcaddie.guards.paths import Folder
folder = Folder(Path(sys.argv[1]))
print(flush=True)
while True:
    folder.write("f", b"a" * 200_000)
    folder.write("f", b"b" * 200_000)
"""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `path_fs_cases.jsonl`."""

    id: str
    setup: str
    use: str
    op: str = "read"
    expect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A place in which one case happens, and the tools over its base."""

    place: Place
    case: Case
    source: FunctionSource

    def call(self, name: str, **arguments: Any) -> ToolResult:
        """Judges and makes one call, as if a person had approved it."""
        [tool] = [tool for tool in self.source.tools() if tool.name == name]

        async def both() -> ToolResult:
            judged = await self.source.assess(tool, dict(arguments), context())
            result = await self.source.call_tool(tool, dict(arguments), context())
            assert self.place.canary not in judged.preview + judged.refusal, "its preview shows what lies outside"
            return result

        return asyncio.run(both())

    def used(self) -> ToolResult:
        """Makes the calls of the case: a reading one always, a writing one where it says so. Returns the last result."""
        result = self.call("file_read", path=self.case.use)
        assert self.place.canary not in result.text, "it read what lies outside"
        if self.case.op in ("write", "edit"):
            result = self.call("file_write", path=self.case.use, content="new\n")
        if self.case.op == "edit":
            result = self.call("file_edit", path=self.case.use, old_text="new", new_text="newer")
        return result


def played(case: Case) -> str | None:
    """Plays a case. Returns what went wrong; empty: nothing; None: this machine, or this program, cannot make it."""
    make = _MADE.get(case.id)
    if make is None and not all(_SHELL.match(command.strip()) for command in case.setup.split(";")):
        print(f"skipped: {case.id}: the set-up is no command, and none of ours")
        return None
    outcome = ""
    for _ in range(_ATTEMPTS):
        try:
            return _attempt(case, make or _with_shell)
        except _SlowError as error:
            outcome = str(error)
    return outcome


def _attempt(case: Case, make: Callable[[Scene], None]) -> str | None:
    """Returns what `played` returns, for one attempt in a place of its own. Raises `_SlowError` for a call that took long."""
    with place(depth=2) as where:
        scene = Scene(place=where, case=case, source=files(base_path=str(where.base)))
        try:
            make(scene)
        except _ImpossibleError as error:
            print(f"skipped: {case.id}: {error}")
            return None
        except AssertionError as error:
            return str(error)
    return ""


class _ImpossibleError(Exception):
    """This machine cannot make a set-up."""


class _SlowError(Exception):
    """A call took longer than it may."""


def _unchanged(scene: Scene, act: Callable[[], ToolResult]) -> ToolResult:
    """Returns the result of an act. Nothing outside may change by it, and it may not take long or much memory."""
    before, began, memory = scene.place.outside_state(), time.perf_counter(), _peak()
    result = act()
    seconds = time.perf_counter() - began
    assert _peak() - memory < _MEMORY, "it took more than 64 MiB"
    assert scene.place.outside_state() == before, "it changed what lies outside"
    if seconds > _SLOWEST:
        raise _SlowError(f"it took {seconds:.1f} s, and may take {_SLOWEST:.0f}")
    return result


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _with_shell(scene: Scene) -> None:
    """The usual case: a command of the shell, then the calls."""
    if scene.case.setup != "-":
        words = scene.case.setup.replace("/tmp/outside", "OUTSIDE")
        words = words.replace("BASE", str(scene.place.base)).replace("OUTSIDE", str(scene.place.outside))
        done = subprocess.run(words, shell=True, capture_output=True, text=True, cwd=scene.place.outside, check=False)
        if done.returncode:
            raise _ImpossibleError(done.stderr.strip())
    result = _unchanged(scene, scene.used)
    if "refuse" in scene.case.expect and "or" not in scene.case.expect.split():
        assert result.is_error, f"it was not refused: {result.text[:100]}"


# --- set-ups that no command makes --------------------------------------------------------------------------------------


def _refused(scene: Scene) -> None:
    result = _unchanged(scene, scene.used)
    assert result.is_error, f"it was not refused: {result.text[:100]}"


def _secret_file(name: str, alias: Callable[[Path], None] = lambda base: None) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        file = scene.place.base / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"KEY={scene.place.canary}\n")
        alias(scene.place.base)
        _refused(scene)

    return make


def _swapped(name: str, link: str) -> Callable[[Scene], None]:
    """A thread exchanges a file or folder with a link to outside while it is read and written."""

    def make(scene: Scene) -> None:
        base, outside = scene.place.base, scene.place.outside
        (base / "sub").mkdir()
        for file in (base / "f", base / "sub" / "secret"):
            file.write_text("inside\n")
        (base / "link").symlink_to(outside / link if link else outside)
        stop, descriptor = threading.Event(), os.open(base, os.O_PATH)

        def swap() -> None:
            while not stop.is_set():
                rename(descriptor, name, "link", how="exchange")

        thread = threading.Thread(target=swap, daemon=True)
        thread.start()
        try:
            before = scene.place.outside_state()
            for _ in range(200):
                scene.used()
                scene.call("file_write", path=scene.case.use, content="inside\n")
        finally:
            stop.set()
            thread.join()
            os.close(descriptor)
        assert scene.place.outside_state() == before, "it changed what lies outside"

    return make


def _renamed_base(scene: Scene) -> None:
    base = scene.place.base
    base.rename(base.with_name("moved"))
    base.symlink_to(scene.place.outside)
    result = scene.call("file_read", path="secret")
    assert scene.place.canary not in result.text, "it read what lies outside"
    base.unlink()
    base.with_name("moved").rename(base)


def _socket(scene: Scene) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"/proc/self/fd/{os.open(scene.place.base, os.O_PATH)}/s")
    listener.listen()
    with listener:
        _refused(scene)


def _sparse(scene: Scene) -> None:
    with (scene.place.base / "big").open("wb") as file:
        file.truncate(10 * 1024**3)
    _refused(scene)
    result = _unchanged(scene, lambda: scene.call("file_write", path="big", content="x", append=True))
    assert result.is_error, "a file of 10 GiB was copied"


def _growing(scene: Scene) -> None:
    file = scene.place.base / "g"
    file.write_text("line\n" * 100)
    stop = threading.Event()

    def grow() -> None:
        with file.open("a") as growing:
            while not stop.is_set():
                growing.write("line\n" * 10_000)

    thread = threading.Thread(target=grow, daemon=True)
    thread.start()
    try:
        for _ in range(5):
            result = scene.call("file_read", path="g")
            # A line number takes seven characters more than its line of five.
            assert len(result.text) < 1_048_576 * 3, "it read more than the limit"
    finally:
        stop.set()
        thread.join()


def _descriptor(scene: Scene) -> None:
    descriptor = os.open(scene.place.outside / "secret", os.O_RDONLY)
    try:
        for path in (f"/proc/self/fd/{descriptor}", f"/proc/{os.getpid()}/fd/{descriptor}"):
            result = _unchanged(scene, lambda path=path: scene.call("file_read", path=path))  # type: ignore[misc]
            assert result.is_error, "it was not refused"
    finally:
        os.close(descriptor)


def _mounted(scene: Scene) -> None:
    target = scene.place.base / "b"
    target.mkdir()
    done = subprocess.run(["mount", "--bind", scene.place.outside, target], capture_output=True, text=True, check=False)
    if done.returncode:
        raise _ImpossibleError(f"no folder can be mounted here: {done.stderr.strip()}")
    try:
        _refused(scene)
    finally:
        subprocess.run(["umount", target], check=True)


def _two_edits(scene: Scene) -> None:
    file = scene.place.base / "f"

    def edit(text: str) -> ToolResult:
        return scene.call("file_edit", path="f", old_text="start", new_text=text, replace_all=True)

    with ThreadPoolExecutor(2) as threads:
        for _ in range(50):
            file.write_text("start\n" * 1_000)
            results = list(threads.map(edit, ("first", "second")))
            assert len(set(file.read_text().splitlines())) == 1, "a mixed file"
            assert [result.is_error for result in results].count(False) == 1, "not exactly one edit counted"


def _killed_writer(scene: Scene) -> None:
    file = scene.place.base / "f"
    file.write_bytes(b"a" * 200_000)
    for number in range(10):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(scene.place.base)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.003 * number)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        assert file.read_bytes() in (b"a" * 200_000, b"b" * 200_000), "a torn file"


def _without_umask(scene: Scene) -> None:
    old = os.umask(0)
    try:
        _unchanged(scene, lambda: scene.call("file_write", path="folder/new", content="x"))
    finally:
        os.umask(old)
    modes = [(scene.place.base / name).stat().st_mode & 0o777 for name in ("folder", "folder/new")]
    assert modes == [0o750, 0o640], f"modes {modes}"


_MADE: Mapping[str, Callable[[Scene], None]] = {
    "toctou-file": _swapped("f", "secret"),
    "toctou-dir": _swapped("sub", ""),
    "rename-base": _renamed_base,
    "socket": _socket,
    "sparse-10G": _sparse,
    "growing": _growing,
    "proc-root": _refused,
    "proc-fd": _descriptor,
    "bind-mount": _mounted,
    "case-fold": _secret_file(".ENV"),
    "unicode-nfkc": _secret_file("\uff0eenv"),
    "trailing-dot": _secret_file(".env."),
    "deny-via-symlink": _secret_file(".env", lambda base: (base / "notes.txt").symlink_to(".env")),
    "deny-via-hardlink": _secret_file(".env", lambda base: (base / "notes2.txt").hardlink_to(base / ".env")),
    "deny-via-dir": _secret_file(".git/config"),
    "prefix-sibling": _refused,
    "edit-race": _two_edits,
    "write-crash": _killed_writer,
    "umask": _without_umask,
}

OWN_CASES: Sequence[Case] = tuple(
    Case(id=name, setup=setup, use=use, op=op, expect=expect)
    for name, setup, use, op, expect in (
        ("our-link-to-file", "ln -s OUTSIDE/secret BASE/l", "l", "edit", "refused"),
        ("our-link-to-folder", "ln -s OUTSIDE BASE/l", "l/secret", "edit", "refused"),
        ("our-link-to-root", "ln -s / BASE/l", "l/etc/passwd", "read", "refused"),
        ("our-link-up", "ln -s ../.. BASE/l", "l/etc/passwd", "edit", "refused"),
        ("our-link-in-folder", "mkdir BASE/a; ln -s ../../outside BASE/a/l", "a/l/secret", "edit", "refused"),
        ("our-chain", "ln -s a BASE/b; ln -s OUTSIDE BASE/a", "b/secret", "edit", "refused"),
        ("our-circle", "ln -s a BASE/b; ln -s b BASE/a", "b", "edit", "refused"),
        ("our-new-file-behind-link", "ln -s OUTSIDE BASE/l", "l/new/file", "write", "refused"),
        ("our-dangling", "ln -s OUTSIDE/new BASE/l", "l", "write", "refused"),
        ("our-dangling-inside", "ln -s nowhere BASE/l", "l", "write", "refused"),
        ("our-hard-link", "ln OUTSIDE/secret BASE/l", "l", "edit", "refused"),
        ("our-magic-cwd", "ln -s /proc/self/cwd BASE/l", "l/secret", "read", "refused"),
        ("our-magic-root", "ln -s /proc/self/root BASE/l", "l/etc/passwd", "read", "refused"),
        ("our-pipe", "mkfifo BASE/p", "p", "write", "refused"),
        ("our-zero", "mknod BASE/z c 1 5", "z", "write", "refused"),
        ("our-disk", "mknod BASE/z b 7 0", "z", "write", "refused"),
        ("toctou-file", "", "f", "read", ""),
        ("toctou-dir", "", "sub/secret", "write", ""),
        ("rename-base", "", "secret", "read", ""),
        ("socket", "", "s", "write", ""),
        ("sparse-10G", "", "big", "read", ""),
        ("growing", "", "g", "read", ""),
        ("proc-fd", "", "", "read", ""),
        ("bind-mount", "", "b/secret", "edit", ""),
        ("case-fold", "", ".ENV", "edit", ""),
        ("unicode-nfkc", "", "\uff0eenv", "edit", ""),
        ("deny-via-symlink", "", "notes.txt", "edit", ""),
        ("deny-via-hardlink", "", "notes2.txt", "edit", ""),
        ("edit-race", "", "f", "edit", ""),
        ("write-crash", "", "f", "write", ""),
        ("umask", "", "new", "write", ""),
    )
)
"""Cases of ours, for a machine without the file."""
