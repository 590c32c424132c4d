"""OAuth tokens for MCP servers, in the store: one document for each server and principal. It also holds what the next process
needs to refresh them: the registered client and the addresses of the authorization server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import StorageError
from toolcaddie.ports import Store

KIND = "mcp-tokens"


class Login(Struct, frozen=True, kw_only=True):
    """The result of a login, in the JSON of the protocol's package. Its `repr` shows no token."""

    url: str = ""
    """Address of the server that the tokens are for. They are not used for another one of the same name."""
    tokens: dict[str, Any] | None = None
    expires: float | None = None
    """Seconds since the epoch."""
    client: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None
    """The server's metadata as a protected resource."""
    issuer: dict[str, Any] | None = None
    """The metadata of the authorization server."""
    issuer_url: str | None = None

    def __repr__(self) -> str:
        return f"Login(url={self.url!r})"


class LoginStore:
    """The login of one principal at one server. Without a store it is in memory."""

    def __init__(
        self, store: Store | None, server: str, url: str, principal: Principal, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._key = "\0".join((server, *principal.owner))
        self._url = url
        self._clock = clock
        self._login = Login(url=url)

    async def read(self) -> Login:
        document = None if self._store is None else await self._store.get(KIND, self._key)
        if document is not None:
            try:
                login = msgspec.json.decode(document, type=Login)
            except msgspec.MsgspecError as error:
                raise StorageError(f"a stored login of an MCP server cannot be read: {error}; log in again") from error
            self._login = login if login.url == self._url else Login(url=self._url)
        return self._login

    async def change(self, **changes: Any) -> None:
        """Writes some fields of the login."""
        self._login = replace(self._login, **changes)
        if self._store is not None:
            await self._store.put(KIND, self._key, msgspec.json.encode(self._login))

    async def forget(self) -> None:
        self._login = Login(url=self._url)
        if self._store is not None:
            await self._store.delete(KIND, self._key)

    def now(self) -> float:
        return self._clock()
