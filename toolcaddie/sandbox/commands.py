"""What both sandboxes make of a `Command`: they refuse one that makes no sense, and give it its variables and paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, TypedDict

from toolcaddie.core.errors import SandboxError
from toolcaddie.core.numbers import DiskBytes, MemoryBytes, OpenFiles, Positive, Processes, Seconds
from toolcaddie.ports.sandbox import FILES, WORK, Command
from toolcaddie.util.replacing import replace


class Most(TypedDict, total=False):
    """The most that any command may use: limits of its own that are higher count as these."""

    seconds: Seconds
    output_bytes: Positive
    memory_bytes: MemoryBytes
    processes: Processes
    open_files: OpenFiles
    file_bytes: Positive
    disk_bytes: DiskBytes


SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Folders of the system in which the program of a command is searched, in this order."""

WORK_VARIABLE = "WORK"
FILES_VARIABLE = "TOOL_FILES"
"""Variables with the paths of the work folder and of the files, for scripts that run in both sandboxes."""

_MOST_FILES = 100


def allowed(command: Command, most: Most) -> Command:
    """Returns a command within the limits of the settings. Raises `SandboxError` for one that cannot run in any sandbox."""
    _check(command)
    ceiling: Mapping[str, Any] = most
    own = {name: min(getattr(command, name), ceiling[name]) for name in ("seconds", "output_bytes") if name in most}
    limits = {name: min(getattr(command.limits, name), value) for name, value in ceiling.items() if name not in own}
    return replace(command, **own, limits=replace(command.limits, **limits))


def _check(command: Command) -> None:
    if not command.argv:
        raise SandboxError("the command is empty; name a program")
    if any("\0" in text for text in (*command.argv, *command.env, *command.env.values())):
        raise SandboxError("an argument or a variable contains the character U+0000, which no program can be given")
    if len(command.files) > _MOST_FILES:
        raise SandboxError(
            f"{len(command.files)} files are too many for a command; put them into a folder, at most {_MOST_FILES}"
        )
    _check_inside("folder", [command.folder])
    _check_inside("hidden path", command.hidden)
    _check_inside("file", command.files)
    if command.work is None:
        if command.folder != "." or command.hidden:
            raise SandboxError("a command without a work folder has no folder to start in and nothing to hide")
    elif not (command.work / command.folder).is_dir():
        raise SandboxError(f"the command cannot start in {command.folder!r}: no such folder below {command.work}")


def _check_inside(kind: str, paths: Iterable[str]) -> None:
    for path in paths:
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or "\0" in path or not path:
            raise SandboxError(f"the {kind} {path!r} must be a relative path without '..'")


def environment(command: Command, *, path: str, work: str, files: str, temporary: str) -> dict[str, str]:
    """Returns all variables that a command gets."""
    own = {name: translated(value, work=work, files=files) for name, value in command.env.items()}
    return {
        "PATH": path,
        "HOME": work,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": temporary,
        WORK_VARIABLE: work,
        FILES_VARIABLE: files,
        **own,
    }


def translated(text: str, *, work: str, files: str) -> str:
    """Returns a text that begins with the path of the work folder or of the files with their real path instead. The path of
    something that the host has there stays as it is."""
    for path, real in ((WORK, work), (FILES, files)):
        if text == path or (text.startswith(f"{path}/") and not os.path.lexists(text)):
            return real + text[len(path) :]
    return text
