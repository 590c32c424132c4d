"""What somebody else puts into the folder of tools is never trusted, and never in the way of the other tools."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.authored.service import ANN, BEN, a_tool, approved, service
from toolcaddie.core.errors import RequestError, StorageError
from toolcaddie.storage.memory import MemoryStore

pytestmark = pytest.mark.anyio


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(5_000_000)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a link": link,
    "a pipe": pipe,
    "a large file": large,
    "no file": Path.unlink,
    "no JSON": lambda path: path.write_text("{"),
    "other bytes": lambda path: path.write_bytes(b"\xff\xfe"),
    "deep JSON": lambda path: path.write_text("[" * 100_000),
}


@pytest.mark.proves("R002-85")
@pytest.mark.parametrize("name", ["meta.json", "tool.json"])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_tool_is_skipped_listed_and_can_be_deleted(tmp_path: Path, damage: str, name: str) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship, a_tool(source="wc {{text}}", of="command"))
    other = await approved(authorship, a_tool("other_tool"))
    DAMAGES[damage](tmp_path / tool.id / name)
    assert [each.id for each in await authorship.list("default")] == [other.id]
    (broken,) = await authorship.broken("default")
    assert broken.name == tool.id
    assert "count_words" in broken.problem
    with pytest.raises(RequestError, match="broken"):
        await authorship.show("default", "count_words")
    await authorship.delete("default", "count_words")
    assert not await authorship.broken()


async def test_what_is_no_folder_of_a_tool_is_listed_and_never_opened(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship)
    (tmp_path / "../outside").mkdir()
    (tmp_path / "notes.txt").write_text("a")
    (tmp_path / f"tool_{'0' * 32}").symlink_to(tmp_path / tool.id)
    names = {each.name for each in await authorship.broken()}
    assert names == {"notes.txt", f"tool_{'0' * 32}"}
    assert [each.id for each in await authorship.list("default")] == [tool.id]


@pytest.mark.parametrize("key", ["../outside", "/etc", "..", "", "tool_/../x", "a\0b"])
async def test_a_key_is_no_path(tmp_path: Path, key: str) -> None:
    authorship = service(tmp_path / "tools")
    await approved(authorship)
    with pytest.raises(RequestError) as error:
        await authorship.delete("default", key)
    assert error.value.code == "unknown_tool"


async def test_a_folder_that_was_put_there_waits_for_approval_like_any_other(tmp_path: Path) -> None:
    """Another machine's approvals do not count here."""
    elsewhere = service(tmp_path / "elsewhere")
    tool = await approved(elsewhere)
    shutil.copytree(tmp_path / "elsewhere", tmp_path / "here")
    here = service(tmp_path / "here")
    (found,) = await here.list("default")
    assert (found.status, found.author, found.digest) == ("pending", None, tool.digest)
    assert (await here.approve("default", tool.id, digest=tool.digest, by=BEN)).status == "approved"
    with pytest.raises(RequestError, match="already"):
        await here.create(a_tool(), ANN)


async def test_a_folder_cannot_be_moved_to_another_tenant(tmp_path: Path) -> None:
    authorship = service(tmp_path)
    tool = await approved(authorship)
    meta = json.loads((tmp_path / tool.id / "meta.json").read_text())
    (tmp_path / tool.id / "meta.json").write_text(json.dumps({**meta, "tenant": "other"}))
    assert not await authorship.list("other")
    with pytest.raises(RequestError, match="there are none"):
        await authorship.approve("other", tool.id, digest=tool.digest)
    assert [each.name for each in await authorship.broken("default")] == [tool.id]


async def test_a_crash_between_two_writes_leaves_a_tool_that_waits(tmp_path: Path) -> None:
    """The record is written before the folder, and each file before the next one."""
    store = MemoryStore()
    authorship = service(tmp_path, store)
    tool = await approved(authorship)
    shutil.rmtree(tmp_path / tool.id)
    (broken,) = await authorship.broken("default")
    assert broken.name == tool.id
    await authorship.delete("default", "count_words")
    assert (await authorship.create(a_tool(), ANN)).status == "pending"


async def test_a_folder_that_became_a_link_is_not_followed_to_write_or_delete(tmp_path: Path) -> None:
    store = MemoryStore()
    authorship = service(tmp_path / "tools", store)
    tool = await approved(authorship)
    folder, elsewhere = tmp_path / "tools" / tool.id, tmp_path / "elsewhere"
    folder.rename(elsewhere)
    (elsewhere / "state.json").unlink()
    folder.symlink_to(elsewhere)
    await authorship.repair()
    await authorship.delete("default", "count_words")
    assert sorted(path.name for path in elsewhere.iterdir()) == ["meta.json", "tool.py", "versions"]
    assert not folder.is_symlink()


async def test_a_draft_that_cannot_be_stored_leaves_its_name_free(tmp_path: Path) -> None:
    store = MemoryStore()
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        await service(tmp_path / "file", store).create(a_tool(), ANN)
    assert (await service(tmp_path / "tools", store).create(a_tool(), ANN)).status == "pending"
