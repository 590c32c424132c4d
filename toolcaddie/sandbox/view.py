"""What a command behind the wall sees of the machine, as arguments for bubblewrap."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from toolcaddie.core.errors import SandboxError
from toolcaddie.ports import Command
from toolcaddie.ports.sandbox import FILES, WORK
from toolcaddie.sandbox.blank import Blank
from toolcaddie.sandbox.commands import SYSTEM_FOLDERS, environment
from toolcaddie.sandbox.masks import Mask

Argument = str | Mapping[str, object]
"""An argument of bubblewrap, or something that the warden replaces by arguments: a folder or file of the host to show, or a file
with a content."""

PROXY_PORT = 3128
"""The port of the proxy in the network of a command with `egress`."""

_LINKED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders that are links into `/usr` on most systems."""
_ETC = (
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
)
_PRIVATE = (WORK, FILES, "/proc", "/dev")
"""Folders that are the command's own, so that nothing of the host can be shown in them under its own path."""
_MOVED = "/opt/toolcaddie"
_PARTS = ("bin", "lib", "lib64", "include", "libexec", "share", "ssl", "pyvenv.cfg")
"""What an interpreter or a virtual environment has in its folder."""


def arguments(command: Command, masks: Sequence[Mask], *, uid: int, blank: Blank) -> tuple[list[Argument], bytes]:
    """Returns the arguments, and the contents of the files among them. Raises `SandboxError` if the work folder lies in a folder
    that is shown anyway."""
    texts = _etc_files(uid) | {f"{FILES}/{name}": content for name, content in command.files.items()}
    room = min(command.limits.memory_bytes, command.limits.disk_bytes) // 2
    seen: list[Argument] = [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup"),
        *("--hostname", "sandbox", "--die-with-parent", "--new-session", "--clearenv"),
        *_variables(command),
        *_system(),
        *("--proc", "/proc"),
        # bubblewrap's process 1 runs without the filter of the command, which could write into its memory
        *(
            "--size",
            "4096",
            "--perms",
            "0555",
            "--tmpfs",
            "/proc/1",
            "--remount-ro",
            "/proc/1",
            "--remount-ro",
            "/proc",
        ),
        *("--dev", "/dev", *_empty("/dev/shm", room // 2), "--remount-ro", "/dev"),
        *_empty("/tmp", room),
        *_interpreter(),
        *_work(command, masks, blank),
        *("--dir", FILES),
    ]
    content = b""
    for path, text in texts.items():
        seen.append({"from": len(content), "to": len(content) + len(text), "as": path})
        content += text
    folder = os.path.normpath(f"{WORK}/{command.folder}")
    return [*seen, "--remount-ro", "/", "--chdir", folder], content


def search_path() -> str:
    """Returns the folders in which a command's program is searched."""
    folders = [f"{place}/bin" for place in reversed(_interpreter_places().values())]
    return ":".join([*folders, *SYSTEM_FOLDERS])


def _variables(command: Command) -> Iterator[str]:
    values = environment(command, path=search_path(), work=WORK, files=FILES, temporary="/tmp")
    if command.egress is not None:
        proxy = f"http://127.0.0.1:{PROXY_PORT}"
        values = {"http_proxy": proxy, "https_proxy": proxy, "HTTP_PROXY": proxy, "HTTPS_PROXY": proxy} | values
    for name, value in values.items():
        yield from ("--setenv", name, value)


def _system() -> Iterator[Argument]:
    """Shows the system's programs and libraries, and the few files of `/etc` that they need."""
    yield _shown("/usr")
    for name in _LINKED:
        if os.path.islink(f"/{name}"):
            yield from ("--symlink", os.readlink(f"/{name}"), f"/{name}")
        elif os.path.isdir(f"/{name}"):
            yield _shown(f"/{name}")
    yield from (_shown(path) for path in _ETC if os.path.exists(path))


def _interpreter() -> Iterator[Argument]:
    """Shows the running interpreter and its virtual environment."""
    for source, place in _interpreter_parts():
        yield _shown(source, place)


def _interpreter_parts() -> Iterator[tuple[str, str]]:
    """Yields the files and folders of the interpreter, and where they are shown. Nothing else in its folder is: a project may be
    its own virtual environment."""
    for prefix, place in _interpreter_places().items():
        for name in _PARTS:
            if os.path.exists(f"{prefix}/{name}"):
                yield f"{prefix}/{name}", f"{place}/{name}"


def _interpreter_places() -> dict[str, str]:
    """Returns the folders of the interpreter that are not in `/usr`, and where they are shown."""
    places: dict[str, str] = {}
    for number, prefix in enumerate(dict.fromkeys((sys.base_prefix, sys.prefix))):
        if not _below(os.path.realpath(prefix), "/usr"):
            private = any(_below(prefix, folder) for folder in _PRIVATE)
            places[prefix] = f"{_MOVED}/python{number}" if private else prefix
    return places


def _work(command: Command, masks: Sequence[Mask], blank: Blank) -> Iterator[Argument]:
    if command.work is None:
        yield from ("--size", str(command.limits.disk_bytes), "--perms", "0700", "--tmpfs", WORK)
        return
    work = os.path.realpath(command.work)
    yield {"show": work, "as": WORK, "how": "--bind" if command.writable else "--ro-bind", "owned": True}
    yield from _programs(command, work)
    own = [(os.path.realpath(source), place) for source, place in _interpreter_parts()]
    for real, place in own:  # the project is its own virtual environment
        inside = [each for each in masks if os.path.dirname(real) == work and _below(each.path, real)]
        yield from (_shown(each.blank(blank), place + each.path[len(real) :]) for each in inside)
    yield from (_shown(each.blank(blank), WORK + each.path[len(work) :]) for each in masks)


def _programs(command: Command, work: str) -> Iterator[Argument]:
    """Shows the server's own programs in the work folder, which a command must not change, read-only."""
    prefixes = [os.path.realpath(prefix) for prefix in _interpreter_places()]
    parts = [os.path.realpath(source) for source, _ in _interpreter_parts()]
    if around := next((part for part in parts if _below(work, part)), None):
        raise SandboxError(
            f"the work folder {command.work} lies in {around}, which commands see because it belongs to the running Python; "
            "use another work folder, or a virtual environment elsewhere"
        )
    for path in parts if work in prefixes else prefixes:
        if _below(path, work):
            yield _shown(path, WORK + path[len(work) :])


def _etc_files(uid: int) -> dict[str, bytes]:
    texts = {
        "passwd": f"root:x:0:0:root:/:/usr/sbin/nologin\nsandbox:x:{uid}:{uid}::{WORK}:/bin/sh\n",
        "group": f"root:x:0:\nsandbox:x:{uid}:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    return {f"/etc/{name}": text.encode() for name, text in texts.items()}


def _shown(source: str, place: str | None = None) -> Argument:
    return {"show": source, "as": place or source, "how": "--ro-bind"}


def _empty(place: str, size: int) -> Sequence[str]:
    return ("--size", str(size), "--perms", "1777", "--tmpfs", place)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
