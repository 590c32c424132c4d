"""The tools that a request's principal may see: the current snapshot under the masks of visibility, policy and request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from toolcaddie.control.bots import Bots
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunRequest
from toolcaddie.guards.aside import aside
from toolcaddie.ports import Policy
from toolcaddie.runtime.setups import Setup
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.merged import MergedCatalogs

_EMPTY = Catalog.of(())

Offload = Callable[..., Awaitable[Any]]
"""Calls a function with its arguments in a thread, or beside the event loop and after other jobs."""

_FEW = 100
"""Tools up to which a new catalog is worked out on the spot. More take so long that every other request would notice, so
that it happens beside the event loop."""
_LARGE = 2_000
"""Tools from which also a selection from a known catalog is made in a thread."""
_LONG = 500
"""Messages from which a conversation is looked through in a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The view of a request, and where work on so many tools and messages is done."""

    view: View
    offload: Offload | None
    """Does heavy work, so that no other request waits for it; None: there is little, and it is done on the spot."""


class Views:
    """Makes the view of each request. A view is one mask over a snapshot, which never changes under a run."""

    def __init__(self, source: CombinedSource, policy: Policy, bots: Bots) -> None:
        self._source = source
        self._policy = policy
        self._bots = bots
        self._visibility = Visibility(bots)
        self._merged = MergedCatalogs()

    async def see(self, request: RunRequest, setup: Setup) -> Sight:
        """Returns the view of a request without keeping other requests waiting."""
        snapshot = self._source.snapshot()
        offload = self._offload(request, setup, snapshot)
        if offload is None:
            return Sight(view=self._view(request, snapshot), offload=None)
        return Sight(view=await offload(self._view, request, snapshot), offload=offload)

    def of(self, request: RunRequest) -> View:
        """Returns the view of a request at once."""
        return self._view(request, self._source.snapshot())

    def _view(self, request: RunRequest, snapshot: Catalog) -> View:
        """Returns the snapshot under its masks. What tools and bots restrict holds beside whatever the policy shows."""
        catalog = self._catalog(request, snapshot)
        view = self._masked(View(catalog=catalog, shadowed=self._shadowed(request, snapshot)), request.principal)
        if request.disabled_tools:
            disabled = frozenset(request.disabled_tools)
            view = view.narrowed(tool.name not in disabled for tool in catalog.tools)
        if request.tags is not None:
            tags = frozenset(request.tags)
            view = view.narrowed(not tags.isdisjoint(tool.tags) for tool in catalog.tools)
        return view

    def _masked(self, view: View, principal: Principal) -> View:
        """Returns the view without the tools that are hidden from the principal."""
        catalog = view.catalog
        for mask in (self._visibility.mask(catalog, principal), self._policy.visible(catalog, principal)):
            if mask is not None:
                view = view.narrowed(mask)
        return view

    def _shadowed(self, request: RunRequest, snapshot: Catalog) -> tuple[str, ...]:
        """Returns the names of tools of the snapshot that the caller may see and replaces by its own tools."""
        if not request.client_tools or not request.use_catalog:
            return ()
        names = [tool.name for tool in request.client_tools if snapshot.position(tool.name) is not None]
        if not names:
            return ()
        visible = self._masked(View(catalog=snapshot), request.principal)
        return tuple(name for name in names if visible.get(name) is not None)

    def _catalog(self, request: RunRequest, snapshot: Catalog) -> Catalog:
        """Returns the snapshot joined with the caller's own tools, which win over ours of the same name."""
        self._bots.notice(snapshot)
        ours = snapshot if request.use_catalog else _EMPTY
        return self._merged.of(request.client_tools, ours) if request.client_tools else ours

    def _offload(self, request: RunRequest, setup: Setup, snapshot: Catalog) -> Offload | None:
        """Returns how the view and the selection of this request are made; None: on the spot."""
        tools, messages = len(snapshot) + len(request.client_tools), len(request.messages)
        if tools > _FEW and not self._is_ready(request, setup, snapshot):
            return aside
        return asyncio.to_thread if tools > _LARGE or messages > _LONG else None

    def _is_ready(self, request: RunRequest, setup: Setup, snapshot: Catalog) -> bool:
        """Says if all that is worked out of a catalog is there: the catalog itself, and the index that it is searched by."""
        ours = snapshot if request.use_catalog else _EMPTY
        catalog = self._merged.cached(request.client_tools, ours) if request.client_tools else ours
        if catalog is None:
            return False
        return setup.preset.exposure != "selected" or setup.selector.is_ready(catalog)
