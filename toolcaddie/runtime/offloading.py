"""Calls the heavy parts of a request so that no other request stands still meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from toolcaddie.core.run import RunRequest
from toolcaddie.guards.aside import aside
from toolcaddie.runtime.setups import Setup
from toolcaddie.runtime.views import Views

Call = Callable[..., Awaitable[Any]]
"""Calls a function with its arguments: on the spot, in a thread, or beside the loop and after others."""

_FEW = 100
"""Tools up to which a new catalog is worked out on the spot. More take so long that every other request would notice, so
that it happens beside the event loop."""
_LARGE = 2_000
"""Tools from which also a selection from a known catalog is made in a thread."""
_LONG = 500
"""Messages from which a conversation is looked through in a thread."""


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
