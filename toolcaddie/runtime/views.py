"""The tools that a request's principal may see: the snapshot of now under the masks of visibility, policy and request."""

from __future__ import annotations

from toolcaddie.control.bots import Bots
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.run import RunRequest
from toolcaddie.ports import Policy
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.merged import MergedCatalogs

_EMPTY = Catalog.of(())


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
