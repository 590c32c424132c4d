"""Makes the view of each request: the tools that its principal may see. It is the current catalog (the snapshot), masked by the
restrictions of tools and bots, by the policy, and by the request itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from toolcaddie.control.bots import Bots
from toolcaddie.control.visibility import Restriction, Visibility
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunRequest
from toolcaddie.core.tool import Tool
from toolcaddie.guards.aside import aside
from toolcaddie.ports import Policy
from toolcaddie.runtime.requests import check_disabled
from toolcaddie.runtime.setups import Setup
from toolcaddie.sources.merged import MergedCatalogs
from toolcaddie.sources.tenants import TenantCatalogs

_EMPTY = Catalog.of(())
"""The catalog of a request that uses only the caller's own tools."""

Offload = Callable[..., Awaitable[Any]]
"""Calls a function with its arguments outside of the event loop, in a thread or after other jobs, and awaits its result."""

_FEW = 100
"""The largest number of tools of a new catalog that is indexed at once in the event loop. A larger one takes long enough to delay
other requests."""
_LARGE = 2_000
"""The number of tools from which a selection is made in a thread, even if the catalog is indexed."""
_LONG = 500
"""The number of messages from which a conversation is read in a thread."""


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """The view of a request, and the way in which its heavy work is done."""

    view: View
    offload: Offload | None
    """Runs heavy work outside of the event loop, so that no other request waits; None: there is little work, and it is done at
    once."""


class Views:
    """Makes the view of each request. A view is a mask over a snapshot, which never changes during a run."""

    def __init__(self, catalogs: TenantCatalogs, policy: Policy, bots: Bots) -> None:
        self._catalogs = catalogs
        self._policy = policy
        self._bots = bots
        self._visibility = Visibility(bots, catalogs=catalogs.most_used)
        self._merged = MergedCatalogs()

    async def see(self, request: RunRequest, setup: Setup) -> Sight:
        """Returns the view of a request. If that takes long, it is made outside of the event loop."""
        snapshot = self._checked(request)
        offload = self._offload(request, setup, snapshot)
        if offload is None:
            return Sight(view=self._view(request, snapshot), offload=None)
        return Sight(view=await offload(self._view, request, snapshot), offload=offload)

    def of(self, request: RunRequest) -> View:
        """Returns the view of a request, made in this thread."""
        return self._view(request, self._checked(request))

    def again(self, request: RunRequest) -> View:
        """Returns the view of a request whose run has begun before, with the tools that there are now."""
        return self._view(request, self._snapshot(request))

    def forget(self, catalog: Catalog) -> None:
        """Drops the masks of a catalog that is no longer used."""
        self._visibility.forget(catalog)

    def restriction(self, tool: Tool, principal: Principal) -> Restriction | None:
        """Returns what hides one tool from a principal, whatever the request is; None: nothing does."""
        if (restriction := self._visibility.restriction(tool, principal)) is not None:
            return restriction
        mask = self._policy.visible(Catalog.of([tool], check_schemas=False), principal)
        if mask is None or mask[0]:
            return None
        return Restriction(rule="policy", reason="the rules of the policy about `see` hide it from this caller")

    def _checked(self, request: RunRequest) -> Catalog:
        """Returns the catalog of a request. Raises `RequestError` if it disables a tool that does not exist."""
        snapshot = self._snapshot(request)
        if request.disabled_tools:
            check_disabled(request, snapshot if request.use_catalog else self._catalogs.shared.snapshot())
        return snapshot

    def _snapshot(self, request: RunRequest) -> Catalog:
        """Returns the catalog of the request's tenant, which is held by whoever makes the view; an empty one for a request that
        uses only the caller's own tools."""
        return self._catalogs.snapshot(request.principal.tenant) if request.use_catalog else _EMPTY

    def _view(self, request: RunRequest, snapshot: Catalog) -> View:
        """Returns the snapshot with its masks. The restrictions of tools and bots hold under every policy."""
        catalog = self._catalog(request, snapshot)
        view = self._masked(View(catalog=catalog, shadowed=self._shadowed(request, snapshot)), request)
        if request.disabled_tools:
            disabled = frozenset(request.disabled_tools)
            view = view.narrowed(tool.name not in disabled for tool in catalog.tools)
        if request.tags is not None:
            tags = frozenset(request.tags)
            view = view.narrowed(not tags.isdisjoint(tool.tags) for tool in catalog.tools)
        if request.inherited.tools is not None:
            inherited = frozenset(request.inherited.tools)
            view = view.narrowed(tool.name in inherited for tool in catalog.tools)
        return view

    def _masked(self, view: View, request: RunRequest) -> View:
        """Returns the view without the tools that are hidden from the principal."""
        catalog, principal = view.catalog, request.principal
        for mask in (self._visibility.mask(catalog, principal, request.mode), self._policy.visible(catalog, principal)):
            if mask is not None:
                view = view.narrowed(mask)
        return view

    def _shadowed(self, request: RunRequest, snapshot: Catalog) -> tuple[str, ...]:
        """Returns the names of the catalog tools that the caller could see if its own tools did not have the same names."""
        if not request.client_tools or not len(snapshot):
            return ()
        names = [tool.name for tool in request.client_tools if snapshot.position(tool.name) is not None]
        if not names:
            return ()
        visible = self._masked(View(catalog=snapshot), request)
        return tuple(name for name in names if visible.get(name) is not None)

    def _catalog(self, request: RunRequest, snapshot: Catalog) -> Catalog:
        """Returns the snapshot joined with the caller's own tools. If both have a tool of the same name, the caller's tool is
        used."""
        self._bots.notice(self._catalogs.shared.snapshot())
        return self._merged.of(request.client_tools, snapshot) if request.client_tools else snapshot

    def _offload(self, request: RunRequest, setup: Setup, snapshot: Catalog) -> Offload | None:
        """Returns the function that does the work of this request outside of the event loop; None: the work is done at once."""
        tools, messages = len(snapshot) + len(request.client_tools), len(request.messages)
        if tools > _FEW and not self._is_ready(request, setup, snapshot):
            return aside
        return asyncio.to_thread if tools > _LARGE or messages > _LONG else None

    def _is_ready(self, request: RunRequest, setup: Setup, snapshot: Catalog) -> bool:
        """Returns True if the catalog and its index are made already."""
        catalog = self._merged.cached(request.client_tools, snapshot) if request.client_tools else snapshot
        if catalog is None:
            return False
        return setup.preset.exposure != "selected" or setup.selector.is_ready(catalog)
