"""The security schemes of an OpenAPI document, and the credentials that the settings give for them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import CatalogError, ConfigError
from toolcaddie.parts import Secrets
from toolcaddie.sources.openapi.addresses import joined, origin
from toolcaddie.sources.openapi.api import Credential, OpenApi
from toolcaddie.sources.openapi.references import followed
from toolcaddie.util.suggest import did_you_mean


class Scheme(Struct, frozen=True, kw_only=True):
    """A way to prove who calls."""

    kind: Literal["key", "basic", "bearer", "oauth", "other"]
    location: str = "header"
    name: str = "Authorization"
    """The header, the query parameter or the cookie that carries the credential."""
    word: str = "Bearer"
    """The word before a token in the header `Authorization`."""
    token_url: str = ""
    """The address at which a client gets tokens, if the document names one."""


class Proof(Struct, frozen=True, kw_only=True):
    """A credential in its place of a request. It has no `repr`, because it is a secret."""

    location: str
    name: str
    value: str
    secrets: Sequence[str] = ()
    """Texts that must not appear in a result."""

    def __repr__(self) -> str:
        return f"Proof({self.location} {self.name})"


def schemes_of(document: Mapping[str, Any]) -> dict[str, Scheme]:
    """Returns the security schemes by name. One that cannot be read is of kind `other`, for which there is no credential."""
    components = document.get("components")
    listed = components.get("securitySchemes") if isinstance(components, dict) else None
    return {name: _scheme(document, node) for name, node in listed.items()} if isinstance(listed, dict) else {}


def _scheme(document: Mapping[str, Any], node: Any) -> Scheme:
    try:
        node = followed(document, node)
    except CatalogError:
        return Scheme(kind="other")
    kind, name, word = node.get("type"), node.get("name"), str(node.get("scheme", "")).lower()
    if kind == "apiKey" and isinstance(name, str) and node.get("in") in ("header", "query", "cookie"):
        return Scheme(kind="key", location=node["in"], name=name)
    if kind == "http" and word == "basic":
        return Scheme(kind="basic")
    if kind == "http" and word:
        return Scheme(kind="bearer", word="Bearer" if word == "bearer" else str(node["scheme"]))
    if kind in ("oauth2", "openIdConnect"):
        return Scheme(kind="oauth", token_url=_token_url(node.get("flows")))
    return Scheme(kind="other")


def _token_url(flows: Any) -> str:
    flow = flows.get("clientCredentials") if isinstance(flows, dict) else None
    address = flow.get("tokenUrl") if isinstance(flow, dict) else None
    return address if isinstance(address, str) else ""


def check_auth(api: OpenApi, schemes: Mapping[str, Scheme]) -> None:
    """Raises `ConfigError` for a credential whose scheme the document does not have, or that does not fit its scheme."""
    for name, credential in api.auth.items():
        place = f"OpenAPI source {api.name!r}, auth.{name}"
        scheme = schemes.get(name)
        if scheme is None:
            raise ConfigError(f"{place}: the document has no such security scheme; {did_you_mean(name, schemes)}")
        if scheme.kind == "other":
            raise ConfigError(f"{place}: schemes of this type are not supported; send the credential with headers_from")
        if scheme.kind == "basic" and not (
            (credential.username and credential.password_env) or credential.per_principal
        ):
            raise ConfigError(f"{place}: basic authentication needs username and password_env")
        if scheme.kind == "basic" and credential.per_principal and not credential.username:
            raise ConfigError(f"{place}: basic authentication needs a username beside per_principal")
        if scheme.kind != "basic" and (credential.username or credential.password_env):
            raise ConfigError(
                f"{place}: the scheme takes a token or a key; set token_env instead of a user and a password"
            )
        if credential.client_id:
            if scheme.kind != "oauth":
                raise ConfigError(f"{place}: client_id belongs to a scheme of type oauth2")
            token_address(api, name, scheme, credential)


def token_address(api: OpenApi, name: str, scheme: Scheme, credential: Credential) -> str:
    """Returns the address at which the client gets tokens. Raises `ConfigError` if only the document names it and it is not on
    one of the configured servers: a document must not decide where a secret is sent."""
    if credential.token_url:
        return credential.token_url
    place = f"OpenAPI source {api.name!r}, auth.{name}"
    if not scheme.token_url:
        raise ConfigError(f"{place}: the document names no address for tokens; set token_url")
    address = joined(api.servers[0] if api.servers else "", scheme.token_url)
    if urlsplit(address).scheme not in ("http", "https") or origin(address) not in map(origin, api.servers):
        raise ConfigError(
            f"{place}: the document sends the client's secret to {address[:200]!r}, which is not on a configured server; if that "
            "is right, set token_url to this address"
        )
    return address


def secret_for(credential: Credential, principal: Principal, secrets: Secrets, *, what: str) -> str | None:
    """Returns the principal's own secret, or else the common one; None: there is none for this principal. Raises `ConfigError`
    for a variable that is not set."""
    names = [f"{principal.tenant}/{principal.id}"]
    if principal.tenant == "default":
        names.append(principal.id)
    variable = next((credential.per_principal[name] for name in names if name in credential.per_principal), None)
    variable = variable or credential.token_env or credential.password_env
    return None if variable is None else secrets.require(variable, what=what)


def proof_of(scheme: Scheme, credential: Credential, secret: str) -> Proof:
    """Returns a secret in the form and the place of its scheme. Raises `ConfigError` if a header cannot contain it."""
    if not secret.isascii() or not secret.isprintable():
        raise ConfigError("a credential has characters that a header cannot have; check its environment variable")
    if scheme.kind == "key":
        return Proof(location=scheme.location, name=scheme.name, value=secret, secrets=(secret,))
    if scheme.kind == "basic":
        encoded = base64.b64encode(f"{credential.username}:{secret}".encode()).decode()
        return Proof(location="header", name="Authorization", value=f"Basic {encoded}", secrets=(secret, encoded))
    return Proof(location="header", name="Authorization", value=f"{scheme.word} {secret}", secrets=(secret,))
