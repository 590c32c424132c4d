"""A whole small machine for hostile calls: a real systemd with its bus, Open vSwitch, links and packet filters of a network
namespace, mounts of a mount namespace, users of a prefix, packages of a root, a folder of files, and a scripted server of
containers.

It must run in namespaces of its own: `security.hosts` starts it so. `security.host_facts` sees it from outside.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tools.host.incus_rules import FINGERPRINT
from tests.tools.host.incus_server import IncusServer
from tests.tools.host.netns import ip, nft
from tests.tools.host.ovs_rig import Machine, running_machine
from tests.tools.host.package_root import PackageRoot
from tests.tools.host.systemd_rig import RealSystemd, real_systemd
from toolcaddie.tools.host.source import PLUGINS

CANARY = "canary-5f2c-of-the-vault"
"""Text of a file outside of all roots, and of a password. No result may have it."""
LISTED = (
    "systemd.restart web.service",
    "ovs.add-port br0/p9",
    "firewall.set guest",
    "network.set nic0",
    "users.modify guest",
    "lxc.start web1",
)
"""The effects that the second policy allows."""
_PASSWD = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\nann:x:40001:40001:Ann:/home/ann:/bin/bash\n"
    "bob:x:40002:40002::/home/bob:/bin/sh\nguest:x:40003:40003:Guest:/home/guest:/bin/sh\n",
    "shadow": "root:$6$x:19000:0:99999:7:::\nann:$6$canary-5f2c-of-the-vault:19000:0:99999:7:::\nbob:!:19000:0:99999:7:::\n"
    "guest:!:19000:0:99999:7:::\n",
    "group": "root:x:0:\nsudo:x:27:ann\nann:x:40001:\nbob:x:40002:\nguest:x:40003:\nstaff:x:40050:ann\n",
    "gshadow": "root:*::\nsudo:*::ann\nann:!::\nbob:!::\nguest:!::\nstaff:!::ann\n",
    "shells": "/bin/sh\n/bin/bash\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The machine while it runs."""

    folder: Path
    systemd: RealSystemd
    ovs: Machine
    containers: IncusServer

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the source `host` for this machine."""
        units = {"units": ["web", "other", "idle"], "bus": self.systemd.address, "timeout": 5.0, "job_timeout": 10.0}
        openvswitch = {"database": self.ovs.database, "folder": str(self.ovs.folder), "timeout": 5.0}
        roots = [{"path": str(self.folder / "shown")}, {"path": str(self.folder / "written"), "write": True}]
        points = [str(self.folder / "mnt" / name) for name in ("a", "b")]
        return {
            "groups": ["filesystem", "shell", "system", "systemd", "ovs", "plugins"],
            "plugins": list(PLUGINS),
            "confirm_seconds": 600.0,
            "systemd": units,
            "ovs": openvswitch,
            "filesystem": {"roots": roots},
            "shell": {"workdir": str(self.folder / "work"), "programs": list(PROGRAMS), "timeout": 5.0},
            "plugin": {
                "users": {"prefix": str(self.folder / "system"), "system_groups": []},
                "packagekit": {
                    "packages": ["alpha", "beta*", "gamma", "base-os"],
                    "manager": "apt",
                    "root": str(self.folder / "packages/root"),
                },
                "storage": {"points": points, "sources": ["tmpfs", str(self.folder / "shown")]},
                "lxc": {
                    "images": {FINGERPRINT: ""},
                    "profiles": ["default"],
                    "socket": str(self.folder / "containers.socket"),
                },
            },
        }

    def note(self, text: str) -> None:
        """Puts a text of a stranger where the tools read it."""
        (self.folder / "shown" / "note.txt").write_text(text, errors="replace")


PROGRAMS = ("sh", "echo", "cat", "ls", "find", "ip", "nft", "ovs-vsctl", "ovs-ofctl", "systemctl", "touch", "python3")
"""The programs that may be named: also those that do what the tools do."""


@contextmanager
def running_world() -> Iterator[World]:
    """Runs the machine. Skips, as a test does, where it cannot run; then somebody has to catch `pytest.skip.Exception`."""
    containers = IncusServer()
    for name in ("web1", "web2"):
        containers.add(name)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hosts-")))
        systemd = stack.enter_context(real_systemd())
        ovs = stack.enter_context(running_machine())
        stack.enter_context(containers.serving(folder / "containers.socket"))
        world = World(folder=folder, systemd=systemd, ovs=ovs, containers=containers)
        _furnish(world)
        try:
            yield world
        finally:
            subprocess.run(["umount", "--quiet", *(world.folder / "mnt").iterdir()], check=False)


def _furnish(world: World) -> None:
    for name in ("shown", "written/sub", "vault", "system/etc", "system/home", "mnt/a", "mnt/b", "packages"):
        (world.folder / name).mkdir(parents=True)
    (world.folder / "vault/secret.txt").write_text(CANARY)
    (world.folder / "shown/readme.txt").write_text("hello\n")
    (world.folder / "shown/way-out").symlink_to(world.folder / "vault")
    (world.folder / "written/way-out").symlink_to(world.folder / "vault")
    (world.folder / "written/old.txt").write_text("old\n")
    for name, text in _PASSWD.items():
        (world.folder / "system/etc" / name).write_text(text)
    PackageRoot.stocked(world.folder / "packages").install("gamma")
    for name in ("web.service", "other.service", "idle.service", "secret.service"):
        world.systemd.service(name, "/bin/sleep 100000")
    world.systemd.control("daemon-reload")
    world.systemd.control("start", "web.service", "other.service", "secret.service").check_returncode()
    world.ovs.vsctl(
        "add-br", "br0", "--", "add-port", "br0", "p1", "--", "add-br", "br1", "--", "add-port", "br1", "p2"
    )
    world.ovs.ofctl("add-flow", "br0", "table=3,priority=7,tcp,tp_dst=80,actions=drop")
    ip("link", "set", "lo", "up")
    ip("link", "add", "nic0", "type", "veth", "peer", "name", "nic1")
    ip("addr", "add", "10.88.0.1/24", "dev", "nic0")
    for name in ("nic0", "nic1"):
        ip("link", "set", name, "up")
    nft("add", "table", "inet", "others")
    nft("add", "chain", "inet", "others", "input", "{ type filter hook input priority 0 ; }")
    nft("add", "rule", "inet", "others", "input", "tcp", "dport", "22", "accept")
