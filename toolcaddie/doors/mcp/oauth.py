"""OAuth tokens at the MCP door, which is a resource server: its metadata (RFC 9728), and the check of a token at the
authorization server (RFC 7662). `door.py` uses it if the settings name an authorization server.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from toolcaddie.app.settings import MCPSettings
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, OutboundError
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger

log = Logger(__name__)

_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_CACHE_SECONDS = 30.0
"""Seconds for which a valid token is not checked again, so a revoked one is refused after this time."""
_MOST_TOKENS = 10_000
_LONGEST_TOKEN = 8_192
_LARGEST_ANSWER = 64 * 1024
_ASK_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """The claims of a valid token, and the moment until which they count."""

    claims: Mapping[str, Any]
    until: float


class Tokens:
    """Checks OAuth tokens. `secret`: the secret of `client_id`. `session` makes an HTTP client."""

    def __init__(
        self,
        settings: MCPSettings,
        secret: str | None,
        session: Callable[..., aiohttp.ClientSession],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if settings.introspection_url is None or settings.url is None or not settings.authorization_servers:
            raise ConfigError(
                "OAuth at the MCP door needs mcp.url, mcp.authorization_servers and mcp.introspection_url; set all three"
            )
        self._url, self._introspection_url = settings.url, settings.introspection_url
        self._settings = settings
        self._secret = secret
        self._session = session
        self._clock = clock
        self._known: Bounded[str, _Checked] = Bounded(_MOST_TOKENS)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the metadata on this server."""
        return (_WELL_KNOWN, f"{_WELL_KNOWN}{self._settings.path}")

    @property
    def metadata(self) -> bytes:
        """The metadata of this resource, which says where a client gets a token."""
        scopes = {"scopes_supported": self._settings.scopes} if self._settings.scopes else {}
        return msgspec.json.encode(
            {
                "resource": self._url,
                "authorization_servers": self._settings.authorization_servers,
                "bearer_methods_supported": ["header"],
                **scopes,
            }
        )

    def challenge(self, *, error: str = "") -> str:
        """Returns the header `WWW-Authenticate` of a refusal. `error`: OAuth's word for it; empty: there was no token."""
        parts = urlsplit(self._url)
        where = f"{parts.scheme}://{parts.netloc}{_WELL_KNOWN}{parts.path.rstrip('/')}"
        fields = [*([f'error="{error}"'] if error else []), f'resource_metadata="{where}"']
        if self._settings.scopes:
            fields.append(f'scope="{" ".join(self._settings.scopes)}"')
        return f"Bearer {', '.join(fields)}"

    async def check(self, token: str) -> Principal | Problem:
        """Returns the principal of a token, or the refusal."""
        if not token:
            return self._refusal("no token was sent; get one from the authorization server", "")
        if len(token) > _LONGEST_TOKEN:
            return self._refusal("the token is too long", "invalid_token")
        key = hashlib.sha256(token.encode()).hexdigest()
        known = self._known.get(key)
        if known is None or known.until <= self._clock():
            try:
                claims = await self._introspected(token)
            except (aiohttp.ClientError, OutboundError, TimeoutError, msgspec.MsgspecError, ValueError) as error:
                log.warning("token_not_checked", error=str(error)[:500])
                return problem(503, "the authorization server cannot check tokens now; try again", kind="server_error")
            known = _Checked(claims=claims, until=self._until(claims))
            self._known.put(key, known)
        return self._principal(known.claims)

    def _until(self, claims: Mapping[str, Any]) -> float:
        now, end = self._clock(), claims.get("exp")
        return min(now + _CACHE_SECONDS, float(end)) if isinstance(end, int | float) else now + _CACHE_SECONDS

    async def _introspected(self, token: str) -> Mapping[str, Any]:
        """Returns what the authorization server says of a token."""
        credentials = (
            aiohttp.BasicAuth(self._settings.client_id, self._secret or "") if self._settings.client_id else None
        )
        form = {"token": token, "token_type_hint": "access_token"}
        async with (
            self._session(seconds=_ASK_SECONDS) as session,
            session.post(self._introspection_url, data=form, auth=credentials, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise ValueError(f"{self._introspection_url} answered {answer.status}")
            body = b""
            async for part in answer.content.iter_any():
                body += part
                if len(body) > _LARGEST_ANSWER:
                    raise ValueError(f"the answer of {self._introspection_url} is over {_LARGEST_ANSWER:,} bytes")
            return msgspec.json.decode(body, type=dict[str, Any])

    def _principal(self, claims: Mapping[str, Any]) -> Principal | Problem:
        """Returns the principal that the claims name, or the refusal."""
        end = claims.get("exp")
        if claims.get("active") is not True or (isinstance(end, int | float) and end <= self._clock()):
            return self._refusal("the token is unknown, revoked or expired", "invalid_token")
        audience = claims.get("aud")
        if self._url not in (audience if isinstance(audience, list) else [audience]):
            return self._refusal(f"the token is not for {self._url}", "invalid_token")
        missing = set(self._settings.scopes) - set(str(claims.get("scope", "")).split())
        if missing:
            return self._refusal(
                f"the token lacks the scope {' '.join(sorted(missing))}", "insufficient_scope", status=403
            )
        subject = claims.get("sub") or claims.get("client_id")
        if not isinstance(subject, str) or not subject:
            return self._refusal("the token names nobody", "invalid_token")
        role = claims.get(self._settings.role_claim) if self._settings.role_claim else None
        return Principal(id=f"oauth:{subject}"[:500], role=role if isinstance(role, str) else None)

    def _refusal(self, message: str, error: str, *, status: int = 401) -> Problem:
        """Returns a refusal. `error`: OAuth's word for it; empty: there was no token."""
        headers = {"www-authenticate": self.challenge(error=error)}
        return problem(status, message, kind="invalid_request_error", code=error or None, headers=headers)
