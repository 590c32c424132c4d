"""An authorization server for tests of OAuth, and a browser that needs no person."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


class Authority:
    """An authorization server in memory. It logs everybody in at once."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshes: dict[str, RefreshToken] = {}
        self.refreshed = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = f"code-{len(self.codes)}"
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=str(client.client_id),
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        return self._issued(str(client.client_id))

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: Any) -> OAuthToken:
        self.refreshed += 1
        return self._issued(str(client.client_id))

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.tokens.pop(token.token, None)

    def _issued(self, client: str) -> OAuthToken:
        number = len(self.tokens)
        self.tokens[f"access-{number}"] = AccessToken(token=f"access-{number}", client_id=client, scopes=[])
        self.refreshes[f"refresh-{number}"] = RefreshToken(token=f"refresh-{number}", client_id=client, scopes=[])
        return OAuthToken(access_token=f"access-{number}", refresh_token=f"refresh-{number}", expires_in=3600)


async def visit(url: str) -> None:
    assert urlsplit(url).path == "/authorize"
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        assert response.status == 200
