"""The settings of one HTTP API, as a value. The table `[[source]]` of type `openapi` has these keys."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.numbers import Positive, Seconds
from toolcaddie.parts import Variable

MEGABYTE = 1024 * 1024

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}\Z")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_SERVER = re.compile(r"https?://[^\s/@?#{}]+(/[^\s?#{}]*)?\Z")


class Credential(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The credential for one security scheme of the document. The scheme decides which of the fields are used."""

    token_env: Variable | None = None
    """The variable with a bearer token, an API key, or an OAuth access token that was issued elsewhere."""
    username: str | None = None
    """The user of basic authentication."""
    password_env: Variable | None = None
    """The variable with the password of basic authentication."""
    client_id: str | None = None
    """The client of OAuth client credentials."""
    client_secret_env: Variable | None = None
    """The variable with the secret of that client."""
    token_url: str | None = None
    """The address at which the client gets its tokens. None: the document's, if it is on a host of `servers`."""
    scope: str | None = None
    """Scopes, separated by spaces. None: those that the operation asks for."""
    per_principal: Mapping[str, Variable] = {}
    """For each principal (`id`, or `tenant/id`) the variable with its own token, API key or password. A principal that is not
    named here uses the other fields; without them its calls are refused."""


class OpenApi(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An HTTP API and its OpenAPI document."""

    name: str
    document: str
    """A file or an address, in JSON or YAML."""
    servers: tuple[str, ...] = ()
    """Base addresses that may be called. Operations use the first one, unless the document gives them a server of their own: then
    that server must lie below one of these addresses. Empty: only the origin from which the document was fetched."""
    auth: Mapping[str, Credential] = {}
    """Credentials by the name of the security scheme in the document."""
    headers: Mapping[str, str] = {}
    """Headers of every request. They must not contain secrets."""
    headers_from: Mapping[str, Variable] = {}
    """Headers of every request whose values are in environment variables."""
    include: tuple[str, ...] = ("*",)
    """Operations that become tools; `patterns` describes the forms."""
    exclude: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    """Operations that change nothing although their method is neither GET nor HEAD, such as a search by POST."""
    prefix: str = ""
    """Begins the name of every tool, followed by two underscores."""
    category: str | None = None
    """The category of all tools. None: the first tag of each operation."""
    timeout: Seconds = 30.0
    concurrency: Positive = 100
    """The largest number of open connections."""
    hedge_after: Seconds | None = None
    """Seconds after which a GET or HEAD of a read-only operation is sent a second time; the first answer counts. None: never."""
    max_document_bytes: Positive = 64 * MEGABYTE
    max_response_bytes: Positive = 4 * MEGABYTE
    max_schema_bytes: Positive = 64 * 1024
    """Size of a tool's schema above which the descriptions, and if necessary the inner parts, of its schema are shortened."""


def check_api(api: OpenApi) -> OpenApi:
    """Returns the API. Raises `ConfigError` for settings that contradict each other or contain a secret."""
    what = f"OpenAPI source {api.name!r}"
    if not _NAME.match(api.name):
        raise ConfigError(f"{what}: a name is 1 to 40 letters, digits, '_' or '-'")
    if not api.document:
        raise ConfigError(f"{what}: its document is empty; give a file or an address")
    if api.prefix and not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", api.prefix):
        raise ConfigError(f"{what}: a prefix is 1 to 40 letters, digits, '_' or '-'")
    for server in api.servers:
        if not _SERVER.match(server):
            raise ConfigError(
                f"{what}: a server is an address such as https://api.example.com/v1, without user, query and variables in "
                "braces; this one is not" + ("" if "@" in server else f": {server[:200]!r}")
            )
    _check_headers(api, what)
    for scheme, credential in api.auth.items():
        _check_credential(scheme, credential, what)
    return api


def _check_headers(api: OpenApi, what: str) -> None:
    for name in (*api.headers, *api.headers_from):
        if not _HEADER.match(name):
            raise ConfigError(f"{what}: {name!r} is no name of a header")
    for name, value in api.headers.items():
        if may_be_secret(name):
            raise ConfigError(
                f"{what}: the header {name!r} looks like a secret; put it into an environment variable and name that "
                f'variable: headers_from = {{ {name} = "VARIABLE" }}'
            )
        if not value.isprintable():
            raise ConfigError(f"{what}: the header {name!r} has characters that a header cannot have")


def _check_credential(scheme: str, credential: Credential, what: str) -> None:
    place = f"{what}, auth.{scheme}"
    if credential.client_secret_env and not credential.client_id:
        raise ConfigError(f"{place}: client_secret_env needs a client_id")
    if credential.client_id and (credential.token_env or credential.password_env or credential.per_principal):
        raise ConfigError(f"{place}: give either client_id and client_secret_env, or the other fields")
    if credential.client_id and not credential.client_secret_env:
        raise ConfigError(f"{place}: client_id needs client_secret_env, the variable with the client's secret")
    if credential.token_url is not None and not _SERVER.match(credential.token_url):
        raise ConfigError(f"{place}: token_url is not an address that begins with http:// or https://")
    if not (credential.token_env or credential.password_env or credential.client_id or credential.per_principal):
        raise ConfigError(f"{place} names no secret; set token_env, password_env, client_secret_env or per_principal")


def may_be_secret(name: str) -> bool:
    """Returns True if a header of this name usually holds a secret."""
    return bool(re.search(r"(?i)(key|token|secret|passw|credential|auth|cookie)", name))
