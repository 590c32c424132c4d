"""Checks of a cache for the results of tool calls.

In production a cache may lose any value at any time. These checks read values at once after they were stored, and expect them to
be there. Part of the contract suite `CACHE` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

import asyncio

from toolcaddie.ports import CacheStore
from toolcaddie.testing.contract import Checks, expect, expect_equal
from toolcaddie.testing.part_contracts.subject import Subject

CHECKS: Checks[Subject[CacheStore]] = Checks()

_SHORT = 0.05
"""Seconds after which a value expires in the check of expiry."""


@CHECKS.add()
async def a_value_comes_back_to_the_byte(subject: Subject[CacheStore]) -> None:
    cache, value = subject.make(), bytes(range(256))
    expect_equal(await cache.put("key", value, ttl=60), True, "the answer of put() for a small value")
    expect_equal(await cache.get("key"), value, "the value")


@CHECKS.add()
async def a_key_that_was_never_put_is_none(subject: Subject[CacheStore]) -> None:
    cache = subject.make()
    await cache.put("key", b"1", ttl=60)
    expect_equal(await cache.get("key2"), None, "the value of a key that was never put")


@CHECKS.add()
async def an_expired_value_is_never_returned(subject: Subject[CacheStore]) -> None:
    cache = subject.make()
    await cache.put("key", b"1", ttl=_SHORT)
    await asyncio.sleep(3 * _SHORT)
    expect_equal(await cache.get("key"), None, "the value of a key after its ttl")


@CHECKS.add()
async def the_last_of_two_values_counts(subject: Subject[CacheStore]) -> None:
    cache = subject.make()
    await cache.put("key", b"1", ttl=60)
    await cache.put("key", b"2", ttl=60)
    expect_equal(await cache.get("key"), b"2", "the value of a key that was put twice")


@CHECKS.add()
async def the_counters_of_its_level_are_never_negative(subject: Subject[CacheStore]) -> None:
    cache = subject.make()
    for number in range(50):
        await cache.put(f"key {number}", b"x" * 1_000, ttl=60)
    level = cache.level
    counts = (level.entries, level.bytes, level.evicted, level.expired)
    expect(min(counts) >= 0, f"entries, bytes, evicted and expired of its level are {counts}")
