"""Checks of a search provider. They do not test whether its pages fit the query.

Part of the contract suite `SEARCH` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from toolcaddie.core.errors import OutboundError
from toolcaddie.ports import SearchHit, SearchProvider
from toolcaddie.testing.contract import Checks, expect
from toolcaddie.testing.part_contracts.services import (
    NO_SECONDS,
    SECONDS,
    answer_of,
    expect_cancellation,
    expect_end,
    expect_name,
    expect_use_after_close,
)
from toolcaddie.testing.part_contracts.subject import Subject

CHECKS: Checks[Subject[SearchProvider]] = Checks()

_ODD = (
    "x" * 5_000,
    "word " * 500,
    "¿qué tal? 会员 \U0001f600",
    'a "quoted" -minus site:example.com',
    "\x00\n\t",
    "&q=2#%00",
)


async def _hits(provider: SearchProvider, query: str, count: int = 5) -> Sequence[SearchHit]:
    return await answer_of(provider.search(query, count=count, seconds=SECONDS))


def _wrong(hit: object) -> str:
    if not isinstance(hit, SearchHit):
        return f"a result is {hit!r:.100}, not a SearchHit"
    texts = (hit.title, hit.url, hit.text, hit.age)
    return "" if all(isinstance(text, str) for text in texts) else f"a field of {hit!r:.200} is not a text"


@CHECKS.add()
async def its_name_is_a_text(subject: Subject[SearchProvider]) -> None:
    expect_name(subject.make().name)


@CHECKS.add()
async def it_returns_search_hits_with_addresses(subject: Subject[SearchProvider]) -> None:
    provider = subject.make()
    hits = await _hits(provider, "opening hours of the library")
    await provider.close()
    wrong = [problem for hit in hits if (problem := _wrong(hit))]
    expect(not wrong, wrong[0] if wrong else "")
    expect(all(hit.url for hit in hits), "a result has no address")


@CHECKS.add()
async def it_returns_at_most_as_many_pages_as_it_was_asked_for(subject: Subject[SearchProvider]) -> None:
    provider = subject.make()
    for count in (1, 2, 20):
        number = len(await _hits(provider, "library", count))
        expect(number <= count, f"it returned {number} pages where {count} were asked for")
    await provider.close()


@CHECKS.add()
async def an_odd_query_is_answered_or_refused_with_an_outbound_error(subject: Subject[SearchProvider]) -> None:
    provider = subject.make()
    for query in _ODD:
        try:
            await _hits(provider, query)
        except OutboundError:
            continue
    await provider.close()


@CHECKS.add()
async def a_search_without_time_ends_soon(subject: Subject[SearchProvider]) -> None:
    provider = subject.make()
    await expect_end(provider.search("library", count=1, seconds=NO_SECONDS))
    await provider.close()


@CHECKS.add()
async def searches_side_by_side_are_all_answered(subject: Subject[SearchProvider]) -> None:
    provider = subject.make()
    answers = await asyncio.gather(*(_hits(provider, f"library {number}", 2) for number in range(8)))
    await provider.close()
    expect(all(len(hits) <= 2 for hits in answers), "one of eight searches at once returned too many pages")


@CHECKS.add()
async def a_cancelled_search_is_cancelled(subject: Subject[SearchProvider]) -> None:
    provider = subject.make()
    await expect_cancellation(provider.search("library", count=1, seconds=SECONDS))
    await provider.close()


@CHECKS.add()
async def it_can_be_closed_twice_and_used_again(subject: Subject[SearchProvider]) -> None:
    provider = subject.make()
    await expect_use_after_close(provider, lambda: _hits(provider, "library"))
