"""A real systemd, the manager of a user, in a small world of its own: with a bus, `/run`, `/tmp` and processes that nobody
else has, and a control group that is removed with it.

It reads the whole machine and writes to its own folder only. All its processes end with the one that started it.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

_BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
    {denial}
  </policy>
</busconfig>
"""
_SCRIPT = """
mkfifo "$HOME/address"
dbus-daemon --config-file="$HOME/bus.conf" --nofork --nopidfile --print-address=3 3>"$HOME/address" &
read address <"$HOME/address"
exec systemd --user --unit=default.target
"""
_FILES = {
    "dbus.socket": "[Socket]\nListenStream=%t/unused\n",
    "dbus.service": "[Unit]\nRequires=dbus.socket\n[Service]\nExecStart=/bin/sleep infinity\n",
    "default.target": "[Unit]\nRequires=dbus.service\nAfter=dbus.service\n",
}
"""Unit files. systemd connects to the bus when units with these names run; here it is started before them."""
_PROGRAMS = ("bwrap", "dbus-daemon", "systemd", "systemctl", "systemd-run", "busctl", "gdbus", "bash")
_STARTING_SECONDS = 30.0


@dataclass(frozen=True)
class RealSystemd:
    """A systemd that runs."""

    folder: Path
    group: Path

    @property
    def address(self) -> str:
        return f"unix:path={self.folder}/run/bus"

    @property
    def units(self) -> Path:
        """The folder of unit files."""
        return self.folder / "config/systemd/user"

    def write(self, name: str, text: str) -> None:
        (self.units / name).write_text(text)

    def service(self, name: str, command: str, *, service: str = "", unit: str = "", install: bool = True) -> None:
        """Writes the unit file of a service."""
        end = "[Install]\nWantedBy=default.target\n" if install else ""
        self.write(name, f"[Unit]\nDescription=Test {name}\n{unit}\n[Service]\nExecStart={command}\n{service}\n{end}")

    def control(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs `systemctl`, to see what is true without the code under test."""
        return self._run("systemctl", "--user", *words)

    def run_transient(self, name: str) -> None:
        """Starts a service that has no unit file."""
        self._run("systemd-run", "--user", "--collect", f"--unit={name}", "/bin/sleep", "1000").check_returncode()

    def names_on_the_bus(self) -> list[str]:
        """Returns the unique names of all connections."""
        lines = self._run("busctl", f"--address={self.address}", "--no-legend", "list", "--unique").stdout.splitlines()
        return [line.split()[0] for line in lines]

    def emit(self, receiver: str, signal: str, *values: str) -> None:
        """Sends a signal in the words of systemd, as somebody else; to everybody if the receiver is empty."""
        to = ["--destination", receiver] if receiver else []
        place = ("/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", signal)
        self._run("busctl", f"--address={self.address}", *to, "emit", *place, *values).check_returncode()

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": "/usr/bin:/bin", "DBUS_SESSION_BUS_ADDRESS": self.address}
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)

    def kill(self) -> None:
        """Kills systemd, its bus and all that it has started, and waits for their end."""
        _end(self.group)


@contextmanager
def real_systemd(*, denied: str = "") -> Iterator[RealSystemd]:
    """Runs a systemd. Skips the test with the reason on a machine where none can run. `denied`: a method that its bus lets nobody
    call."""
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"this machine has no {', '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="systemd-") as path, _control_group() as group:
        world = RealSystemd(Path(path), group)
        world.units.mkdir(parents=True)
        for folder in ("run", "home"):
            (world.folder / folder).mkdir(mode=0o700)
        interface, _, member = denied.rpartition(".")
        denial = f'<deny send_interface="{interface}" send_member="{member}"/>' if denied else ""
        (world.folder / "home/bus.conf").write_text(_BUS.format(socket=world.folder / "run/bus", denial=denial))
        for name, text in _FILES.items():
            world.write(name, text)
        yield from _running(world)


def _running(world: RealSystemd) -> Iterator[RealSystemd]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, (world.folder / "errors").open("w") as errors:
        ready.bind(str(world.folder / "ready"))
        ready.settimeout(_STARTING_SECONDS)
        process = subprocess.Popen(
            ["bash", "-c", f'echo $$ > "{world.group}/cgroup.procs" && exec "$@"', "bash", *_command(world)],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
        )
        try:
            _await_start(world, ready)
            yield world
        finally:
            process.kill()  # bwrap is the first process of its namespace, so all others end with it
            process.wait(timeout=30)


def _await_start(world: RealSystemd, ready: socket.socket) -> None:
    """Waits until systemd says that it has started, and is on the bus. Skips the test if it does not."""
    try:
        while b"READY=1" not in ready.recv(4096):
            pass
        subprocess.run(
            ["gdbus", "wait", "--session", "--timeout", str(int(_STARTING_SECONDS)), "org.freedesktop.systemd1"],
            env={**os.environ, "DBUS_SESSION_BUS_ADDRESS": world.address},
            check=True,
        )
    except (TimeoutError, subprocess.CalledProcessError):
        pytest.skip(f"no systemd runs here: {(world.folder / 'errors').read_text()[-500:]}")


def _command(world: RealSystemd) -> list[str]:
    folder = str(world.folder)
    environ = {
        "PATH": "/usr/bin:/bin",
        "NOTIFY_SOCKET": f"{folder}/ready",
        "HOME": f"{folder}/home",
        "XDG_RUNTIME_DIR": f"{folder}/run",
        "XDG_CONFIG_HOME": f"{folder}/config",
        "XDG_CONFIG_DIRS": f"{folder}/home",
        "XDG_DATA_HOME": f"{folder}/home",
    }
    return [
        *("bwrap", "--ro-bind", "/", "/", "--tmpfs", "/run", "--dir", "/run/systemd/system", "--tmpfs", "/tmp"),
        *("--bind", folder, folder, "--proc", "/proc", "--dev", "/dev", "--bind", str(world.group), "/sys/fs/cgroup"),
        *("--unshare-pid", "--unshare-ipc", "--unshare-cgroup", "--die-with-parent", "--clearenv"),
        *(word for name, value in environ.items() for word in ("--setenv", name, value)),
        *("bash", "-c", _SCRIPT),
    ]


@contextmanager
def bus_alone() -> Iterator[str]:
    """Runs a bus without systemd, and yields its address."""
    if shutil.which("dbus-daemon") is None:
        pytest.skip("this machine has no dbus-daemon")
    with tempfile.TemporaryDirectory(prefix="bus-") as path:
        file = Path(path) / "bus.conf"
        file.write_text(_BUS.format(socket=Path(path) / "bus", denial=""))
        command = ["dbus-daemon", f"--config-file={file}", "--nofork", "--nopidfile", "--print-address"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().split(",")[0].strip()
            finally:
                process.kill()


@contextmanager
def _control_group() -> Iterator[Path]:
    """Makes a control group below that of this process. systemd moves all processes of its root group, so it gets one of its
    own."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
    roots = [
        root for root in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if (root / "cgroup.procs").exists()
    ]
    if not roots:
        pytest.skip("this machine has no control groups of version 2")
    group = roots[0] / own.strip("/") / f"systemd-test-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"this user may not make a control group: {error}")
    try:
        yield group
    finally:
        _end(group)
        for path in sorted(group.rglob("*/"), key=lambda each: len(each.parts), reverse=True):
            with suppress(OSError):
                path.rmdir()
        group.rmdir()


def _end(group: Path) -> None:
    """Kills what is left in a control group, and waits until it is empty."""
    (group / "cgroup.kill").write_text("1")
    poll = select.poll()
    with (group / "cgroup.events").open() as events:
        poll.register(events, select.POLLPRI)
        while "populated 1" in events.read():
            assert poll.poll(30_000), f"the processes of {group} do not end"
            events.seek(0)
