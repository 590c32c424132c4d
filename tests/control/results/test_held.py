"""Cut results can be read on, by their caller only."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable

import pytest

from tests.control.results.conftest import Clock
from toolcaddie.control.results.held import HeldResults
from toolcaddie.control.results.truncate import Truncate
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import StorageError
from toolcaddie.core.meta_names import META_TOOLS, READ_LIMIT, READ_RESULT
from toolcaddie.core.schema import argument_errors
from toolcaddie.core.storage import CacheLevel
from toolcaddie.core.tool import ToolResult
from toolcaddie.meta.read_result import ReadResult
from toolcaddie.ports import CacheStore, Invocation, MetaOffer
from toolcaddie.storage.cache import MemoryCache, StoreCache
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio

Make = Callable[..., Invocation]

ADA = Principal(id="ada", tenant="t")
NOTE = re.compile(r"read on with read_result, handle '(\w+)', offset (\d+)\]$")
LONG = "".join(f"line {number}: größer 😀\n" for number in range(9_000))


@pytest.fixture(params=["memory", "documents"])
async def store(request: pytest.FixtureRequest, file_url: str, clock: Clock) -> AsyncIterator[CacheStore]:
    async with Database(file_url, clock=clock) as database:
        yield MemoryCache(clock=clock) if request.param == "memory" else StoreCache(database.store, kind="held")


async def cut(make: Make, held: HeldResults, content: str, *, max_bytes: int = 1_000, who: Principal = ADA) -> str:
    async def answer(_: Invocation) -> ToolResult:
        return ToolResult(content=content)

    result = await Truncate(max_bytes, held=held)(make(principal=who), answer)
    assert len(result.content.encode()) <= max_bytes
    return result.content


def onward(content: str) -> tuple[str, str, int]:
    """The text, and handle and offset from its note."""
    text, _, note = content.rpartition("\n[")
    found = NOTE.search(note)
    assert found is not None, note
    return text, found[1], int(found[2])


@pytest.mark.parametrize("max_bytes", [200, 1_000, 100_000])
async def test_the_notes_lead_through_the_whole_result_without_a_gap(
    max_bytes: int, store: CacheStore, invocation: Make
) -> None:
    held = HeldResults(store)
    whole, handle, offset = onward(await cut(invocation, held, LONG, max_bytes=max_bytes))
    while True:
        content = (await held.page(handle, offset, READ_LIMIT, ADA)).content
        if not NOTE.search(content):
            break
        text, handle, offset = onward(content)
        whole += text
    assert content.endswith(f"characters {offset} to {len(LONG) - 1} of {len(LONG)}; this is the end]")
    assert whole + content.rpartition("\n[")[0] == LONG


async def test_broken_text_is_held_as_it_was_shown(store: CacheStore, invocation: Make) -> None:
    held = HeldResults(store)
    start, handle, offset = onward(await cut(invocation, held, "\ud83d\ude00a\ud83d" * 500, max_bytes=400))
    rest = (await held.page(handle, offset, READ_LIMIT, ADA)).content.rpartition("\n[")[0]
    assert start + rest == "\N{GRINNING FACE}a\ufffd" * 500


async def test_a_page_is_as_long_as_asked_and_never_longer_than_a_result_may_be(
    store: CacheStore, invocation: Make
) -> None:
    held = HeldResults(store)
    _, handle, _ = onward(await cut(invocation, held, "😀" * 100_000))
    assert onward((await held.page(handle, 7, 3, ADA)).content) == ("😀😀😀", handle, 10)
    assert len(onward((await held.page(handle, 0, 10**9, ADA)).content)[0]) == READ_LIMIT
    assert len((await held.page(handle, 0, 10**9, ADA)).content.encode()) < 100_000


@pytest.mark.parametrize("offset", [-1, 5_000, 10**12])
async def test_an_offset_beyond_the_result_is_an_error_that_names_its_length(
    offset: int, store: CacheStore, invocation: Make
) -> None:
    held = HeldResults(store)
    _, handle, _ = onward(await cut(invocation, held, "x" * 5_000))
    result = await held.page(handle, offset, 10, ADA)
    assert (result.error, "0 to 4999" in result.content) == ("invalid_arguments", True)


@pytest.mark.parametrize("who", [Principal(id="eve", tenant="t"), Principal(id="ada", tenant="u")])
async def test_to_a_stranger_a_handle_is_no_more_than_one_that_never_was(
    who: Principal, store: CacheStore, invocation: Make
) -> None:
    held = HeldResults(store)
    _, handle, _ = onward(await cut(invocation, held, LONG))
    strangers, unknown = await held.page(handle, 0, 10, who), await held.page("0" * 16, 0, 10, who)
    assert strangers.is_error
    assert strangers.content.replace(handle, "0" * 16) == unknown.content
    assert not (await held.page(handle, 0, 10, ADA)).is_error


async def test_a_handle_is_good_for_an_hour(store: CacheStore, invocation: Make, clock: Clock) -> None:
    held = HeldResults(store)
    _, handle, _ = onward(await cut(invocation, held, LONG))
    clock.now += 3_599
    assert not (await held.page(handle, 0, 10, ADA)).is_error
    clock.now += 1
    assert "expired" in (await held.page(handle, 0, 10, ADA)).content


@pytest.mark.parametrize("character", ["x", "€"])
async def test_of_a_huge_result_the_beginning_is_held_and_its_end_says_so(
    character: str, store: CacheStore, invocation: Make
) -> None:
    held = HeldResults(store)
    content = character * (20_000_000 // len(character.encode()))
    _, handle, _ = onward(await cut(invocation, held, content))
    kept = 8_000_000 // len(character.encode())
    last = (await held.page(handle, kept - 5, 10, ADA)).content
    assert (
        last
        == f"{character * 5}\n[characters {kept - 5} to {kept - 1} of {kept}; the result was longer, the rest was not kept]"
    )


async def test_held_results_outlive_the_process_where_the_store_does(file_url: str, invocation: Make) -> None:
    async with Database(file_url) as database:
        _, handle, _ = onward(await cut(invocation, HeldResults(StoreCache(database.store)), "x" * 5_000))
    async with Database(file_url) as database:
        found = await HeldResults(StoreCache(database.store)).page(handle, 4_990, 10, ADA)
    assert found.content.startswith("x" * 10 + "\n")


async def test_a_result_within_the_cap_is_not_held(invocation: Make) -> None:
    store = MemoryCache()
    assert await cut(invocation, HeldResults(store), "short") == "short"
    assert store.level.entries == 0


@pytest.mark.parametrize("down", [True, False])
async def test_a_store_that_takes_nothing_costs_the_handle_and_not_the_result(down: bool, invocation: Make) -> None:
    class Full:
        level = CacheLevel()

        async def get(self, key: str) -> bytes | None:
            return None

        async def put(self, key: str, value: bytes, *, ttl: float) -> bool:
            if down:
                raise StorageError("down")
            return False

    content = await cut(invocation, HeldResults(Full()), "x" * 5_000)
    assert content.endswith("\n[cut here: the whole result has 5000 bytes, this is its beginning]")


def test_read_result_has_a_definition_and_is_none_of_the_meta_tools_that_presets_offer() -> None:
    made = ReadResult().definition(MetaOffer())
    assert (made.name, made.annotations.read_only) == (READ_RESULT, True)
    assert Catalog.of([made]).tools == (made,)
    assert argument_errors(made.input_schema, {"handle": "a", "offset": 7, "limit": READ_LIMIT}) == []
    assert argument_errors(made.input_schema, {"offset": -1, "limit": READ_LIMIT + 1, "handle": 3, "x": 1})
    assert READ_RESULT not in META_TOOLS
