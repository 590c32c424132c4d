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
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
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
        self.forget: Callable[[Catalog], None] = lambda catalog: None
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
        self._looks = 0  # calls of `look_again`

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
        ):  # it had no catalog of its own when the request began; one may have been added meanwhile
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
        return nullcontext() if self._tenants is None else self._held(tenant, self._tenants)

    @asynccontextmanager
    async def _held(self, tenant: str, tenants: Tenants) -> AsyncIterator[None]:
        with self._used(tenant, tenants):  # first, so that it is not closed between its opening and its use
            await self._open(tenant, tenants)
            yield

    @contextmanager
    def _used(self, tenant: str, tenants: Tenants) -> Iterator[None]:
        """Does not let the catalog of a tenant be closed until the `with` block ends."""
        self._users[tenant] += 1
        try:
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
        looks = self._looks
        try:
            opened = await aside(self._made, tenant, tenants)
            if opened is not None:
                await opened.source.open()
        except (ToolcaddieError, OSError) as error:
            log.error("tenant_catalog_not_opened", tenant=tenant, error=str(error))
            reason = (
                str(error)
                if isinstance(error, TenantCatalogError)  # the name is at fault, and the error says so
                else f"the catalog of the tenant {tenant!r} cannot be opened; the server's log says why, and whoever runs the "
                "server can correct it"
            )
            self._failures.put(tenant, _Failure(reason, tenants.clock() + _FAILED_SECONDS))
            raise TenantCatalogError(reason) from error
        self._failures.pop(tenant)
        is_latest = looks == self._looks  # otherwise the files may have changed after they were read
        if opened is None:
            if is_latest:
                self._without.put(tenant, True)
            return
        self._opened[tenant] = opened
        if not is_latest:
            await self._is_renewed(tenant, opened, tenants)
        log.debug("tenant_catalog_opened", tenant=tenant, tools=len(opened.source.snapshot()), open=len(self._opened))

    def _made(self, tenant: str, tenants: Tenants) -> _Opened | None:
        """Returns the catalog of a tenant, not opened; None: it has none of its own."""
        own = tenants.load(tenant)
        if own is None:
            return None
        reserved, report = tenants.replace_reserved, partial(self._report, tenants)
        parts, checked = self._parts(tenant, own), self.shared.snapshot()
        source = CombinedSource(parts, name=tenant, replace_reserved=reserved, report=report, checked=checked)
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
        if self._tenants is None:
            return ()
        for remembered in (self._without, self._failures):
            for tenant in remembered:
                remembered.pop(tenant)
        self._looks += 1
        catalogs = list(self._opened.items())
        return [tenant for tenant, opened in catalogs if await self._is_renewed(tenant, opened, self._tenants)]

    async def _is_renewed(self, tenant: str, opened: _Opened, tenants: Tenants) -> bool:
        """Makes an open catalog again if its files have changed. Returns False if it stays as it is."""
        with self._used(tenant, tenants):  # otherwise it may be closed first, and what is opened then never is
            if self._opened.get(tenant) is not opened or await aside(opened.own.is_current):
                return False
            try:
                await self._renew(tenant, opened, tenants)
            except (ToolcaddieError, OSError) as error:
                log.error("tenant_catalog_not_reloaded", tenant=tenant, error=str(error))
                return False
            return True

    async def _renew(self, tenant: str, opened: _Opened, tenants: Tenants) -> None:
        """Exchanges the sources of an open catalog for those that the files name now."""
        own = await aside(tenants.load, tenant) or OwnSources(sources=(), is_current=lambda: False)
        before = opened.source.snapshot()
        parts = await aside(self._parts, tenant, own)
        await opened.source.change(add=parts, remove=opened.source.part_names)
        opened.own = own
        self.forget(before)

    async def close(self) -> None:
        """Closes the catalogs of all tenants; they are opened again by the next requests."""
        for opening in (openings := list(self._opening.values())):
            opening.cancel()
        await asyncio.gather(*openings, return_exceptions=True)  # each closes what it has opened
        opened, self._opened = self._opened, OrderedDict()
        await asyncio.gather(*(each.source.close() for each in opened.values()), *self._closing)
