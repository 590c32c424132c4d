"""Tells MCP clients what has changed: the list of tools, and resources to which they subscribed.

Clients of the protocol of 2026 listen on a stream that `subscriptions/listen` opens; clients of the protocol of 2025 get
notifications in their sessions. News of one process reaches the clients of that process; lists are never cached for longer than
seconds, so the others notice too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError

from toolcaddie.doors.mcp.offers import Offers
from toolcaddie.doors.mcp.questions import Context
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger

log = Logger(__name__)

_MOST_SESSIONS = 10_000
_MOST_URIS = 100
_LOOK_SECONDS = 1.0
"""Seconds between two looks at the version of the catalog."""
_GONE = (MCPError, anyio.BrokenResourceError, anyio.ClosedResourceError)
"""Errors of a session whose client has left."""


EVERYBODY = ""
"""The name under which the version of the shared catalog stands among those of tenants."""


class News:
    """The clients that want to hear of changes. `session_of` returns the id of a request's session; empty: it has none.
    `tenant_of` returns the tenant of a request."""

    def __init__(
        self, offers: Offers, session_of: Callable[[Context], str], tenant_of: Callable[[Context], str]
    ) -> None:
        self._offers = offers
        self._session_of = session_of
        self._tenant_of = tenant_of
        self._bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self._bus)
        self._sessions: Bounded[str, ServerSession] = Bounded(_MOST_SESSIONS)
        self._tenants: Bounded[str, str] = Bounded(_MOST_SESSIONS)
        self._uris: Bounded[str, frozenset[str]] = Bounded(_MOST_SESSIONS)

    @property
    def handlers(self) -> Mapping[str, Any]:
        """The arguments of the package's server for subscriptions to resources."""
        return {"on_subscribe_resource": self.subscribe, "on_unsubscribe_resource": self.unsubscribe}

    async def join(self, context: Context, params: types.NotificationParams | None) -> None:
        """Remembers a session that has begun."""
        if session_id := self._session_of(context):
            self._sessions.put(session_id, context.session)
            self._tenants.put(session_id, self._tenant_of(context))

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        uris = self._uris.get(self._session_of(context)) or frozenset()
        if len(uris) < _MOST_URIS:
            self._uris.put(self._session_of(context), uris | {str(params.uri)})
        return types.EmptyResult()

    async def unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        uris = self._uris.get(self._session_of(context)) or frozenset()
        self._uris.put(self._session_of(context), uris - {str(params.uri)})
        return types.EmptyResult()

    async def tools_changed(self, context: Context | None = None) -> None:
        """Tells that the list of tools has changed: the session of a request, or all sessions."""
        await self._bus.publish(ToolsListChanged())
        sessions = self._all_sessions() if context is None else {self._session_of(context): context.session}
        for session_id, session in sessions.items():
            if session_id:
                await self._told(session_id, session.send_tool_list_changed())

    async def tools_of_tenant_changed(self, tenant: str) -> None:
        """Tells the sessions of a tenant that its list of tools has changed. Streams of 2026 are not told, because they cannot be
        told apart: their clients keep a list for seconds only, and those of other tenants must not hear of it."""
        for session_id, session in self._all_sessions().items():
            if self._tenants.peek(session_id) == tenant:
                await self._told(session_id, session.send_tool_list_changed())

    async def resource_changed(self, uri: str) -> None:
        """Tells the subscribers of a resource that it has changed."""
        await self._bus.publish(ResourceUpdated(uri=uri))
        for session_id, session in self._all_sessions().items():
            if uri in (self._uris.peek(session_id) or ()):
                await self._told(session_id, session.send_resource_updated(uri))

    @asynccontextmanager
    async def watching(self, versions: Callable[[], Mapping[str, Hashable]] | None) -> AsyncIterator[None]:
        """Tells clients of every change until the `with` block ends. `versions` returns what changes with the list of tools: of
        all (`EVERYBODY`), and of each tenant whose catalog is open. None: the list is always the same."""
        for offer in self._offers.resources:
            offer.listeners.append(self.resource_changed)
        watch = None if versions is None else asyncio.create_task(self._watch(versions))
        try:
            yield
        finally:
            for offer in self._offers.resources:
                offer.listeners.remove(self.resource_changed)
            self.listening.close()
            if watch is not None:
                watch.cancel()
                await asyncio.wait({watch})

    async def _watch(self, versions: Callable[[], Mapping[str, Hashable]]) -> None:
        before = dict(versions())  # those of catalogs that were closed stay in it
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = versions()
            changed = [name for name, version in now.items() if before.get(name, version) != version]
            before.update(now)
            if EVERYBODY in changed:
                await self.tools_changed()
                continue
            for tenant in changed:
                await self.tools_of_tenant_changed(tenant)

    async def _told(self, session_id: str, notification: Any) -> None:
        """Sends a notification, and forgets a session whose client has left."""
        try:
            await notification
        except _GONE:
            self._sessions.pop(session_id)
            self._uris.pop(session_id)

    def _all_sessions(self) -> Mapping[str, ServerSession]:
        return {name: session for name in list(self._sessions) if (session := self._sessions.peek(name)) is not None}
