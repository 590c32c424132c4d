"""Packages by apt and dpkg: programs with fixed arguments, none of which runs a shell."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from contextvars import Context

from toolcaddie.core.errors import ConfigError, HostError
from toolcaddie.core.states import BackEnd
from toolcaddie.guards.processes import Completed, run
from toolcaddie.tools.host.states.packagekit.managers import (
    Consequences,
    Package,
    Wanted,
    check_consequences,
    check_number,
)
from toolcaddie.tools.host.states.packagekit.names import VERSION, fits, is_pattern, prefix
from toolcaddie.tools.host.states.packagekit.policy import candidates
from toolcaddie.tools.host.words import words

_GET, _CACHE, _QUERY = "/usr/bin/apt-get", "/usr/bin/apt-cache", "/usr/bin/dpkg-query"
_ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    "DEBIAN_FRONTEND": "noninteractive",
}
_FORMAT = "${Package}\t${Version}\t${db:Status-Status}\t${Essential}\t${Protected}\t${Priority}\n"
_LONGEST = 16 * 1024 * 1024
"""The largest number of bytes that is read of a program: some hundred thousand names."""
_SAFE = (
    *("-y", "-q", "--no-install-recommends"),
    *("-o", "APT::Get::AllowUnauthenticated=false"),
    *("-o", "Acquire::AllowInsecureRepositories=false"),
    *("-o", "Dpkg::Options::=--force-confold"),
    *("-o", "Dpkg::Use-Pty=false"),
    *("-o", "DPkg::Lock::Timeout=20"),
)
_CONSEQUENCE = re.compile(r"(Inst|Remv) ([^ :]+)(?::\S+)?( \[[^]]*\])?")


class Apt:
    """Implements `PackageManager`. `root`: the folder of another system; empty: this machine. `timeout`: seconds for reading;
    `change_timeout`: seconds for a download, and for an installation."""

    def __init__(self, root: str, *, timeout: float, change_timeout: float) -> None:
        if root and not os.path.isabs(root):
            raise ConfigError(f"source 'host': plugin.packagekit.root: {root!r} is no absolute path of a folder")
        self._root = root.rstrip("/")
        self._timeout = timeout
        self._change_timeout = change_timeout

    async def is_present(self) -> bool:
        return all(os.access(program, os.X_OK) for program in (_GET, _CACHE, _QUERY))

    async def packages(self, patterns: Sequence[str]) -> Mapping[str, Package]:
        installed = {name: line[0] for name, line in (await self._installed()).items() if fits(name, patterns)}
        names = {*installed, *(pattern for pattern in patterns if not is_pattern(pattern))}
        for beginning in {prefix(pattern) for pattern in patterns if is_pattern(pattern)}:
            listed = (await self._read(_CACHE, *self._options(), "pkgnames", beginning)).split()
            names.update(name for name in listed if fits(name, patterns))
        check_number(names)
        policy = candidates(await self._read(_CACHE, *self._options(), "policy", "--", *sorted(names))) if names else {}
        return {
            name: Package(installed=installed.get(name, ""), candidate=policy.get(name, ""))
            for name in names
            if name in installed or policy.get(name)
        }

    async def change(self, wanted: Wanted) -> None:
        lines = await self._installed()
        for name in wanted.remove:
            if "required" in lines.get(name, ())[1:] or "yes" in lines.get(name, ())[1:]:
                raise HostError(f"nothing was done: {name} is a required part of the system and is not removed")
        arguments = ["--", *(f"{name}={version}" for name, version in sorted(wanted.install.items()))]
        arguments += [f"{name}-" for name in sorted(wanted.remove)]
        command = [_GET, *self._options(), *_SAFE, "--allow-downgrades", "install"]
        check_consequences(wanted, _consequences(await self._read(*command[:-1], "-s", "install", *arguments)))
        if wanted.install:
            await self._changed(*command[:-1], "--download-only", "install", *arguments)
        await self._uninterrupted(*command, *arguments)

    async def back_end(self) -> BackEnd:
        if not await self.is_present():
            return BackEnd(
                name="apt", present=False, detail="there is no /usr/bin/apt-get", remedy="install apt or PackageKit"
            )
        try:
            detail = (await self._read(_GET, "--version")).partition("\n")[0]
        except HostError as error:
            return BackEnd(name="apt", present=False, detail=str(error), remedy="see whether apt-get runs")
        return BackEnd(name="apt", present=True, detail=words(detail))

    async def close(self) -> None:
        """Does nothing: each command ends by itself."""

    # --- programs --------------------------------------------------------------------------------------------------------

    async def _installed(self) -> Mapping[str, Sequence[str]]:
        """Returns version, essential, protected and priority of each installed package."""
        root = ["--admindir", f"{self._root}/var/lib/dpkg"] if self._root else []
        text = await self._read(_QUERY, *root, "-W", "-f", _FORMAT)
        lines = [line.split("\t") for line in text.splitlines()]
        return {
            line[0]: (line[1], *line[3:])
            for line in lines
            if len(line) == _FORMAT.count("\t") + 1 and line[2] == "installed" and VERSION.fullmatch(line[1])
        }

    def _options(self) -> list[str]:
        """Returns the options of apt that name another system."""
        if not self._root:
            return []
        settings = (
            f"Dir={self._root}",
            f"Dir::State::status={self._root}/var/lib/dpkg/status",
            "Dir::Bin::methods=/usr/lib/apt/methods",
            "Dir::Bin::dpkg=/usr/bin/dpkg",
            f"DPkg::Options::=--root={self._root}",
            f"DPkg::Options::=--log={self._root}/var/log/dpkg.log",
        )
        return [part for setting in settings for part in ("-o", setting)]

    async def _read(self, *argv: str) -> str:
        return await self._output(argv, self._timeout)

    async def _changed(self, *argv: str) -> str:
        return await self._output(argv, self._change_timeout)

    async def _uninterrupted(self, *argv: str) -> None:
        """Runs a command that would leave a half-installed package behind if it were interrupted, so a cancellation waits for
        it. It does not belong to the call of the tool, at whose end all programs are killed."""
        task = asyncio.get_running_loop().create_task(self._changed(*argv), context=Context())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # the cancellation is what the caller sees
            raise

    async def _output(self, argv: Sequence[str], seconds: float) -> str:
        """Returns what a command writes. Raises `HostError` if it fails or takes too long."""
        name = os.path.basename(argv[0])
        try:
            async with asyncio.timeout(seconds):
                done = await run(argv, env=_ENVIRONMENT, max_output=_LONGEST)
        except TimeoutError as error:
            raise HostError(f"{name} did not finish within {seconds:g} s and was ended") from error
        except OSError as error:
            raise HostError(f"{name} cannot be run: {words(error.strerror)}; install apt or PackageKit") from error
        if done.code != 0:
            raise HostError(f"{name} failed: {_reason(done)}")
        return done.stdout.decode(errors="replace")


def _reason(done: Completed) -> str:
    """Returns the lines with which apt says what is wrong."""
    lines = (done.stderr + b"\n" + done.stdout).decode(errors="replace").splitlines()
    errors = [line[2:] for line in lines if line.startswith("E:")]
    return words(" ".join(errors) or " ".join(lines[:3]) or f"it ended with {done.code}")


def _consequences(text: str) -> Consequences:
    """Returns what a simulation of apt says that it would do."""
    found = [_CONSEQUENCE.match(line) for line in text.splitlines()]
    lines = [each for each in found if each is not None]
    return Consequences(
        installed={each[2] for each in lines if each[1] == "Inst" and each[3] is None},
        updated={each[2] for each in lines if each[1] == "Inst" and each[3] is not None},
        removed={each[2] for each in lines if each[1] == "Remv"},
    )
