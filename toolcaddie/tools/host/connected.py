"""A source of functions that share a connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from toolcaddie.core.catalog import Category
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.sources.functions.source import Assess


class ConnectedSource(FunctionSource):
    """Implements `ports.OpenableSource`. The connection is opened by the first call; `close` closes it."""

    def __init__(
        self,
        name: str,
        functions: Any,
        category: Category,
        *,
        claims: Iterable[str],
        assess: Assess | None,
        close: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(name, functions, [category], claims=claims, assess=assess)
        self._close = close

    async def open(self) -> None:
        """Does nothing: a machine without the back end has the tools too, and their results say so."""

    async def close(self) -> None:
        await self._close()
