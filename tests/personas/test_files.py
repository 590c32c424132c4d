"""The files of bots: versions, concurrent writers, paths, and folders in and out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import Author, PersonaKey
from toolcaddie.personas import StoredPersonas
from toolcaddie.personas.folders import import_content, read_folder, write_folder
from toolcaddie.ports import Store
from toolcaddie.storage.memory import MemoryStore

pytestmark = pytest.mark.anyio

COACH = PersonaKey(tenant="default", bot="coach")
ANN = Author(who="default/ann", run_id="run_1", taint=("read_page",))


@pytest.fixture
def files(store: Store) -> StoredPersonas:
    return StoredPersonas(store, clock=lambda: 7.0)


async def test_each_write_is_a_version_with_its_author_and_ten_former_ones_stay(files: StoredPersonas) -> None:
    for number in range(15):
        await files.write(COACH, "SOUL.md", f"I am {number}, é 🦉\r\n", author=ANN, expected=number, note=str(number))
    versions = await files.versions(COACH, "SOUL.md")
    assert [file.text for file in versions] == [f"I am {number}, é 🦉\r\n" for number in range(4, 15)]
    assert [(file.version, file.note) for file in versions] == [(number + 1, str(number)) for number in range(4, 15)]
    assert {(file.author, file.at) for file in versions} == {(ANN, 7.0)}


async def test_who_has_read_an_old_version_writes_nothing(files: StoredPersonas) -> None:
    await files.write(COACH, "SOUL.md", "one", author=ANN, expected=0)
    assert await files.write(COACH, "SOUL.md", "two", author=ANN, expected=0) is None
    assert await files.write(COACH, "SOUL.md", "two", author=ANN, expected=7) is None
    assert (await files.read_many(COACH, ["SOUL.md", "GOALS.md"]))["SOUL.md"].text == "one"


async def test_of_many_writers_in_two_processes_none_is_lost(stores: tuple[Store, Store]) -> None:
    desks = [*map(StoredPersonas, stores)]

    async def add(number: int) -> None:
        files = desks[number % 2]
        while True:
            old = await files.read(COACH, "GOALS.md")
            text, version = ("", 0) if old is None else (old.text, old.version)
            if await files.write(COACH, "GOALS.md", f"{text}{number}\n", author=ANN, expected=version):
                return

    await asyncio.gather(*map(add, range(20)))
    file = await desks[0].read(COACH, "GOALS.md")
    assert file is not None
    assert sorted(map(int, file.text.split())) == [*range(20)]
    assert file.version == 20


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "/etc/passwd",
            "../SOUL.md",
            "notes/../SOUL.md",
            "notes/.hidden.md",
            "notes/a.txt",
            "notes//a.md",
            "notes/.md",
        ),
        *("soul.md", "other.md", "memory/today.md", "memory/2026-02-30.md", "memory/a/2026-05-03.md", "notes\\a.md"),
        *("notes/a\x00.md", "notes/a\u202e.md", "notes/a\\b.md", f"notes/{'a' * 300}.md"),
    ],
)
async def test_a_path_that_no_persona_has_is_refused(path: str) -> None:
    files = StoredPersonas(MemoryStore())
    for work in (
        lambda: files.read(COACH, path),
        lambda: files.versions(COACH, path),
        lambda: files.write(COACH, path, "x", author=ANN, expected=None),
        lambda: files.delete(COACH, path, author=ANN),
    ):
        with pytest.raises(RequestError, match="is not the path of a persona file"):
            await work()


async def test_a_text_that_is_too_long_or_cannot_be_stored_is_refused() -> None:
    files = StoredPersonas(MemoryStore())
    for text, problem in (("é" * 131_073, "at most 262,144"), ("\ud800", "half of a surrogate pair")):
        with pytest.raises(RequestError, match=problem):
            await files.write(COACH, "SOUL.md", text, author=ANN, expected=None)


async def test_bots_and_tenants_see_only_their_own_files(files: StoredPersonas) -> None:
    await files.write(COACH, "SOUL.md", "x", author=ANN, expected=0)
    for tenant, bot in (("acme", "coach"), ("default", "coac"), ("default", "coach2")):
        assert await files.paths(PersonaKey(tenant=tenant, bot=bot)) == []


async def test_a_deleted_file_can_be_put_back_and_a_forgotten_one_cannot(files: StoredPersonas) -> None:
    await files.write(COACH, "SOUL.md", "x", author=ANN, expected=0)
    assert await files.delete(COACH, "SOUL.md", author=ANN)
    assert not await files.delete(COACH, "SOUL.md", author=ANN)
    assert await files.read(COACH, "SOUL.md") is None
    assert [file.text for file in await files.versions(COACH, "SOUL.md")] == ["x", ""]
    assert await files.write(COACH, "SOUL.md", "x", author=ANN, expected=0)
    assert await files.delete(COACH, "SOUL.md", author=ANN, forget=True)
    assert await files.versions(COACH, "SOUL.md") == []


async def test_the_folder_of_a_bot_is_read_once(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "coach"
    folder.mkdir()
    (folder / "SOUL.md").write_text("from the folder")
    files = StoredPersonas(store, folders={"coach": folder})
    assert [file.text for file in await files.paths(COACH)] == ["from the folder"]
    (folder / "SOUL.md").write_text("edited later")
    await files.delete(COACH, "SOUL.md", author=ANN, forget=True)
    assert await StoredPersonas(store, folders={"coach": folder}).paths(COACH) == []


async def test_a_folder_goes_out_and_comes_in_and_neither_side_is_overwritten(
    files: StoredPersonas, tmp_path: Path
) -> None:
    folder = tmp_path / "coach"
    for path, text in (("SOUL.md", "soul\r\n"), ("notes/a/b.md", "note")):
        await files.write(COACH, path, text, author=ANN, expected=0)
    assert write_folder(folder, await files.paths(COACH)).written == ("SOUL.md", "notes/a/b.md")
    assert (folder / "SOUL.md").read_bytes() == b"soul\r\n"
    (folder / "notes/a/b.md").write_text("edited")
    (folder / "notes/new.md").write_text("new")
    await files.write(COACH, "SOUL.md", "changed", author=ANN, expected=1)
    (folder / "SOUL.md").write_text("edited too")
    first = await import_content(files, COACH, read_folder(folder), author=ANN)
    assert (first.written, first.changed) == (("notes/a/b.md", "notes/new.md"), ("SOUL.md",))
    assert write_folder(folder, await files.paths(COACH)).changed == ("SOUL.md",)
    second = await import_content(files, COACH, read_folder(folder), author=ANN, overwrite=True)
    assert (second.written, second.unchanged) == (("SOUL.md",), ("notes/a/b.md", "notes/new.md"))


async def test_links_that_leave_a_folder_are_refused_both_ways(files: StoredPersonas, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "coach"
    folder.mkdir()
    (folder / "SOUL.md").symlink_to(tmp_path / "secret")
    with pytest.raises(RequestError, match="is a link"):
        read_folder(folder)
    await files.write(COACH, "SOUL.md", "overwritten", author=ANN, expected=0)
    with pytest.raises(RequestError, match="is a link"):
        write_folder(folder, await files.paths(COACH), overwrite=True)
    assert (tmp_path / "secret").read_text() == "secret"


@pytest.mark.parametrize(
    ("content", "problem"), [(b"\xff", "is not text in UTF-8"), (b"x" * 262_145, "more than 262,144")]
)
def test_a_file_of_a_folder_that_cannot_be_stored_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "SOUL.md").write_bytes(content)
    with pytest.raises(RequestError, match=f"'SOUL.md' .*{problem}"):
        read_folder(tmp_path)
