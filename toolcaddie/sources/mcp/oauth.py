"""OAuth of the MCP client, on top of the protocol's package: tokens come from the store and are refreshed; a login needs a person
and happens only in `toolcaddie mcp login`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, OutboundError
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.parts import Parts
from toolcaddie.sources.mcp.server import McpServer, OAuth
from toolcaddie.sources.mcp.tokens import Login, LoginStore

Redirect = Callable[[str], Awaitable[None]]
"""Takes the address at which a person logs in."""
Callback = Callable[[], Awaitable[AuthorizationCodeResult]]
"""Returns what the browser brings back from there."""


async def auth_for(
    server: McpServer,
    parts: Parts,
    principal: Principal,
    *,
    redirect: Redirect | None = None,
    callback: Callback | None = None,
) -> httpx2.Auth:
    """Returns the authentication of requests to a server. Without `redirect` and `callback` nobody can log in, and a request
    that would need a login fails with a sentence that says how."""
    assert server.oauth is not None
    assert server.url is not None
    logins = LoginStore(parts.store, server.name, server.url, principal, parts.clock)
    storage = _Storage(logins, await logins.read(), _own_client(server, server.oauth, parts))
    if server.oauth.grant == "client_credentials":
        return _client_credentials(server, server.oauth, parts, storage)
    return _StoredLogin(
        server,
        server.oauth,
        storage,
        redirect=redirect or _nobody(server, principal),
        callback=callback or _no_answer,
    )


def _client_credentials(server: McpServer, oauth: OAuth, parts: Parts, storage: _Storage) -> httpx2.Auth:
    if oauth.client_id is None or oauth.client_secret_env is None:
        raise ConfigError(f"MCP server {server.name!r}: client_credentials needs oauth.client_id and client_secret_env")
    return ClientCredentialsOAuthProvider(
        server_url=server.url or "",
        storage=storage,
        client_id=oauth.client_id,
        client_secret=_secret(server, oauth, parts) or "",
        scope=oauth.scope,
        issuer=oauth.issuer,
    )


class _StoredLogin(OAuthClientProvider):
    """The package's flow, which begins with everything that an earlier process has stored."""

    def __init__(
        self, server: McpServer, oauth: OAuth, storage: _Storage, *, redirect: Redirect, callback: Callback
    ) -> None:
        super().__init__(
            server_url=server.url or "",
            client_metadata=OAuthClientMetadata(
                client_name="Toolcaddie",
                redirect_uris=[AnyUrl(redirect_uri(oauth))],
                grant_types=["authorization_code", "refresh_token"],
                response_types=["code"],
                scope=oauth.scope,
            ),
            storage=storage,
            redirect_handler=redirect,
            callback_handler=callback,
            client_metadata_url=oauth.client_metadata_url,
        )
        login = storage.login
        # Without these, a refresh after a restart would go to the server instead of its authorization server.
        if login.resource is not None:
            self.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(login.resource)
        if login.issuer is not None:
            self.context.oauth_metadata = OAuthMetadata.model_validate(login.issuer)
        self.context.auth_server_url = login.issuer_url
        self.context.token_expiry_time = login.expires
        storage.context = self.context


class _Storage:
    """The package's `TokenStorage` over a stored login."""

    def __init__(self, logins: LoginStore, login: Login, own_client: OAuthClientInformationFull | None) -> None:
        self._logins = logins
        self._own_client = own_client
        self.login = login
        self.context: Any = None

    async def get_tokens(self) -> OAuthToken | None:
        self.login = await self._logins.read()
        return None if self.login.tokens is None else _known(OAuthToken.model_validate(self.login.tokens))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires = None if tokens.expires_in is None else self._logins.now() + tokens.expires_in
        await self._logins.change(tokens=_plain(_known(tokens)), expires=expires, **self._addresses())

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._own_client is not None:
            return self._own_client
        self.login = await self._logins.read()
        return None if self.login.client is None else OAuthClientInformationFull.model_validate(self.login.client)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._logins.change(client=_plain(client_info))

    def _addresses(self) -> dict[str, Any]:
        if self.context is None:
            return {}
        return {
            "resource": _plain(self.context.protected_resource_metadata),
            "issuer": _plain(self.context.oauth_metadata),
            "issuer_url": self.context.auth_server_url,
        }


def _known(tokens: OAuthToken) -> OAuthToken:
    """Returns the tokens, after adding them to the known secrets."""
    KNOWN.add(tokens.access_token, tokens.refresh_token)
    return tokens


def redirect_uri(oauth: OAuth) -> str:
    """Returns the address of this machine to which the browser returns."""
    return f"http://127.0.0.1:{oauth.redirect_port}/callback"


def _own_client(server: McpServer, oauth: OAuth, parts: Parts) -> OAuthClientInformationFull | None:
    """Returns the client that was registered by hand; None: the client registers itself."""
    if oauth.client_id is None:
        return None
    secret = _secret(server, oauth, parts)
    return OAuthClientInformationFull(
        client_id=oauth.client_id,
        client_secret=secret,
        redirect_uris=[AnyUrl(redirect_uri(oauth))],
        token_endpoint_auth_method="client_secret_basic" if secret else "none",
        issuer=oauth.issuer,
    )


def _secret(server: McpServer, oauth: OAuth, parts: Parts) -> str | None:
    if oauth.client_secret_env is None:
        return None
    return parts.secrets.require(
        oauth.client_secret_env, what=f"the client's secret for the MCP server {server.name!r}"
    )


def _nobody(server: McpServer, principal: Principal) -> Redirect:
    async def redirect(url: str) -> None:
        who = "" if principal.owner == Principal().owner else f" --principal {principal.id}"
        raise OutboundError(f"it wants a login; run: toolcaddie mcp login {server.name}{who}")

    return redirect


async def _no_answer() -> AuthorizationCodeResult:
    raise OutboundError("nobody has logged in")


def _plain(value: Any) -> Any:
    return None if value is None else value.model_dump(mode="json", by_alias=True, exclude_none=True)
