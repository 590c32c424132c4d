"""Finds the credentials for a call: the first alternative of the operation's security for which all credentials are there. Gets
OAuth tokens for the client of the settings."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.parts import Secrets
from toolcaddie.sources.openapi.api import Credential, OpenApi
from toolcaddie.sources.openapi.operations import Operation
from toolcaddie.sources.openapi.requests import HttpRequest
from toolcaddie.sources.openapi.security import Proof, Scheme, proof_of, secret_for, token_address
from toolcaddie.sources.openapi.sending import Answer

Send = Callable[[HttpRequest], Awaitable[Answer]]

CredentialLookup = Callable[[str, Principal], Awaitable[str | None]]
"""Returns the token, key or password of a principal for a security scheme (its name); None: there is none."""

_SPARE_SECONDS = 30.0
"""Seconds before its end at which a token is replaced."""
_DEFAULT_SECONDS = 300.0
"""Lifetime of a token whose answer names none."""


class NoCredential(Exception):
    """No alternative of an operation's security can be met."""


class Credentials:
    """The credentials of one API. `lookup` is asked first; then come the settings."""

    def __init__(
        self,
        api: OpenApi,
        schemes: Mapping[str, Scheme],
        secrets: Secrets,
        send: Send,
        lookup: CredentialLookup | None = None,
    ) -> None:
        self._api, self._schemes, self._secrets, self._send, self._lookup = api, schemes, secrets, send, lookup
        self._tokens: dict[tuple[str, str], tuple[str, float]] = {}
        """Token and moment on the monotonic clock at which it is replaced, by the name of the scheme and the scopes."""
        self._fetching = asyncio.Lock()

    async def proofs(self, operation: Operation, principal: Principal) -> Sequence[Proof]:
        """Returns the credentials for a call. Raises `NoCredential`, `ConfigError` or `OutboundError`."""
        alternatives = operation.security
        missing: list[str] = []
        for alternative in alternatives:
            proofs = [await self._proof(name, scopes, principal) for name, scopes in alternative.items()]
            if all(proof is not None for proof in proofs):
                return [proof for proof in proofs if proof is not None]
            missing.append(" and ".join(alternative))
        if not alternatives:
            return ()
        raise NoCredential(" or ".join(missing))

    def forget_tokens(self) -> None:
        """Discards the tokens, because the API has refused one."""
        self._tokens.clear()

    async def _proof(self, name: str, scopes: Sequence[str], principal: Principal) -> Proof | None:
        scheme, credential = self._schemes.get(name), self._api.auth.get(name)
        if scheme is None:
            return None
        own = await self._lookup(name, principal) if self._lookup is not None else None
        if own is not None:
            return proof_of(scheme, credential or Credential(), own)
        if credential is None:
            return None
        if credential.client_id is not None:
            token = await self._token(name, scheme, credential, scopes)
            return proof_of(scheme, credential, token)
        what = f"the credential {name!r} of the OpenAPI source {self._api.name!r}"
        secret = secret_for(credential, principal, self._secrets, what=what)
        return None if secret is None else proof_of(scheme, credential, secret)

    async def _token(self, name: str, scheme: Scheme, credential: Credential, scopes: Sequence[str]) -> str:
        scope = credential.scope if credential.scope is not None else " ".join(scopes)
        async with self._fetching:
            token, until = self._tokens.get((name, scope), ("", 0.0))
            if time.monotonic() >= until:
                token, seconds = await self._fetch(name, scheme, credential, scope)
                self._tokens[name, scope] = (token, time.monotonic() + max(0.0, seconds - _SPARE_SECONDS))
            return token

    async def _fetch(self, name: str, scheme: Scheme, credential: Credential, scope: str) -> tuple[str, float]:
        what = f"the client's secret for auth.{name} of the OpenAPI source {self._api.name!r}"
        secret = self._secrets.require(credential.client_secret_env or "", what=what)
        client = f"{quote(credential.client_id or '', safe='')}:{quote(secret, safe='')}"
        fields = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        answer = await self._send(
            HttpRequest(
                method="POST",
                address=token_address(self._api, name, scheme, credential),
                headers={
                    "Authorization": f"Basic {base64.b64encode(client.encode()).decode()}",
                    "Content-Type": "application/x-www-form-urlencoded",
                    "Accept": "application/json",
                },
                body=urlencode(fields).encode(),
            )
        )
        return _read_token(answer, f"auth.{name} of the OpenAPI source {self._api.name!r}")


def _read_token(answer: Answer, what: str) -> tuple[str, float]:
    """Returns the token and its lifetime in seconds. Raises `OutboundError`; the answer's text is not quoted, because it may
    contain the secret."""
    try:
        value: Any = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, RecursionError):
        value = None
    token = value.get("access_token") if isinstance(value, dict) else None
    if answer.status != 200 or not isinstance(token, str) or not token:
        code = value.get("error") if isinstance(value, dict) else None
        detail = f" ({code[:60]})" if isinstance(code, str) and code.isprintable() else ""
        raise OutboundError(f"{what}: the server of tokens gave none; it answered with status {answer.status}{detail}")
    KNOWN.add(token)
    seconds = value.get("expires_in")
    lasts = float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else _DEFAULT_SECONDS
    return token, lasts
