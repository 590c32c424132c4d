"""Runs `web_search`: asks the provider and writes its results as a text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from toolcaddie.core.errors import OutboundError
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.guards.markers import marked, neutral
from toolcaddie.ports import SearchHit, SearchProvider

_LONGEST = 2_000
"""Characters of each part of a result."""


async def search_web(provider: SearchProvider, query: str, *, count: int, seconds: float) -> ToolResult:
    """Returns the pages that fit a query, between markers. Failures are failed results."""
    if not query.strip():
        return failed("query: it is empty; say what to search for", "invalid_arguments")
    try:
        async with asyncio.timeout(seconds):
            hits = await provider.search(query.strip(), count=count, seconds=seconds)
    except OutboundError as error:
        return failed(neutral(str(error)))
    except TimeoutError:
        return failed(f"the search was given up after {seconds:g} s")
    if not hits:
        return ToolResult(content="The search found no page; try other words.")
    return ToolResult(content=marked(_text(hits[:count])))


def _text(hits: Sequence[SearchHit]) -> str:
    return "\n\n".join(f"{number}. {_entry(hit)}" for number, hit in enumerate(hits, start=1))


def _entry(hit: SearchHit) -> str:
    lines = (hit.title, hit.url, hit.age, hit.text)
    return "\n   ".join(" ".join(line.split())[:_LONGEST] for line in lines if line.strip())
