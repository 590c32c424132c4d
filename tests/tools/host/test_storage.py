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
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.tools.host.states.storage import storage

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


@pytest.mark.parametrize(
    "point", ["/", "/etc", "/etc/x", "/usr/lib", "/tmp", "/root/.ssh", "/proc/1", "mnt", "/mnt/../etc", "/mnt/a,suid"]
)
def test_a_point_of_the_system_is_refused_at_the_start(point: str) -> None:
    with pytest.raises(ConfigError, match=r"belongs to the system|is no plain absolute path"):
        storage(points=(point,))


async def test_without_settings_nothing_is_mounted_and_the_answer_says_so() -> None:
    assert await changing(storage()).query() == {}
    assert "there are: none" in await refusal({"/mnt/a": None}, points=())
