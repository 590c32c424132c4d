"""Services of the host, the program that runs Toolcaddie, for plugins: an HTTP client, a store, secrets and others.

    def tickets(*, url: str, token_env: Variable, parts: Parts) -> ToolSource:
        return Tickets(url, token=parts.secrets.require(token_env, what="the key of the ticket system"), client=parts.client)

A factory with a parameter `parts` receives them as one value and has no other access to the host. Every field has a default, so
a plugin can also be made by hand, `tickets(url=..., token_env=..., parts=Parts())`, or in a test with another clock.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.events import SourceStatus
from toolcaddie.guards.breakers import Breakers
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.ports import (
    BotRunner,
    Chats,
    Embedder,
    Jobs,
    Messenger,
    PersonaFiles,
    RemoteEmbedder,
    Reviewer,
    Sandbox,
    Store,
)

if TYPE_CHECKING:  # an HTTP client takes a tenth of a second to load, and most commands send no request
    import aiohttp

    from toolcaddie.guards.net import GuardedClient

VARIABLE_PATTERN = r"^(?!sk[-_])(?!(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9]).{24})[A-Za-z_][A-Za-z0-9_]{0,63}\Z"

Variable = Annotated[str, Meta(pattern=VARIABLE_PATTERN)]
"""The name of an environment variable. A text that looks like a key is refused and never shown: it begins with `sk-` or `sk_`, or
has at least 24 characters with capitals, small letters and digits among them."""


class Secrets:
    """Keys and passwords by the name of their environment variable. They are never part of a `repr`, and are removed from log
    lines, errors and the trail wherever they appear."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = environ

    def get(self, variable: str | None) -> str | None:
        """Returns the secret, or None if no variable is named or it is not set."""
        secret = self.setting(variable)
        KNOWN.add(secret)
        return secret

    def setting(self, variable: str | None) -> str | None:
        """Returns the value of a variable that holds no secret, such as an address; None: it is not set."""
        if variable is None:
            return None
        # os.environ is read at each call, because a program or a test may set a variable after this object was made.
        return (os.environ if self._environ is None else self._environ).get(variable) or None

    def require(self, variable: str, *, what: str, instead: str = "") -> str:
        """Returns the secret. Raises `ConfigError` naming the variable if it is not set; `what` names the missing secret, such as
        "the upstream's key", and `instead` offers another remedy."""
        secret = self.get(variable)
        if secret is None:
            other = f", or {instead}" if instead else ""
            raise ConfigError(f"the environment variable {variable} is not set; put {what} into it{other}")
        return secret

    def __repr__(self) -> str:
        return "Secrets()"


def _ignore(event: SourceStatus) -> None:
    """Drops an event, for parts that are made without a host."""


def _client(**options: Any) -> aiohttp.ClientSession:
    """Returns `guards.net.operator_client(**options)`."""
    session: aiohttp.ClientSession = importlib.import_module("toolcaddie.guards.net").operator_client(**options)
    return session


def _guarded_client(**options: Any) -> GuardedClient:
    """Returns `guards.net.guarded_client(**options)`."""
    client: GuardedClient = importlib.import_module("toolcaddie.guards.net").guarded_client(**options)
    return client


def _no_sandbox() -> Sandbox:
    """Raises `ConfigError`, for parts that are made without a host."""
    raise ConfigError("this host has no sandbox; pass one, as in Parts(sandbox=lambda: sandbox)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Services of the host that a plugin may use."""

    client: Callable[..., aiohttp.ClientSession] = _client
    """Makes an HTTP session for addresses set by the operator. Call it inside the running event loop, and close the session."""
    guarded_client: Callable[..., GuardedClient] = _guarded_client
    """Makes a client for addresses from a model, a document or a remote server; it reaches public addresses only."""
    store: Store | None = None
    """Store of small durable values, in the database of the settings. None: this host has no store."""
    clock: Callable[[], float] = time.time
    """Returns the seconds since the epoch."""
    secrets: Secrets = field(default_factory=Secrets)
    emit: Callable[[SourceStatus], None] = _ignore
    """Reports to the host that a part connected, changed, failed or closed."""
    bounds: Bounds = DEFAULT
    """Limits of the size of everything that comes from outside."""
    embedder: Embedder | RemoteEmbedder | None = None
    """The embedder of the settings. None: they name no embedder."""
    sandbox: Callable[[], Sandbox] = _no_sandbox
    """Returns the sandbox of the settings, the same one at each call. Raises `ConfigError` if this machine cannot hold it."""
    bots: BotRunner | None = None
    """Lets other bots work; None: this host has no bots. It works as soon as the host runs, and not while it is being made."""
    messenger: Messenger | None = None
    """Sends messages to the channels of the settings; None: this host has none."""
    personas: PersonaFiles | None = None
    """The markdown files of bots; None: this host has no store."""
    chats: Chats | None = None
    """The stored chats of bots; None: this host has no store."""
    reviewer: Reviewer | None = None
    """Reviews the files of bots where the source `improve` names no reviewer; None: this host has none."""
    jobs: Jobs | None = None
    """Jobs that run at set times; None: this host runs none."""
    breakers: Breakers | None = None
    """Circuit breakers by name of the upstream; None: this host has none."""
    metrics: Any = None
    """The `prometheus_client.CollectorRegistry` that the gateway publishes; None: this host publishes no metrics."""
    tracer_provider: Any = None
    """OpenTelemetry's `TracerProvider` to which this host sends spans; None: the global one."""
    meter_provider: Any = None
    """OpenTelemetry's `MeterProvider` to which this host sends metrics; None: the global one."""
