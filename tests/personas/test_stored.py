"""Files and chats of bots in a database, also with several processes at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from toolcaddie.core.bots import ChatKey, ChatTurn
from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import Author, Fact, PersonaKey, Provenance, fact_line
from toolcaddie.personas import StoredChats, StoredPersonas
from toolcaddie.personas.folders import import_content, read_folder, write_folder
from toolcaddie.personas.people import forget
from toolcaddie.storage.database import Database
from toolcaddie.storage.memory import MemoryStore

pytestmark = pytest.mark.anyio

KEY = PersonaKey(tenant="default", bot="coach")
CHAT = ChatKey(tenant="default", bot="coach", chat="telegram:1")
ANN = Author(who="default/ann")


async def test_the_last_ten_versions_are_kept_and_a_stale_writer_writes_nothing() -> None:
    files = StoredPersonas(MemoryStore())
    for number in range(14):
        await files.write(KEY, "SOUL.md", f"text {number} of it", author=ANN, expected=number)
    versions = await files.versions(KEY, "SOUL.md")
    assert [each.text for each in versions] == [f"text {number} of it" for number in range(3, 14)]
    assert await files.write(KEY, "SOUL.md", "stale", author=ANN, expected=13) is None


@pytest.mark.parametrize(
    "path", ["/SOUL.md", "../SOUL.md", "notes/../x.md", "notes/x.txt", "memory/2026-02-30.md", "a\0.md"]
)
async def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(RequestError, match="not the path of a persona file"):
        await StoredPersonas(MemoryStore()).write(KEY, path, "x", author=ANN, expected=None)


async def test_messages_of_several_databases_are_added_once_and_none_is_lost(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.sqlite'}"
    async with Database(url) as one, Database(url) as two:
        sides = [StoredChats(one.store), StoredChats(two.store)]

        async def add(side: int) -> None:
            for number in range(60):
                shared = ChatTurn(role="user", text="x", at=0, who="default/ann", key=f"shared {number}")
                own = ChatTurn(role="assistant", text="y", at=0, key=f"{side} {number}")
                await sides[side].add(CHAT, [shared, own])

        await asyncio.gather(add(0), add(1))
        turns = await sides[0].turns(CHAT)
        keys = [turn.key for turn in turns]
        assert len(keys) == len(set(keys)) == 180
        assert await sides[1].turns(CHAT, after=100) == turns[100:]
        assert await sides[1].turns(CHAT, after=-7) == turns[-7:]
        assert await sides[0].delete(CHAT)
        assert await sides[1].turns(CHAT) == ()


async def test_a_person_is_forgotten_in_all_versions_and_in_groups() -> None:
    store = MemoryStore()
    files, chats = StoredPersonas(store), StoredChats(store)
    lines = [
        fact_line(
            Fact(time="10:00", text=f"secret of {name}", provenance=Provenance(who=f"default/{name}", trust="clean"))
        )
        for name in ("ann", "ben")
    ]
    await files.write(KEY, "memory/2026-05-03.md", f"{lines[0]}\n", author=ANN, expected=0)
    await files.write(KEY, "memory/2026-05-03.md", f"{lines[0]}\n{lines[1]}\n", author=ANN, expected=1)
    for name in ("ann", "ben"):
        asked = ChatTurn(role="user", text=f"hello from {name}", at=0, who=f"default/{name}", key=name)
        await chats.add(CHAT, [asked, ChatTurn(role="assistant", text=f"hello {name}", at=0)])
    await forget(files, chats, KEY, "default/ann")
    versions = await files.versions(KEY, "memory/2026-05-03.md")
    assert [each.text for each in versions] == ["", f"{lines[1]}\n"]
    assert not any("ann" in each.author.who for each in versions)
    assert [turn.text for turn in await chats.turns(CHAT)] == ["hello from ben", "hello ben"]


async def test_a_folder_goes_in_and_out_and_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    folder = tmp_path / "coach"
    folder.mkdir()
    (folder / "SOUL.md").write_text("kind\n")
    files = StoredPersonas(MemoryStore(), folders={"coach": folder})
    soul = await files.read(KEY, "SOUL.md")
    assert soul is not None
    assert (soul.text, soul.author.who) == ("kind\n", "import")
    out = tmp_path / "out"
    write_folder(out, await files.paths(KEY))
    await files.write(KEY, "SOUL.md", "kinder\n", author=ANN, expected=1)
    (out / "SOUL.md").write_text("edited\n")
    outcome = await import_content(files, KEY, read_folder(out), author=ANN)
    assert outcome.changed == ("SOUL.md",)
    assert write_folder(out, await files.paths(KEY)).changed == ("SOUL.md",)
    (out / "IDENTITY.md").symlink_to("/etc/hostname")
    with pytest.raises(RequestError, match="is a link"):
        read_folder(out)
