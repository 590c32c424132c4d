"""Learns for the ranking by experience: remembers which tools were called after which request, and adjusts how much that memory
counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from toolcaddie import learning
from toolcaddie.audit.redact import redact_text
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.presets import SelectionSettings
from toolcaddie.selection.selector import Selector
from toolcaddie.sources.tenants import TenantCatalogs


class Learning:
    """Learns from runs as they end, and from logs. `settings` determine which messages of a run are remembered."""

    def __init__(
        self,
        experience: learning.Experience,
        catalogs: TenantCatalogs,
        selector: Selector,
        settings: SelectionSettings,
    ) -> None:
        self._experience = experience
        self._source = catalogs.shared
        self._selector = selector
        self.sink = learning.LearningSink(
            experience,
            redact=redact_text,
            tool_of=catalogs.tool,
            refit=self._refit,
            window=settings.window,
            window_user=settings.window_user,
        )

    async def learn(self, entries: Iterable[learning.LogEntry], catalog: Catalog | None) -> None:
        """Remembers the entries, and fits the memory's weight again over `catalog` (None: the current one)."""
        await asyncio.to_thread(self._experience.extend, entries)
        await asyncio.to_thread(self._refit, catalog)

    async def settled(self) -> None:
        """Waits until all ended runs are remembered."""
        await self.sink.settled()

    def _refit(self, catalog: Catalog | None = None) -> None:
        learning.refit(self._experience, self._selector, self._source.snapshot() if catalog is None else catalog)
