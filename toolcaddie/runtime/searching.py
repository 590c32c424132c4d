"""Makes the query of a request: the messages, names and limits by which its tools are searched."""

from __future__ import annotations

import msgspec

from toolcaddie.core.catalog import View
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.run import RunRequest
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.engine.choice import forced_names
from toolcaddie.runtime.coverage import has_room_for_meta
from toolcaddie.runtime.offering import Offering
from toolcaddie.runtime.setups import Setup
from toolcaddie.runtime.views import Offload


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The query of a request, and the meta tools that its model could be offered."""

    query: SelectionQuery
    offering: Offering


async def search_for(request: RunRequest, view: View, setup: Setup, offload: Offload | None) -> Search:
    """Returns the search of a request. `offload`: runs heavy work outside of the event loop; None: the work is done at once."""
    if offload is None:
        return search_now(request, view, setup)
    search: Search = await offload(search_now, request, view, setup)
    return search


def search_now(request: RunRequest, view: View, setup: Setup) -> Search:
    """Returns the search of a request. The query reserves places for the meta tools, unless the tools of the caller's choice fill
    the array."""
    offering = setup.offerings.of(view, request.principal)
    pinned = forced_names(request.tool_choice)
    has_room = has_room_for_meta(setup.preset, view, (*pinned, *request.essential))
    offered = offering.engine.meta if has_room else {}
    query = SelectionQuery(
        messages=request.messages,
        categories=request.categories,
        pinned=pinned,
        essential=request.essential,
        fixed_count=len(offered),
        fixed_tokens=offering.tokens if offered else 0,
        expandable=REQUEST_MORE_TOOLS in offered,
        principal=request.principal,
    )
    return Search(query=query, offering=offering)
