"""The plugin `storage`: its rules, and its changes in a mount namespace of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tools.host.plugin_properties import changing
from toolcaddie import Runtime
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.states import Change
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider
from toolcaddie.tools.host.states.storage import storage
from toolcaddie.tools.host.states.storage.reading import Mount, disks_of

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="mounts are read on Linux only")]

_UNSHARE = ("unshare", "--mount", "--propagation", "private")


def may_unshare() -> bool:
    return shutil.which("unshare") is not None and subprocess.run([*_UNSHARE, "true"], check=False).returncode == 0


@pytest.mark.proves("R004-29", "R004-31")
@pytest.mark.skipif(not may_unshare(), reason="this machine makes no mount namespaces for this user")
def test_mounts_are_changed_and_undone_in_a_namespace_of_their_own(tmp_path: Path) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    inner = Path(__file__).with_name("storage_in_namespace.py")
    pytest_options = ("-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/inner")
    ran = subprocess.run(
        [*_UNSHARE, sys.executable, "-m", "pytest", *pytest_options, str(inner)],
        env={**os.environ, "TOOLCADDIE_OUTER_MOUNTS": os.readlink("/proc/self/ns/mnt")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout[-5_000:]
    assert Path("/proc/self/mountinfo").read_text() == before


async def refusal(desired: dict[str, Any], **settings: Any) -> str:
    given = {"points": ("/mnt/a",), "sources": ("tmpfs", "/srv/data", "/dev/sdb1"), **settings}
    with pytest.raises(RequestError) as refused:
        await changing(storage(**given)).difference(desired)
    return str(refused.value)


@pytest.mark.parametrize(
    ("desired", "words"),
    [
        ({"/mnt/b": {"source": "tmpfs"}}, "no mount point of the settings; there are: /mnt/a"),
        ({"/mnt/a/": {"source": "tmpfs"}}, "no mount point"),
        ({"/mnt/a/../../etc": {"source": "tmpfs"}}, "no mount point"),
        ({"/mnt/a": {}}, "no source of the settings"),
        ({"/mnt/a": {"source": "/etc"}}, "no source of the settings"),
        ({"/mnt/a": {"source": "/srv/data/../../etc"}}, "no source of the settings"),
        ({"/mnt/a": {"source": "--bind"}}, "no source of the settings"),
        ({"/mnt/a": {"source": "/srv/data", "size": 4096}}, "only a tmpfs has a size"),
        ({"/mnt/a": {"source": "/srv/data", "fstype": "proc"}}, "is one of bind"),
        ({"/mnt/a": {"source": "/dev/sdb1"}}, "is one of btrfs"),
        ({"/mnt/a": {"source": "/dev/sdb1", "fstype": "overlay"}}, "is one of btrfs"),
        ({"/mnt/a": {"source": "tmpfs", "size": 2 << 30}}, "at most 1,073,741,824 bytes"),
    ],
)
async def test_only_what_the_settings_name_is_mounted(desired: dict[str, Any], words: str) -> None:
    assert words in await refusal(desired)


async def test_a_device_is_planned_with_the_options_that_are_always_there() -> None:
    plugin = storage(points=("/mnt/a",), sources=("/dev/sdb1",))
    diff = await changing(plugin).difference({"/mnt/a": {"source": "/dev/sdb1", "fstype": "ext4"}})
    assert diff.changes[0].after == {"source": "/dev/sdb1", "fstype": "ext4", "options": ["nodev", "nosuid"]}
    assert plugin.effects(diff.changes[0]) == ("storage.mount /mnt/a",)


def test_a_mount_with_another_file_system_has_the_effect_of_the_unmount_too() -> None:
    before = {"source": "/dev/sdb1", "fstype": "ext4", "options": ["nodev", "nosuid"]}
    change = Change(action="modify", target="/mnt/a", before=before, after={**before, "fstype": "xfs"})
    assert storage().effects(change) == ("storage.unmount /mnt/a", "storage.mount /mnt/a")


@pytest.mark.parametrize(
    "point", ["/", "/etc", "/etc/x", "/usr/lib", "/tmp", "/root/.ssh", "/proc/1", "mnt", "/mnt/../etc", "/mnt/a,suid"]
)
def test_a_point_of_the_system_is_refused_at_the_start(point: str) -> None:
    with pytest.raises(ConfigError, match=r"belongs to the system|is no plain absolute path"):
        storage(points=(point,))


async def test_without_settings_nothing_is_mounted_and_the_answer_says_so() -> None:
    assert await changing(storage()).query() == {}
    assert "there are: none" in await refusal({"/mnt/a": None}, points=())


async def test_without_settings_the_query_shows_how_full_the_disk_is() -> None:
    source = Registry().make(
        "source", "host", {"groups": ["plugins"], "plugins": ["storage"]}, Parts(store=MemoryStore())
    )
    async with Runtime(provider=ScriptedProvider([]), sources=[source]) as runtime:
        value = (await runtime.call("plugin_storage_query", {})).structured
        other = (await runtime.call("plugin_storage_query", {"filter": "/nowhere*"})).structured
    size = os.statvfs("/")
    assert value["state"] == other["measures"] == {}
    assert value["measures"]["/"]["bytes"] == size.f_blocks * size.f_frsize


def test_only_disks_of_this_machine_are_measured_each_once() -> None:
    lines = [
        ("/", "8:1", "ext4", "/dev/sda1"),
        ("/var/lib/docker", "8:1", "ext4", "/dev/sda1"),
        ("/home", "253:0", "xfs", "/dev/mapper/vg-home"),
        ("/snap/core/1", "7:0", "squashfs", "/dev/loop0"),
        ("/mnt/share", "0:50", "nfs4", "server:/share"),
        ("/mnt/phone", "0:51", "fuse.mtp", "/dev/fuse"),
        ("/proc", "0:5", "proc", "proc"),
    ]
    mounts = [
        Mount(point=point, device=device, root="/", fstype=kind, source=source, options=frozenset(), all_options={})
        for point, device, kind, source in lines
    ]
    assert disks_of(mounts) == ["/", "/home"]
