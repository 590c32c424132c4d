"""The tools that a request's principal may see: the current snapshot under the masks of visibility, policy and request. A view
or selection that takes long is made beside the event loop, so that no other request waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from toolcaddie.control.bots import Bots
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.run import RunRequest
from toolcaddie.guards.aside import aside
from toolcaddie.ports import Policy
from toolcaddie.runtime.setups import Setup
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.merged import MergedCatalogs

_EMPTY = Catalog.of(())

Call = Callable[..., Awaitable[Any]]
"""Calls a function with its arguments: on the spot, in a thread, or beside the loop and after others."""

_FEW = 100
"""Tools up to which a new catalog is worked out on the spot. More take so long that every other request would notice, so
that it happens beside the event loop."""
_LARGE = 2_000
"""Tools from which also a selection from a known catalog is made in a thread."""
_LONG = 500
"""Messages from which a conversation is looked through in a thread."""


class Views:
    """Makes the view of each request. A view is one mask over a snapshot, which never changes under a run."""

    def __init__(self, source: CombinedSource, policy: Policy, bots: Bots) -> None:
        self._source = source
        self._policy = policy
        self._bots = bots
        self._visibility = Visibility(bots)
        self._merged = MergedCatalogs()

    def of(self, request: RunRequest) -> View:
        """Returns the view of a request. What tools and bots restrict holds beside whatever the policy shows."""
        catalog, principal = self._catalog(request), request.principal
        view = View(catalog=catalog)
        for mask in (self._visibility.mask(catalog, principal), self._policy.visible(catalog, principal)):
            if mask is not None:
                view = view.narrowed(mask)
        if request.disabled_tools:
            disabled = frozenset(request.disabled_tools)
            view = view.narrowed(tool.name not in disabled for tool in catalog.tools)
        if request.tags is not None:
            tags = frozenset(request.tags)
            view = view.narrowed(not tags.isdisjoint(tool.tags) for tool in catalog.tools)
        return view

    def catalog_if_ready(self, request: RunRequest) -> Catalog | None:
        """The request's catalog where nothing has to be worked out for it; None: it has to be joined first."""
        ours = self._source.snapshot() if request.use_catalog else _EMPTY
        return self._merged.cached(request.client_tools, ours) if request.client_tools else ours

    def size(self, request: RunRequest) -> int:
        """Tools that have to be looked through for the request, at most."""
        return len(self._source.snapshot()) + len(request.client_tools)

    def _catalog(self, request: RunRequest) -> Catalog:
        """The current snapshot, joined with the caller's own tools, which win over ours of the same name."""
        ours = self._source.snapshot()
        self._bots.notice(ours)
        if not request.use_catalog:
            ours = _EMPTY
        return self._merged.of(request.client_tools, ours) if request.client_tools else ours


def call_for(request: RunRequest, setup: Setup, views: Views) -> Call:
    """Returns the way in which view and selection of this request are made."""
    tools, messages = views.size(request), len(request.messages)
    if tools <= _FEW and messages <= _LONG:
        return _on_the_spot
    if tools > _FEW and not _is_ready(request, setup, views):
        return aside
    return asyncio.to_thread if tools > _LARGE or messages > _LONG else _on_the_spot


def _is_ready(request: RunRequest, setup: Setup, views: Views) -> bool:
    """Says if all that is worked out of a catalog is there: the catalog itself, and the index that it is searched by."""
    catalog = views.catalog_if_ready(request)
    if catalog is None:
        return False
    return setup.preset.exposure != "selected" or setup.selector.is_ready(catalog)


async def _on_the_spot(job: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return job(*args, **kwargs)
