"""A real ovsdb-server and ovs-vswitchd, with sockets and a database of their own, whose switches forward nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.tools.host.shelf import Person
from toolcaddie import Runtime
from toolcaddie.core.tool import ToolResult
from toolcaddie.parts import Parts
from toolcaddie.ports import Policy
from toolcaddie.registry import Registry
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider
from toolcaddie.tools.host import HostSource
from toolcaddie.tools.host.ovs import openflow

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
BRIDGE = "br0"
PROGRAMS = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl")


@dataclass(slots=True, kw_only=True)
class Machine:
    """A machine with Open vSwitch."""

    folder: Path
    """Of its sockets and its database. Its path is short, because that of a socket must be."""

    @property
    def database(self) -> str:
        return f"unix:{self.folder}/db.sock"

    def run(self, *command: str, accepted: tuple[int, ...] = (0,)) -> str:
        """Runs a program of Open vSwitch, and returns what it has written."""
        environ = {
            **os.environ,
            **dict.fromkeys(("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"), str(self.folder)),
        }
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode in accepted, f"{command}: {done.stderr}"
        return done.stdout

    def vsctl(self, *arguments: str) -> list[str]:
        """Returns the lines that `ovs-vsctl` writes."""
        return self.run("ovs-vsctl", f"--db={self.database}", "--timeout=10", *arguments).splitlines()

    def ofctl(self, command: str, bridge: str, *arguments: str) -> list[str]:
        """Returns the lines that `ovs-ofctl` writes about a bridge."""
        socket = f"{self.folder}/{bridge}.mgmt"
        return self.run("ovs-ofctl", "-O", "OpenFlow13", command, socket, *arguments).splitlines()

    def sessions(self) -> int:
        """Returns the number of connections to the database."""
        (control,) = self.folder.glob("ovsdb-server.*.ctl")
        parts = self.run("ovs-appctl", "-t", str(control), "memory/show").split()
        return next(int(part.partition(":")[2]) for part in parts if part.startswith("sessions:"))

    def start_database(self, *remotes: str) -> None:
        listening = [f"--remote=punix:{self.folder}/db.sock", *(f"--remote={remote}" for remote in remotes)]
        self._start("ovsdb-server", *listening, f"{self.folder}/conf.db")

    def start_vswitchd(self, *, override: bool = True) -> None:
        """Starts the daemon. `override`: all bridges forward nothing; otherwise those without a type cannot be made."""
        dummy = "--enable-dummy=override" if override else "--enable-dummy"
        self._start("ovs-vswitchd", dummy, "--disable-system", self.database)

    def stop(self, program: str) -> None:
        pid_file = self.folder / f"{program}.pid"
        with suppress(FileNotFoundError, ProcessLookupError):
            pid = int(pid_file.read_text())
            os.kill(pid, signal.SIGTERM)
            end = time.monotonic() + 10
            while pid_file.exists() and time.monotonic() < end:
                time.sleep(0.005)
            os.kill(pid, signal.SIGKILL)

    def clear(self) -> None:
        """Removes all bridges."""
        for bridge in self.vsctl("list-br"):
            self.vsctl("del-br", bridge)

    def _start(self, program: str, *arguments: str) -> None:
        paths = (f"--pidfile={self.folder}/{program}.pid", f"--log-file={self.folder}/{program}.log")
        self.run(program, "--detach", "--no-chdir", *paths, *arguments)


@contextmanager
def bare_machine() -> Iterator[Machine]:
    """Yields a machine whose database is initialised, but on which nothing runs."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing or not SCHEMA.exists():
        pytest.skip(f"Open vSwitch is not installed: {', '.join(missing) or SCHEMA} is missing")
    folder = Path(tempfile.mkdtemp(prefix="ovs"))
    machine = Machine(folder=folder)
    try:
        machine.run("ovsdb-tool", "create", f"{folder}/conf.db", str(SCHEMA))
        yield machine
    finally:
        machine.stop("ovs-vswitchd")
        machine.stop("ovsdb-server")
        shutil.rmtree(folder)


@contextmanager
def running_machine(*, override: bool = True) -> Iterator[Machine]:
    """Yields a machine on which Open vSwitch runs."""
    with bare_machine() as machine:
        machine.start_database()
        machine.vsctl("--no-wait", "init")
        machine.start_vswitchd(override=override)
        yield machine


@dataclass(slots=True, kw_only=True)
class Console:
    """A runtime with the tools for a machine."""

    runtime: Runtime
    source: HostSource
    person: Person

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        return await self.runtime.call(name, arguments)

    async def value(self, name: str, **arguments: Any) -> Any:
        """Returns the value of a call that succeeds."""
        result = await self.call(name, **arguments)
        assert result.success, result.text
        value = result.structured
        return value["result"] if isinstance(value, dict) and set(value) == {"result"} else value

    async def failure(self, name: str, **arguments: Any) -> str:
        """Returns the text of a call that fails."""
        result = await self.call(name, **arguments)
        assert result.is_error, result.text
        return result.text


@asynccontextmanager
async def console(machine: Machine, *, policy: Policy | None = None, **settings: Any) -> AsyncIterator[Console]:
    """Yields the tools for a machine. `settings`: those of the group `ovs` that are not usual."""
    registry = Registry()
    registry.add("state", "openflow", openflow)
    ovs = {"database": machine.database, "folder": str(machine.folder), "timeout": 5.0, **settings}
    config = {"groups": ["ovs", "plugins"], "plugins": ["openflow"], "ovs": ovs}
    source = registry.make("source", "host", config, Parts(store=MemoryStore()))
    person, provider = Person(), ScriptedProvider([])
    async with Runtime(provider=provider, sources=[source], approver=person, policy=policy) as runtime:
        yield Console(runtime=runtime, source=source, person=person)
