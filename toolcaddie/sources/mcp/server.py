"""The settings of one MCP server, as a value. The table `[[source]]` of type `mcp` has these keys."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.numbers import Positive, Seconds
from toolcaddie.parts import Variable

Protocol = Literal["auto", "2025-11-25", "2026-07-28"]
Elicitation = Literal["decline", "cancel", "defaults"]
NewTools = Literal["quarantine", "allow"]

Origin = tuple[str, str, int]
"""Scheme, host and port."""
PORTS = {"http": 80, "https": 443}
ANY_PORT = 0
"""The port of an `Origin` that stands for all ports."""

_SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}\Z")
_AUTHORITY = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>[^\s/@:*?#\[\]]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}|\*))?/?\Z"
)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_SECRET_NAME = re.compile(r"(?i)(key|token|secret|passw|credential|auth)")


class OAuth(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `oauth` of a server. An empty table is enough for servers with which clients can register themselves."""

    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    """`authorization_code`: a person logs in with `toolcaddie mcp login`. `client_credentials`: this program itself is the
    client, and nobody logs in."""
    client_id: str | None = None
    """The id of a client that was registered by hand. None: the client registers itself."""
    client_secret_env: Variable | None = None
    """The variable with the secret of that client."""
    client_metadata_url: str | None = None
    """Address of a client metadata document, used as the client's id by authorization servers that accept one."""
    scope: str | None = None
    """Scopes, separated by spaces. None: those that the server asks for."""
    issuer: str | None = None
    """The authorization server that `client_id` belongs to."""
    redirect_port: Annotated[int, Meta(ge=1, le=65535)] = 8322
    """The port of this machine to which the browser returns after a login."""
    hosts: tuple[str, ...] = ()
    """Authorization servers in private networks that may be asked, such as `http://login.internal:8080`; a name without a scheme
    stands for `https://NAME`, and the port `*` for all ports. Others are asked only at public addresses, or at the origin of the
    MCP server itself."""
    per_principal: bool = False
    """True: each principal calls the server with the tokens of its own login. False: all use the operator's login."""


class McpServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server, either by `url` (streamable HTTP) or by `command` (stdio)."""

    name: str
    """Also the prefix of its tools' names."""
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env: Mapping[str, str] = {}
    env_from: Mapping[str, Variable] = {}
    headers: Mapping[str, str] = {}
    headers_from: Mapping[str, Variable] = {}
    token_env: Variable | None = None
    oauth: OAuth | None = None
    protocol: Protocol = "auto"
    trusted: bool = False
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    prefix: str | None = None
    category: str | None = None
    resources: bool = False
    prompts: bool = False
    elicitation: Elicitation = "decline"
    new_tools: NewTools = "quarantine"
    """Tools that the server adds after the first contact, which accepts all that it has. In quarantine they wait for a person
    like changed tools; otherwise a server could replace an accepted tool by a new one of another name."""
    roots: tuple[str, ...] = ()
    timeout: Seconds | None = None
    connect_seconds: Seconds = 10.0
    refresh_seconds: Seconds = 300.0
    concurrency: Positive = 100
    hedge_after: Seconds | None = None
    """Seconds after which a call of a read-only tool is sent a second time; the first answer counts. None: never."""
    max_tools: Positive = 1_000

    @property
    def place(self) -> str:
        """The server's address or command, for messages. Arguments are left out, because they may contain secrets."""
        return self.url.partition("?")[0] if self.url else str(self.command)


def may_be_secret(name: str) -> bool:
    """Returns True if a variable or a header of this name usually holds a secret."""
    return bool(_SECRET_NAME.search(name))


def check_server(server: McpServer) -> McpServer:
    """Returns the server. Raises `ConfigError` for settings that contradict each other or contain a secret."""
    what = f"MCP server {server.name!r}"
    if not _SERVER_NAME.match(server.name):
        raise ConfigError(f"{what}: a name is 1 to 40 letters, digits, '_' or '-'; it begins the names of the tools")
    if (server.url is None) == (server.command is None):
        raise ConfigError(f"{what}: give either its url or its command")
    for root in server.roots:
        if not os.path.isabs(root):
            raise ConfigError(f"{what}: the root {root!r} is a relative path; write it from the top of the file system")
    if server.url is not None:
        _check_url(server, what)
    else:
        _check_command(server, what)
    return server


def authority_origin(entry: str, what: str = "MCP server") -> Origin:
    """Returns the origin of an entry of `oauth.hosts`. Raises `ConfigError`."""
    if match := _AUTHORITY.match(entry.lower()):
        scheme, port = match["scheme"] or "https", match["port"] or ""
        number = ANY_PORT if port == "*" else int(port or PORTS[scheme])
        if number <= 65535 and port != "0":
            return scheme, match["host"].strip("[]"), number
    raise ConfigError(
        f"{what}: the entry {entry!r} of oauth.hosts must be a name, or an address without a path such as "
        "http://login.internal:8080"
    )


def _check_url(server: McpServer, what: str) -> None:
    if not re.match(r"https?://[^\s/@]+(/\S*)?\Z", server.url or ""):
        raise ConfigError(f"{what}: its url must begin with http:// or https:// and contain no user or password")
    if server.args or server.env or server.env_from or server.cwd:
        raise ConfigError(
            f"{what}: args, env, env_from and cwd belong to a server with a command, not to one with a url"
        )
    for name in (*server.headers, *server.headers_from):
        if not _HEADER_NAME.match(name):
            raise ConfigError(f"{what}: {name!r} is no name of a header")
    for name, value in server.headers.items():
        if may_be_secret(name):
            raise ConfigError(
                f"{what}: the header {name!r} looks like a secret; put it into an environment variable and name that "
                f'variable: headers_from = {{ {name} = "VARIABLE" }}'
            )
        if not value.isprintable():
            raise ConfigError(f"{what}: the header {name!r} has characters that a header cannot have")
    if server.oauth is not None and server.token_env is not None:
        raise ConfigError(f"{what}: give either token_env or oauth")
    for entry in server.oauth.hosts if server.oauth is not None else ():
        authority_origin(entry, what)


def _check_command(server: McpServer, what: str) -> None:
    if not (server.command or "").strip():
        raise ConfigError(f"{what}: its command is empty")
    if server.headers or server.headers_from or server.token_env or server.oauth:
        raise ConfigError(f"{what}: headers, headers_from, token_env and oauth belong to a server with a url")
    for name in server.env:
        if may_be_secret(name):
            raise ConfigError(
                f"{what}: the variable {name!r} looks like a secret; keep its value in your own environment and write "
                f'env_from = {{ {name} = "{name}" }}'
            )
