"""Looks whether a sandbox holds on this machine: programs inside try to get out, and the host looks at what they reached."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcaddie.core.errors import SandboxError
from toolcaddie.ports import Command, Sandbox, SandboxFact, SandboxLimits
from toolcaddie.ports.sandbox import FILES, MEGABYTE
from toolcaddie.sandbox import look

_STARTS = 9
_SECRET = "held by the host"
_MEMORY = 64 * MEGABYTE
_GREEDY = "data = [bytearray(1 << 20) for _ in range(512)]"
_SURVIVOR = "setsid sleep 60 & setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & sleep 60"
_REPORT = "report it with the output of `toolcaddie sandbox check --json`, and run no commands here"


async def looked_at(sandbox: Sandbox) -> Sequence[SandboxFact]:
    """Returns what programs inside of the sandbox could do. Raises `SandboxError` if none can be started."""
    seen, connected = await _seen(sandbox)
    return [
        *_views(seen, connected=connected),
        await _memory(sandbox),
        await _time(sandbox),
        await _start(sandbox),
    ]


async def _seen(sandbox: Sandbox) -> tuple[Mapping[str, Any], bool]:
    """Returns what the program inside reports, and whether its connection arrived."""
    arrived = asyncio.Event()
    server = await asyncio.start_server(lambda *_: arrived.set(), "127.0.0.1", 0)
    async with server:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(_SECRET)
            file.flush()
            port = server.sockets[0].getsockname()[1]
            outcome = await sandbox.run(
                Command(
                    argv=("python3", f"{FILES}/look.py", file.name, str(port)),
                    files={"look.py": Path(look.__file__).read_bytes()},  # noqa: ASYNC240  a small file of this package
                )
            )
    if outcome.exit_code != 0:
        raise SandboxError(
            f"the program that looks around in the sandbox failed: {outcome.stderr.decode(errors='replace')}"
        )
    return json.loads(outcome.stdout), arrived.is_set()


def _views(seen: Mapping[str, Any], *, connected: bool) -> Sequence[SandboxFact]:
    plainly = seen["no_new_privileges"] and not seen["capabilities"] and seen["uid"] != 0
    return [
        _fact("user", plainly, f"commands run as user {seen['uid']} without privileges and cannot get any"),
        _fact("files", not seen["reads_host_file"], "files of the host are absent"),
        _fact("processes", seen["processes"] <= 3 and not seen["writes_process_1"], "other processes are absent"),
        _fact("network", not seen["reaches_host"] and not connected, "the loopback of the host is out of reach"),
        _fact("settings", not seen["writes_kernel_settings"], "settings of the kernel are read-only"),
        _fact("system calls", seen["filtered"] and not seen["calls"], "dangerous system calls are refused"),
        _fact("descriptors", not seen["descriptors"], "nothing open is inherited"),
    ]


async def _memory(sandbox: Sandbox) -> SandboxFact:
    command = Command(argv=("python3", "-c", _GREEDY), limits=SandboxLimits(memory_bytes=_MEMORY), seconds=10)
    outcome = await sandbox.run(command)
    return _fact("memory", outcome.ending == "memory", "a command that uses more memory than it may is ended")


async def _time(sandbox: Sandbox) -> SandboxFact:
    begun = time.monotonic()
    outcome = await sandbox.run(Command(argv=("sh", "-c", _SURVIVOR), seconds=0.3))
    seconds = time.monotonic() - begun
    detail = f"a command with daemons was ended after {seconds:.2f} seconds of the allowed 0.3, and all of it was dead"
    return _fact("time", outcome.ending == "timeout" and seconds < 5, detail)


async def _start(sandbox: Sandbox) -> SandboxFact:
    seconds = [(await sandbox.run(Command(argv=("true",)))).seconds for _ in range(_STARTS)]
    return _fact("start", True, f"a command starts and ends in {statistics.median(seconds) * 1000:.0f} ms (median)")


def _fact(name: str, holds: bool, detail: str) -> SandboxFact:
    return SandboxFact(
        name=name,
        holds=holds,
        detail=detail if holds else f"not so: {detail}",
        remedy="" if holds else _REPORT,
    )
