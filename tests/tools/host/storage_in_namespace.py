"""The plugin `storage` against the kernel. `test_storage.py` runs these tests in a mount namespace of their own."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.tools.host.plugin_properties import changing, check_properties
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.errors import HostError, RequestError
from toolcaddie.core.states import DesiredState
from toolcaddie.parts import Parts
from toolcaddie.ports import StatePlugin
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.states.changing import Applied, Changing
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider
from toolcaddie.testing.part_contracts import STATE, StateSubject, check_all
from toolcaddie.tools.host import host as host_tools
from toolcaddie.tools.host.states.storage import storage

pytestmark = pytest.mark.anyio

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def own_namespace() -> None:
    own = os.readlink("/proc/self/ns/mnt")
    assert own != os.environ["TOOLCADDIE_OUTER_MOUNTS"], "these tests mount, and so need a namespace"
    with suppress(PermissionError):  # process 1 may belong to another user namespace
        assert own != os.readlink("/proc/1/ns/mnt")
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    assert not any(" shared:" in line for line in lines), "what is mounted here would be seen outside"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b", "a/inner", "data", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "file").write_text("content")
    return tmp_path


def plugin(folder: Path) -> StatePlugin:
    points = tuple(str(folder / name) for name in ("a", "b", "none"))
    sources = ("tmpfs", str(folder / "data"), str(folder / "other"))
    return storage(points=points, sources=sources, tmpfs_bytes=4 * MEGABYTE)


@pytest.fixture
def host(folder: Path) -> Changing:
    return changing(plugin(folder))


async def made(host: Changing, desired: DesiredState) -> Applied:
    return await host.apply(await host.difference(desired))


async def test_a_folder_is_seen_at_another_place_without_its_permissions(folder: Path, host: Changing) -> None:
    point = str(folder / "a")
    undo = (await made(host, {point: {"source": str(folder / "data"), "options": ["ro"]}})).undo
    assert await host.query() == {
        point: {"source": str(folder / "data"), "fstype": "bind", "options": ["nodev", "nosuid", "ro"]}
    }
    assert (folder / "a" / "file").read_text() == "content"
    with pytest.raises(OSError, match="Read-only"):
        (folder / "a" / "new").touch()
    await made(host, {point: {"options": ["noexec"]}})
    (folder / "a" / "new").touch()
    assert (folder / "data" / "new").exists()
    assert (await host.query())[point]["options"] == ["nodev", "noexec", "nosuid"]
    assert undo is not None
    await made(host, {point: None})
    assert (await host.query(), list((folder / "a").iterdir())) == ({}, [folder / "a" / "inner"])


async def test_a_tmpfs_has_the_size_that_was_given_in_whole_pages(folder: Path, host: Changing) -> None:
    point = str(folder / "b")
    await made(host, {point: {"source": "tmpfs", "size": MEGABYTE - 1}})
    assert (await host.query())[point] == {
        "source": "tmpfs",
        "fstype": "tmpfs",
        "options": ["nodev", "nosuid"],
        "size": MEGABYTE,
    }
    status = os.statvfs(point)
    assert status.f_blocks * status.f_frsize == MEGABYTE
    await made(host, {point: {"size": 2 * MEGABYTE, "options": ["ro"]}})
    await made(host, {point: {"options": []}})
    (folder / "b" / "file").write_bytes(b"x" * (2 * MEGABYTE - 8192))
    with pytest.raises(HostError, match="mount failed"):
        await made(host, {point: {"size": MEGABYTE}})
    assert (await host.query())[point]["size"] == 2 * MEGABYTE


async def test_the_query_shows_used_bytes_that_are_no_part_of_the_state(folder: Path, host: Changing) -> None:
    registry = Registry()
    registry.add("state", "storage", lambda: plugin(folder))
    made_host = host_tools(
        groups=("plugins",), plugins=("storage",), parts=Parts(store=MemoryStore()), registry=registry
    )
    await made(host, {str(folder / "a"): {"source": "tmpfs", "size": MEGABYTE}})
    async with Runtime(provider=ScriptedProvider([]), sources=[made_host], policy=AllowAll()) as runtime:
        first = (await runtime.call("plugin_storage_query", {})).structured
        (folder / "a" / "file").write_bytes(b"x" * 8192)
        second = (await runtime.call("plugin_storage_query", {"filter": "*/a"})).structured
        other = (await runtime.call("plugin_storage_query", {"filter": "*/b"})).structured
    assert first["measures"][str(folder / "a")] == {"bytes": MEGABYTE, "used_bytes": 0, "free_bytes": MEGABYTE}
    assert second["measures"][str(folder / "a")]["used_bytes"] == 8192
    assert (first["version"], other["measures"]) == (second["version"], {})


async def test_the_plugin_keeps_its_contract(folder: Path) -> None:
    desired = {str(folder / "a"): {"source": "tmpfs", "size": MEGABYTE}}
    await check_all(StateSubject(name="storage", make=lambda: plugin(folder), desired=desired), STATE)


async def test_a_mount_that_is_in_use_stays(folder: Path, host: Changing) -> None:
    point = str(folder / "a")
    await made(host, {point: {"source": "tmpfs"}})
    with (folder / "a" / "open").open("w"), pytest.raises(HostError, match=r"busy.*Nothing is changed"):
        await made(host, {point: None})
    assert point in await host.query()


async def test_another_source_takes_the_place_of_the_old_one(folder: Path, host: Changing) -> None:
    point = str(folder / "a")
    await made(host, {point: {"source": "tmpfs", "size": MEGABYTE}})
    diff = await host.difference({point: {"source": str(folder / "other")}})
    (change,) = diff.changes
    assert host.plugin.effects(change) == (f"storage.unmount {point}", f"storage.mount {point}")
    assert "for good" in host.plugin.question(change)
    undo = (await host.apply(diff)).undo
    assert (await host.query())[point]["fstype"] == "bind"
    assert undo is not None
    await host.apply(undo)
    assert (await host.query())[point]["size"] == MEGABYTE


async def test_a_failure_in_the_middle_undoes_what_was_mounted(folder: Path, host: Changing) -> None:
    desired = {str(folder / name): {"source": "tmpfs"} for name in ("a", "b", "none")}
    with pytest.raises(HostError, match=r"none is no folder.*undone"):
        await made(host, desired)
    assert await host.query() == {}


async def test_a_point_that_is_a_link_is_refused(folder: Path, host: Changing) -> None:
    (folder / "none").symlink_to("b")
    with pytest.raises(HostError, match="reached through a link"):
        await made(host, {str(folder / "none"): {"source": "tmpfs"}})


async def test_what_others_have_mounted_is_shown_and_not_changed(folder: Path, host: Changing) -> None:
    (folder / "foreign").mkdir()
    foreign, weak = str(folder / "a"), str(folder / "b")
    _output("mount", "--bind", str(folder / "foreign"), foreign)
    _output("mount", "-t", "tmpfs", "-o", "size=4096", "tmpfs", weak)
    state = await host.query()
    assert state[foreign]["source"].endswith(f"[{_in_file_system(folder / 'foreign')}]")
    assert state[weak]["options"] == []
    for point in (foreign, weak):
        for change in (None, {"options": ["ro"]}, {"source": "tmpfs", "size": 4096}):
            with pytest.raises(RequestError, match=r"could not be mounted again|is no source"):
                await host.difference({point: change})
    assert await host.query() == state


def _in_file_system(folder: Path) -> str:
    """Returns the path of a folder within its file system."""
    root, mount = (_output("findmnt", "-n", "-o", what, "-T", str(folder)) for what in ("FSROOT", "TARGET"))
    return str(Path(root) / folder.relative_to(mount))


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_random_states_are_reached_and_left_again(folder: Path) -> None:
    options = st.lists(st.sampled_from(["ro", "noexec", "nodev"]), unique=True)
    places = st.sampled_from([str(folder / "data"), str(folder / "other")])
    sizes = st.integers(1, 4 * MEGABYTE)
    memory = st.fixed_dictionaries({"source": st.just("tmpfs")}, optional={"size": sizes, "options": options})
    bound = st.fixed_dictionaries({"source": places}, optional={"options": options})
    states = st.none() | memory | bound
    desired: st.SearchStrategy[DesiredState] = st.fixed_dictionaries(
        {}, optional={str(folder / name): states for name in ("a", "b")}
    )
    check_properties(lambda: plugin(folder), desired)
