"""The group `filesystem` of the source `host`, through a runtime."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.tools.host.hosting import host_runtime, host_source, judged
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import ToolResult
from toolcaddie.guards.openat2 import problem
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.tools.host import HostSource

if problem():
    pytest.skip(problem(), allow_module_level=True)

pytestmark = pytest.mark.anyio


def settings_of(*roots: Mapping[str, Any], **settings: Any) -> Mapping[str, Any]:
    """Returns the settings of a source with these roots; without any, with those of the defaults."""
    return {"groups": ["filesystem"], "filesystem": {**({"roots": roots} if roots else {}), **settings}}


def source(*roots: Mapping[str, Any]) -> HostSource:
    return host_source(settings_of(*roots))


def runtime(*roots: Mapping[str, Any], **settings: Any) -> Runtime:
    return host_runtime(settings_of(*roots, **settings))


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[Runtime]:
    """A runtime with a folder to read and one to write."""
    for name in ("read", "write"):
        (tmp_path / name).mkdir()
    async with runtime({"path": str(tmp_path / "read")}, {"path": str(tmp_path / "write"), "write": True}) as made:
        yield made


async def read(made: Runtime, path: Path | str) -> ToolResult:
    return await made.call("read_file", {"path": str(path)})


async def write(made: Runtime, path: Path | str, content: str = "x") -> ToolResult:
    return await made.call("write_file", {"path": str(path), "content": content})


@pytest.mark.proves("R004-24")
async def test_files_are_written_read_and_listed_by_absolute_paths(tmp_path: Path, made: Runtime) -> None:
    folder = tmp_path / "write"
    wrote = await write(made, folder / "site" / "a.conf", "listen é\n")
    assert (wrote.success, wrote.structured) == (True, {"path": f"{folder}/site/a.conf", "bytes_written": 10})
    assert (await read(made, folder / "site" / "a.conf")).text == "listen é\n"
    listed = await made.call("list_directory", {"path": str(folder)})
    assert listed.structured == {"entries": [{"name": "site", "is_dir": True, "size": 0}], "complete": True}
    inner = await made.call("list_directory", {"path": f"{folder}/site"})
    assert inner.structured["entries"] == [{"name": "a.conf", "is_dir": False, "size": 10}]


@pytest.mark.proves("R004-24")
@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/etc/sudoers",
        "/etc/sudoers.d/admins",
        "/etc/../etc/shadow",
        "/etc/./SHADOW",
        "/etc/shadow-",
        "/proc/self/root/etc/shadow",
        "/var/log/../../etc/shadow",
        "/usr/../root/.ssh/id_rsa",
        "/etc/ssh/ssh_host_ed25519_key",
        "etc/hostname",
        "/etc/passwd\0.txt",
        "",
    ],
)
async def test_secrets_of_the_system_are_not_read(path: str) -> None:
    async with runtime() as made:
        result = await read(made, path)
    assert not result.success
    assert "root:" not in result.text


@pytest.mark.proves("R004-24")
@pytest.mark.parametrize(
    "path", ["/etc/motd", "/boot/vmlinuz", "/srv/x", "/etc/../boot/x", "/usr/lib/systemd/system/x.service"]
)
async def test_nothing_is_written_by_default(path: str) -> None:
    async with runtime() as made:
        result = await write(made, path)
    assert (result.success, "may" in result.text) == (False, True)


@pytest.mark.parametrize("path", ["/etc", "/boot", "/etc/nginx/..", "/usr/lib", "/", "/usr/bin"])
def test_a_folder_of_the_system_cannot_be_made_writable(path: str) -> None:
    with pytest.raises(ConfigError, match=r"is a folder of the system|is not a folder"):
        source({"path": path, "write": True})


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ({"path": "srv"}, "is not absolute"),
        ({"path": "/no/such/folder"}, "make it, or name another one"),
        ({"path": "/proc/1"}, "holds no ordinary files"),
        ({"path": "/srv", "append": True}, "append"),
    ],
)
def test_a_root_that_cannot_be_used_is_named_at_the_start(root: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        source(root)


async def test_no_path_or_link_leads_from_one_root_to_another(tmp_path: Path, made: Runtime) -> None:
    (tmp_path / "read" / "a").write_text("old")
    (tmp_path / "write" / "link").symlink_to(tmp_path / "read")
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "read" / "out").symlink_to(tmp_path / "outside")
    for path in ("write/../read/a", "write/link/a", "read/a", "read/new"):
        assert not (await write(made, tmp_path / path)).success, path
    for path in ("read/../outside", "read/out", "outside"):
        assert not (await read(made, f"{tmp_path}/{path}")).success, path
    assert (tmp_path / "read" / "a").read_text() == "old"


async def test_a_root_within_another_keeps_its_own_permissions(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "a").write_text("old")
    (tmp_path / "outer" / "way").symlink_to("inner")
    roots = ({"path": str(tmp_path / "outer"), "write": True}, {"path": str(inner)})
    async with runtime(*roots) as made:
        for path in ("outer/inner/a", "outer/./inner/a", "outer/way/a", "outer/x/../inner/a", "outer//inner/new"):
            assert not (await write(made, f"{tmp_path}/{path}")).success, path
        assert (await write(made, tmp_path / "outer" / "b")).success
        assert (await read(made, inner / "a")).text == "old"


async def test_a_file_that_not_everyone_may_read_needs_a_private_root(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("lines")
    (tmp_path / "log").chmod(0o640)
    async with runtime({"path": str(tmp_path)}) as made:
        assert "an operator can set private" in (await read(made, tmp_path / "log")).text
    async with runtime({"path": str(tmp_path), "private": True}) as made:
        assert (await read(made, tmp_path / "log")).text == "lines"


async def test_odd_files_are_described(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("a" * 200)
    (tmp_path / "binary").write_bytes(b"\0\1")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    async with runtime({"path": str(tmp_path)}, max_file_size_bytes=100) as made:
        assert (await read(made, tmp_path / "long")).text == "a" * 100 + "\n[only the first 100 bytes are shown]"
        assert "binary" in (await read(made, tmp_path / "binary")).text
        assert (await read(made, tmp_path / "empty")).text == "[the file is empty]"
        assert "not a regular file" in (await read(made, tmp_path / "pipe")).text
        assert (await read(made, tmp_path / "none")).text == f"there is no {tmp_path}/none"


async def test_a_person_sees_the_difference_and_the_effect_has_the_real_path(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "a").write_text("one\ntwo\n")
    (tmp_path / "way").symlink_to("conf")
    host = source({"path": str(tmp_path), "write": True})
    change = await judged(host, "write_file", {"path": f"{tmp_path}/way/a", "content": "one\nthree\n"})
    assert "-two\n+three" in change.preview
    assert change.effects == (f"file.write {tmp_path}/conf/a",)
    new = await judged(host, "write_file", {"path": f"{tmp_path}/new/b", "content": ""})
    assert new.effects == (f"file.write {tmp_path}/new/b",)
    outside = await judged(host, "write_file", {"path": "/etc/motd", "content": ""})
    assert "lies outside" in outside.refusal


async def test_the_tools_of_the_source_files_have_the_same_effect(tmp_path: Path) -> None:
    made = Registry().make("source", "files", {"base_path": str(tmp_path)}, Parts())
    wrote = await judged(made, "file_write", {"path": "a", "content": "x"})
    (tmp_path / "a").write_text("x")
    edit = await judged(made, "file_edit", {"path": "a", "old_text": "x", "new_text": "y"})
    assert wrote.effects == edit.effects == (f"file.write {tmp_path}/a",)
