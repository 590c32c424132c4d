"""A private message bus, and services on it: the real PackageKit over a root of the test, or a scripted one."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import Message
from dbus_fast.aio import MessageBus

from tests.tools.host.package_root import PackageRoot
from tests.tools.host.scripted_packagekit import Polkit

_DAEMON = "/usr/libexec/packagekitd"
BUS = pytest.mark.skipif(not shutil.which("dbus-daemon"), reason="needs dbus-daemon")
PACKAGEKIT = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access(_DAEMON, os.X_OK) or not shutil.which("unshare"),
    reason="needs root, packagekitd and unshare",
)
_CONFIGURATION = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={path}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""
_FOLDERS = ("/var/lib/PackageKit", "/var/cache/PackageKit")
"""Folders of this machine in whose place the daemon sees folders of the test."""
_START = 'for each in {folders}; do mount --bind "$1" "$each" || exit 1; done; exec {daemon} --keep-environment'


@contextmanager
def private_bus(folder: Path) -> Iterator[str]:
    """Yields the address of a bus that ends with the `with` block."""
    path, configuration = folder / "bus", folder / "bus.conf"
    configuration.write_text(_CONFIGURATION.format(path=path))
    argv = ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--print-address=1"]
    with _process(argv, {}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield f"unix:path={path}"


@contextmanager
def packagekitd(folder: Path, bus: str, root: PackageRoot) -> Iterator[None]:
    """Runs the real daemon with its real back end for apt over a root, on a bus on which everything is permitted."""
    place = folder / "packagekit"
    place.mkdir()
    command = _START.format(folders=" ".join(_FOLDERS), daemon=_DAEMON)
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", command, "sh", str(place)]
    environment = {"DBUS_SYSTEM_BUS_ADDRESS": bus, "APT_CONFIG": str(root.configuration)}
    with serving(bus, _export_polkit), _process(argv, environment):
        asyncio.run(_owned(bus, "org.freedesktop.PackageKit"))
        yield


@contextmanager
def serving(bus: str, export: Callable[[Any], Awaitable[None]]) -> Iterator[None]:
    """Runs a service in a thread of its own until the end of the `with` block. `export` gives it a name and objects."""
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        connection = await MessageBus(bus).connect()
        await export(connection)
        started.set()
        await stop.wait()
        connection.disconnect()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


async def _export_polkit(connection: Any) -> None:
    connection.export("/org/freedesktop/PolicyKit1/Authority", Polkit())
    await connection.request_name("org.freedesktop.PolicyKit1")


async def _owned(bus: str, name: str) -> None:
    """Waits until a service has its name."""
    connection = await MessageBus(bus).connect()
    owner = Message(
        destination="org.freedesktop.DBus",
        path="/org/freedesktop/DBus",
        interface="org.freedesktop.DBus",
        member="NameHasOwner",
        signature="s",
        body=[name],
    )
    async with asyncio.timeout(20):
        while True:
            reply = await connection.call(owner)
            if reply is not None and reply.body == [True]:
                break
            await asyncio.sleep(0.02)
    connection.disconnect()


@contextmanager
def _process(argv: list[str], environment: dict[str, str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    process = subprocess.Popen(argv, env={**path, **environment}, stderr=subprocess.DEVNULL, **options)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
