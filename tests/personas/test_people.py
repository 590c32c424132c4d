"""Everything that a bot stores about one person is shown and forgotten: facts, in all versions, messages, and summaries."""

from __future__ import annotations

import asyncio

import pytest

from toolcaddie.core.bots import ChatKey, ChatTurn
from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import Author, PersonaKey
from toolcaddie.personas import StoredChats, StoredPersonas
from toolcaddie.personas.people import forget, person_data
from toolcaddie.ports import Store
from toolcaddie.storage.memory import MemoryStore

pytestmark = pytest.mark.anyio

COACH = PersonaKey(tenant="default", bot="coach")
LOG = "memory/2026-05-03.md"
ANNS = "- 14:05 Ann likes tea. <!-- who=default/ann trust=clean -->\n"
BENS = "- 14:06 Ben likes gin. <!-- who=default/ben trust=clean -->\n"
ANN = Author(who="default/ann")


@pytest.fixture
def files(store: Store) -> StoredPersonas:
    return StoredPersonas(store)


@pytest.fixture
def chats(store: Store) -> StoredChats:
    return StoredChats(store)


def chat(name: str) -> ChatKey:
    return ChatKey(tenant="default", bot="coach", chat=name)


def said(who: str, text: str) -> ChatTurn:
    return ChatTurn(role="assistant" if who == "coach" else "user", text=text, at=0.0, who=who)


def turn_of(who: str, text: str, key: str) -> ChatTurn:
    return ChatTurn(role="user", text=text, at=0.0, who=who, key=key)


async def test_facts_go_from_all_versions_and_others_stay(files: StoredPersonas, chats: StoredChats) -> None:
    for number, text in enumerate([ANNS, ANNS + BENS, f"# Day\n{ANNS}{BENS}by hand: Ann\n", BENS]):
        await files.write(COACH, LOG, text, author=ANN, expected=number)
    await files.write(COACH, "memory/2026-05-04.md", ANNS, author=ANN, expected=0)
    await files.delete(COACH, "memory/2026-05-04.md", author=ANN)
    data = await forget(files, chats, COACH, "default/ann")
    assert {(each.path, each.fact.text) for each in data.facts} == {
        (LOG, "Ann likes tea."),
        ("memory/2026-05-04.md", "Ann likes tea."),
    }
    assert [file.text for file in await files.versions(COACH, LOG)] == ["", BENS, f"# Day\n{BENS}by hand: Ann\n", BENS]
    deleted = await files.versions(COACH, "memory/2026-05-04.md")
    assert [(file.text, file.deleted) for file in deleted] == [("", False), ("", True)]
    assert "default/ann" not in str([*await files.versions(COACH, LOG), *deleted])
    assert (await person_data(files, chats, COACH, "default/ann")).facts == ()


async def test_a_fact_is_the_persons_also_if_its_name_is_spelt_with_percent_signs(
    files: StoredPersonas, chats: StoredChats
) -> None:
    text = f"{ANNS.replace('default/ann', 'default%2Fann')}{BENS}{ANNS.replace('default/ann', 'default/anna')}"
    await files.write(COACH, LOG, text, author=ANN, expected=0)
    data = await person_data(files, chats, COACH, "default/ann")
    assert [each.fact.text for each in data.facts] == ["Ann likes tea."]


async def test_short_and_long_chats_are_all_looked_through(files: StoredPersonas, chats: StoredChats) -> None:
    for number in range(130):
        await chats.add(chat(f"tg:{number}"), [turn_of("default/ann" if number % 2 else "default/ben", "hi", "k")])
    await chats.add(chat("tg:long"), [turn_of("default/ann", str(number), f"k{number}") for number in range(120)])
    for number in range(60):
        await chats.add(chat("tg:full"), [turn_of("default/ann", str(number), f"k{number}")])
    await chats.add(chat("tg:gone"), [turn_of("default/ann", "hi", "k")])
    await chats.delete(chat("tg:gone"))
    data = await person_data(files, chats, COACH, "default/ann")
    assert len(data.whole_chats) == 65 + 2
    assert len(data.messages) == 65 + 120 + 60


async def test_a_chat_with_the_person_alone_goes_as_a_whole_with_its_summary(
    files: StoredPersonas, chats: StoredChats
) -> None:
    summary = ChatTurn(role="summary", text="Ann likes tea.", at=0.0)
    await chats.add(chat("telegram:1"), [said("default/ann", "tea"), said("coach", "noted"), summary])
    await chats.add(chat("telegram:2"), [said("default/ben", "gin")])
    data = await forget(files, chats, COACH, "default/ann")
    assert data.whole_chats == ("telegram:1",)
    assert await chats.names("default", "coach") == ["telegram:2"]


async def test_of_a_group_the_messages_with_their_answers_go_and_a_summary_of_them_loses_its_text(
    files: StoredPersonas, chats: StoredChats
) -> None:
    group = chat("telegram:group:7")
    await chats.add(
        group,
        [
            *(said("default/ben", "gin"), said("coach", "noted gin")),
            ChatTurn(role="summary", text="Ben likes gin.", at=0.0, keeps=0),
            *(said("default/ann", "tea"), said("coach", "noted tea")),
            ChatTurn(role="summary", text="Ben likes gin, Ann tea.", at=0.0, keeps=0),
            *(said("Ann of the group", "more tea"), said("default/ben", "more gin")),
            ChatTurn(role="summary", text="All drink.", at=0.0, keeps=2),
        ],
    )
    await forget(files, chats, COACH, "default/ann", names=["Ann of the group"])
    turns = [(each.role, each.text, each.keeps) for each in await chats.turns(group)]
    assert turns == [
        *(("user", "gin", 0), ("assistant", "noted gin", 0)),
        *(("summary", "Ben likes gin.", 0), ("summary", "", 0)),
        *(("user", "more gin", 0), ("summary", "", 1)),
    ]


async def test_nothing_of_others_is_lost_that_another_process_writes_meanwhile(stores: tuple[Store, Store]) -> None:
    one, other = stores
    group, count = chat("telegram:group:7"), 60
    files, chats = StoredPersonas(one), StoredChats(one)
    anns = [turn_of("default/ann", f"tea {number}", f"ann {number}") for number in range(count)]
    await chats.add(group, anns)
    await files.write(COACH, LOG, ANNS * count, author=ANN, expected=0)

    async def write() -> None:
        for number in range(count):
            await StoredChats(other).add(group, [turn_of("default/ben", f"gin {number}", f"ben {number}")])
            while True:
                old = await StoredPersonas(other).read(COACH, LOG)
                assert old is not None
                text = f"{old.text}{BENS}"
                if await StoredPersonas(other).write(COACH, LOG, text, author=ANN, expected=old.version):
                    break

    await asyncio.gather(write(), forget(files, chats, COACH, "default/ann"))
    await chats.add(group, anns)
    assert [turn.text for turn in await chats.turns(group)] == [f"gin {number}" for number in range(count)]
    log = await files.read(COACH, LOG)
    assert log is not None
    assert log.text == BENS * count


@pytest.mark.parametrize("person", ["ann", "acme/ann", "default/", ""])
async def test_a_person_of_no_or_another_tenant_is_refused(person: str) -> None:
    store = MemoryStore()
    with pytest.raises(RequestError, match="is not a person of the tenant 'default'"):
        await forget(StoredPersonas(store), StoredChats(store), COACH, person)
