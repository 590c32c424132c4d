"""Interfaces (sockets, which plugins fill) for web search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A page that fits a query. All of it is text of strangers."""

    title: str
    url: str
    text: str = ""
    """An excerpt of the page, or its description."""
    age: str = ""
    """When the page was published or changed, in the provider's words. Empty: unknown."""


class SearchProvider(Protocol):
    """Searches the web."""

    @property
    def name(self) -> str: ...

    async def search(self, query: str, *, count: int, seconds: float) -> Sequence[SearchHit]:
        """Returns at most `count` pages, the best first. Raises `OutboundError` if the provider refuses, fails, or does not
        answer within `seconds`."""
        ...

    async def close(self) -> None: ...
