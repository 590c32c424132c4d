"""The stored chats of bots: pages, keys that are added once, and deletion."""

from __future__ import annotations

import asyncio

import pytest

from toolcaddie.core.bots import ChatKey, ChatTurn
from toolcaddie.core.errors import RequestError
from toolcaddie.personas import StoredChats
from toolcaddie.ports import Store

pytestmark = pytest.mark.anyio

CHAT = ChatKey(tenant="default", bot="coach", chat="telegram:42")


def turn(text: str, key: str = "") -> ChatTurn:
    return ChatTurn(role="user", text=text, at=0.0, who="default/ann", key=key)


async def test_a_chat_of_many_pages_is_read_as_a_whole_and_by_parts(store: Store) -> None:
    chats = StoredChats(store)
    for number in range(170):
        await chats.add(CHAT, [turn(str(number))])
    await chats.add(CHAT, [turn(str(number)) for number in range(170, 900)])
    texts = [each.text for each in await chats.turns(CHAT)]
    assert texts == [str(number) for number in range(900)]
    for after in (1, 49, 50, 51, 500, 899, 900, 2_000, -1, -50, -51, -899, -900, -2_000):
        assert [each.text for each in await chats.turns(CHAT, after=after)] == texts[after:]


async def test_a_key_is_added_once_however_many_pages_later(store: Store) -> None:
    chats = StoredChats(store)
    await chats.add(CHAT, [turn("first", "k"), turn("twice at once", "k"), turn("no key"), turn("no key")])
    for number in range(120):
        await chats.add(CHAT, [turn("x", str(number))])
        await chats.add(CHAT, [turn("again", "k"), turn("again", str(number // 2))])
    texts = [each.text for each in await chats.turns(CHAT)]
    assert texts == ["first", "no key", "no key", *["x"] * 120]


async def test_processes_that_add_the_same_messages_at_once_lose_and_repeat_none(stores: tuple[Store, Store]) -> None:
    desks = [*map(StoredChats, stores)]

    async def add(writer: int) -> None:
        for number in range(40):
            await desks[writer % 2].add(CHAT, [turn("shared", f"k{number}"), turn("own", f"{writer}-{number}")])

    await asyncio.gather(*map(add, range(4)))
    turns = await desks[0].turns(CHAT)
    keys = [each.key for each in turns]
    assert len(keys) == len(set(keys)) == 40 + 4 * 40
    assert [key for key in keys if key.startswith("0-")] == [f"0-{number}" for number in range(40)]
    assert await desks[1].turns(CHAT, after=-7) == turns[-7:]
    assert await desks[0].delete(CHAT)
    assert await desks[1].turns(CHAT) == ()


async def test_a_chat_that_is_deleted_and_written_to_at_once_leaves_nothing_behind(stores: tuple[Store, Store]) -> None:
    desks = [*map(StoredChats, stores)]
    texts = [str(number) for number in range(6)]

    async def add(number: int) -> None:
        await desks[number % 2].add(CHAT, [turn(texts[number], texts[number])])

    for _ in range(10):
        await asyncio.gather(*map(add, range(6)), desks[1].delete(CHAT))
        left = [each.text for each in await desks[0].turns(CHAT)]
        assert len(left) == len(set(left))
        assert set(left) <= set(texts)
    await desks[0].delete(CHAT)
    for kind in ("chat", "chat-page", "chat-key"):
        assert (await stores[0].scan(kind)).documents == []


async def test_all_chats_are_listed_by_tenant_and_bot(store: Store) -> None:
    chats = StoredChats(store)
    keys = [ChatKey(tenant="default", bot=f"bot {number % 3}", chat=f"telegram:é {number}") for number in range(120)]
    keys.append(ChatKey(tenant="acme", bot="coach", chat="telegram:42"))
    for key in keys:
        await chats.add(key, [turn("hello")])
    listed = [key async for key in chats.all()]
    assert (len(listed), set(listed)) == (len(keys), set(keys))


async def test_a_deleted_chat_begins_again_empty_and_without_its_former_keys(store: Store) -> None:
    chats = StoredChats(store)
    await chats.add(CHAT, [turn("old", str(number)) for number in range(120)])
    assert await chats.names("default", "coach") == ["telegram:42"]
    assert await chats.delete(CHAT)
    assert not await chats.delete(CHAT)
    assert (await chats.names("default", "coach"), list(await chats.turns(CHAT))) == ([], [])
    await chats.add(CHAT, [turn("new", "7")])
    assert [each.text for each in await chats.turns(CHAT)] == ["new"]


async def test_names_and_messages_that_cannot_be_stored_are_refused(store: Store) -> None:
    chats = StoredChats(store)
    for name in ("", "a\0b", "x" * 251):
        with pytest.raises(RequestError, match="the name of a chat"):
            await chats.turns(ChatKey(tenant="default", bot="coach", chat=name))
    with pytest.raises(RequestError, match="at most 1,048,576 bytes"):
        await chats.add(CHAT, [turn("x" * 1_048_577)])
