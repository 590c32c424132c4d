"""The catalogs of a runtime: one for everybody, and those that belong to a tenant.

A tenant sees the shared tools and its own. Its catalog is opened when a request of the tenant needs it, and stays open for the
next ones. If more than a number of them are open, those that were not used for the longest time are closed, so the memory follows
the tenants that are active, and not those that exist. A catalog in use is never closed.

    async with catalogs.held("acme"):
        catalogs.snapshot("acme")
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import TenantCatalogError, ToolcaddieError
from toolcaddie.core.events import SourceStatus
from toolcaddie.core.tool import Tool
from toolcaddie.guards.aside import aside
from toolcaddie.ports import ToolSource
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.tenant_parts import OwnSources, SharedPart, Tenants, owned
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger

log = Logger(__name__)

_FAILED_SECONDS = 5.0
"""Seconds for which a catalog that could not be opened is not tried again, however many requests want it."""
_MOST_REMEMBERED = 10_000
"""The largest number of tenants that are remembered as being without a catalog, or with one that cannot be opened."""
_NOTHING_HELD = nullcontext()


@dataclass(slots=True)
class _Opened:
    own: OwnSources
    source: CombinedSource


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    until: float


class TenantCatalogs:
    """The shared catalog, and those of tenants. `tenants` None: there is only the shared one. Not for many threads."""

    def __init__(self, shared: CombinedSource, tenants: Tenants | None = None) -> None:
        self.shared = shared
        self.forget: Callable[[Catalog], None] = _ignore
        """Called with each catalog that is no longer used, so that caches drop what they know about it."""
        self._tenants = tenants
        self._opened: OrderedDict[str, _Opened] = OrderedDict()
        """The open catalogs by tenant, the one used last at the end."""
        self._users: Counter[str] = Counter()
        """The number of requests that use the catalog of a tenant, or wait for it."""
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._without: Bounded[str, bool] = Bounded(_MOST_REMEMBERED)
        self._failures: Bounded[str, _Failure] = Bounded(_MOST_REMEMBERED)

    @property
    def open(self) -> Sequence[str]:
        """The tenants whose catalogs are open, the one used last at the end."""
        return list(self._opened)

    @property
    def most_used(self) -> int:
        """The number of tenants' catalogs that are used at once, for the sizes of caches."""
        return 0 if self._tenants is None else self._tenants.open

    def source_of(self, tenant: str) -> CombinedSource:
        """Returns the source of all tools of a tenant. Raises `TenantCatalogError` unless its catalog is held."""
        if self._tenants is None or tenant in self._without:
            return self.shared
        if (opened := self._opened.get(tenant)) is not None:
            return opened.source
        if (
            tenant in self._users
        ):  # a request of a tenant without a catalog of its own, which may have been added meanwhile
            return self.shared
        raise TenantCatalogError(
            f"the catalog of the tenant {tenant[:64]!r} is not open; use it inside of `async with runtime.holding(tenant)`"
        )

    def snapshot(self, tenant: str) -> Catalog:
        """Returns the catalog of a tenant. Raises as `source_of`."""
        return self.source_of(tenant).snapshot()

    def tool(self, tenant: str, name: str) -> Tool | None:
        """Returns a tool of a tenant as it is now. None: there is none, or the tenant's catalog is not open."""
        if (opened := self._opened.get(tenant)) is not None:
            return opened.source.snapshot().get(name)
        return self.shared.snapshot().get(name) if self._tenants is None or tenant in self._without else None

    def held(self, tenant: str) -> AbstractAsyncContextManager[None]:
        """Returns the context manager in whose block the catalog of a tenant is open: it is opened if necessary, by one of
        several requests at once. Raises `TenantCatalogError` if it cannot be opened."""
        return _NOTHING_HELD if self._tenants is None else self._held(tenant, self._tenants)

    @asynccontextmanager
    async def _held(self, tenant: str, tenants: Tenants) -> AsyncIterator[None]:
        self._users[tenant] += 1  # first, so that it is not closed between its opening and its use
        try:
            await self._open(tenant, tenants)
            yield
        finally:
            self._users[tenant] -= 1
            if not self._users[tenant]:
                del self._users[tenant]
            self._close_unused(tenants.open)

    async def _open(self, tenant: str, tenants: Tenants) -> None:
        """Opens the catalog of a tenant unless it is open, or the tenant has none."""
        if tenant in self._opened:
            self._opened.move_to_end(tenant)
            return
        if tenant in self._without:
            return
        failure = self._failures.get(tenant)
        if failure is not None and tenants.clock() < failure.until:
            raise TenantCatalogError(failure.reason)
        opening = self._opening.get(tenant)
        if opening is None:
            opening = self._opening[tenant] = asyncio.create_task(self._open_now(tenant, tenants))
            opening.add_done_callback(lambda task: self._end_opening(tenant, task))
        await asyncio.shield(opening)

    def _end_opening(self, tenant: str, task: asyncio.Task[None]) -> None:
        del self._opening[tenant]
        if not task.cancelled():
            task.exception()  # if nobody waits for it any more, it is in the log
        if self._tenants is not None:
            self._close_unused(self._tenants.open)

    async def _open_now(self, tenant: str, tenants: Tenants) -> None:
        try:
            opened = await aside(self._made, tenant, tenants)
            if opened is not None:
                await opened.source.open()
        except TenantCatalogError:  # the name is at fault, and the error says so
            raise
        except (ToolcaddieError, OSError) as error:
            log.error("tenant_catalog_not_opened", tenant=tenant, error=str(error))
            reason = (
                f"the catalog of the tenant {tenant!r} cannot be opened; the server's log says why, and whoever runs the "
                "server can correct it"
            )
            self._failures.put(tenant, _Failure(reason, tenants.clock() + _FAILED_SECONDS))
            raise TenantCatalogError(reason) from error
        self._failures.pop(tenant)
        if opened is None:
            self._without.put(tenant, True)
            return
        self._opened[tenant] = opened
        log.debug("tenant_catalog_opened", tenant=tenant, tools=len(opened.source.snapshot()), open=len(self._opened))

    def _made(self, tenant: str, tenants: Tenants) -> _Opened | None:
        """Returns the catalog of a tenant, not opened; None: it has none of its own."""
        own = tenants.load(tenant)
        if own is None:
            return None
        source = CombinedSource(
            self._parts(tenant, own),
            name=tenant,
            replace_reserved=tenants.replace_reserved,
            report=partial(self._report, tenants),
            checked=self.shared.snapshot(),
        )
        return _Opened(own, source)

    def _report(self, tenants: Tenants, status: SourceStatus) -> None:
        """Passes on the state of a tenant's own source; the shared ones report themselves."""
        if status.source != self.shared.name:
            tenants.report(status)

    def _parts(self, tenant: str, own: OwnSources) -> Sequence[ToolSource]:
        sources = [owned(source, tenant) for source in own.sources]
        return [SharedPart(self.shared, sources), *sources]

    def _close_unused(self, most: int) -> None:
        """Closes the catalogs that were not used for the longest time, until at most `most` are open. Those in use stay."""
        if len(self._opened) <= most:
            return
        for tenant in [each for each in self._opened if each not in self._users][: len(self._opened) - most]:
            opened = self._opened.pop(tenant)
            self.forget(opened.source.snapshot())
            closing = asyncio.create_task(opened.source.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            log.debug("tenant_catalog_closed", tenant=tenant, open=len(self._opened))

    async def look_again(self) -> Sequence[str]:
        """Makes the open catalogs again whose files have changed, and looks again for those that did not exist or could not be
        opened. Returns the tenants whose catalogs have changed. If the changed files of one have a mistake, the catalog stays as
        it is, and the mistake is logged."""
        for remembered in (self._without, self._failures):
            for tenant in remembered:
                remembered.pop(tenant)
        changed = []
        for tenant, opened in list(self._opened.items()):
            if await aside(opened.own.is_current):
                continue
            try:
                await self._renew(tenant, opened)
            except (ToolcaddieError, OSError) as error:
                log.error("tenant_catalog_not_reloaded", tenant=tenant, error=str(error))
            else:
                changed.append(tenant)
        return changed

    async def _renew(self, tenant: str, opened: _Opened) -> None:
        """Exchanges the sources of an open catalog for those that the files name now."""
        assert self._tenants is not None
        own = await aside(self._tenants.load, tenant)
        before = opened.source.snapshot()
        own = own or OwnSources(sources=(), is_current=lambda: False)
        parts = await aside(self._parts, tenant, own)
        await opened.source.change(add=parts, remove=opened.source.part_names)
        opened.own = own
        self.forget(before)

    async def close(self) -> None:
        """Closes the catalogs of all tenants; they are opened again by the next requests."""
        for opening in list(self._opening.values()):
            opening.cancel()
        opened, self._opened = self._opened, OrderedDict()
        await asyncio.gather(*(each.source.close() for each in opened.values()), *self._closing)


def _ignore(catalog: Catalog) -> None:
    """Forgets nothing."""
