"""Checks of scans: a scan returns every document of a kind once, in the order of the keys.

Part of the contract suite of stores (`store_contract`); the name of each function is printed as the promise that it checks.
"""

from __future__ import annotations

from toolcaddie.ports import Store
from toolcaddie.testing.contract import Checks, expect_equal
from toolcaddie.testing.store_contract.documents import ODD_KEYS
from toolcaddie.testing.store_contract.jobs import KIND
from toolcaddie.testing.store_contract.subject import Subject, opened

CHECKS: Checks[Subject] = Checks()


async def keys_of(store: Store, *, prefix: str = "", limit: int = 100) -> list[str]:
    """Returns the keys of all pages of a scan. `limit`: the largest number of documents in a page."""
    keys: list[str] = []
    page = await store.scan(KIND, prefix=prefix, limit=limit)
    while True:
        keys += [document.key for document in page.documents]
        if page.cursor is None:
            return keys
        page = await store.scan(KIND, prefix=prefix, limit=limit, cursor=page.cursor)


@CHECKS.add()
async def a_scan_gives_the_documents_of_its_kind_in_the_order_of_keys(subject: Subject) -> None:
    async with opened(subject) as store:
        for key in ("b", "a", "a/2", "B", "a/10"):
            await store.put(KIND, key, key.encode())
        await store.put("another", "c", b"x")
        page = await store.scan(KIND)
        expect_equal([document.key for document in page.documents], ["B", "a", "a/10", "a/2", "b"], "keys of a scan")
        expect_equal([document.value for document in page.documents][1], b"a", "the value of a scanned document")
        expect_equal((await store.scan("none")).documents, [], "documents of a kind that was never written")


@CHECKS.add()
async def odd_keys_are_ordered_by_code_points(subject: Subject) -> None:
    async with opened(subject) as store:
        await store.put_many(KIND, dict.fromkeys(ODD_KEYS, b"x"))
        expect_equal(await keys_of(store, limit=5), sorted(ODD_KEYS), "keys of a scan")


@CHECKS.add()
async def a_prefix_is_taken_by_the_letter(subject: Subject) -> None:
    async with opened(subject) as store:
        await store.put_many(KIND, dict.fromkeys(ODD_KEYS, b"x"))
        for prefix in ("a", "a%", "a_", "a\0", "a\1", "\ud7ff", "\U0010ffff", "\u00e9", "none"):
            expected = sorted(key for key in ODD_KEYS if key.startswith(prefix))
            expect_equal(await keys_of(store, prefix=prefix), expected, f"keys that begin with {prefix!a}")


@CHECKS.add()
async def pages_join_without_gap_or_repetition(subject: Subject) -> None:
    keys = [f"{number:02}" for number in range(12)]
    async with opened(subject) as store:
        await store.put_many(KIND, dict.fromkeys(keys, b"x"))
        for limit in (1, 4, 5, 12, 13):
            expect_equal(await keys_of(store, limit=limit), keys, f"keys in pages of {limit}")
        page = await store.scan(KIND, limit=12)
        expect_equal(page.cursor, None, "the cursor of a page that ends with the last document")


@CHECKS.add()
async def what_stays_is_scanned_once_whatever_is_written_meanwhile(subject: Subject) -> None:
    lasting = [f"{number:02} lasting" for number in range(12)]
    async with opened(subject) as store:
        await store.put_many(KIND, dict.fromkeys([*lasting, "00 short", "05 short", "11 short"], b"x"))
        seen: list[str] = []
        cursor: str | None = None
        for number in range(100):
            page = await store.scan(KIND, limit=2, cursor=cursor)
            seen += [document.key for document in page.documents]
            cursor = page.cursor
            if cursor is None:
                break
            await store.put(KIND, f"00 new {number}", b"x")  # a page that counted from the start would repeat a key
            await store.delete(KIND, ("00 short", "05 short", "11 short")[number % 3])
            await store.put(KIND, lasting[number % 12], b"written again")
        expect_equal([key for key in seen if key in lasting], lasting, "keys in the scan that existed during all of it")
