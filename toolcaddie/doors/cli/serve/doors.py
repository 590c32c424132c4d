"""Makes the doors of a server beside the gateway's own: MCP, the console, channels and reports of calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from toolcaddie.app.authoring import authorship_of, writes_tools
from toolcaddie.app.build import Assembled
from toolcaddie.app.runtimes import host_parts
from toolcaddie.app.settings import MCPSettings
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.channels.channels import Channels
from toolcaddie.doors.channels.http import ChannelsDoor
from toolcaddie.doors.channels.setup import channels_of
from toolcaddie.doors.cli.mcp.serve import check_mode, state_key_of
from toolcaddie.doors.console.app import Console
from toolcaddie.doors.console.complete import console_of
from toolcaddie.doors.gateway.access import Access
from toolcaddie.doors.gateway.app import create_app
from toolcaddie.doors.gateway.limiting import Limiter
from toolcaddie.doors.gateway.router import App, Router
from toolcaddie.doors.gateway.traffic import Traffic
from toolcaddie.doors.mcp.door import MCPDoor
from toolcaddie.doors.mcp.oauth import Tokens
from toolcaddie.doors.mcp.offers import load_offers
from toolcaddie.doors.reviewing import Reviews
from toolcaddie.doors.telephony import TelephonyDoor
from toolcaddie.guards.net import operator_client
from toolcaddie.parts import Secrets

_TAKEN_PATHS = ("/metrics", "/healthz", "/readyz", "/approvals", "/authored")
"""Paths of the gateway at which nothing else can be mounted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """The doors of a process, open, and what they share."""

    mcp: MCPDoor
    channels: Channels | None
    """None: the settings name none."""
    reviews: Reviews | None
    """None: bots may write no tools."""
    traffic: Traffic
    """Admits the requests of all doors."""


@asynccontextmanager
async def opened_doors(parts: Assembled, state_key: str | None) -> AsyncIterator[Doors]:
    """Yields the doors. `state_key`: the secret that seals the state of waiting MCP calls; None: that of the settings. Raises
    `ConfigError` for settings that contradict each other."""
    settings = parts.settings
    traffic = Traffic(
        settings.traffic,
        bounds=settings.bounds,
        registry=parts.registry,
        stopping=lambda: parts.runtime.stopping,
    )
    async with AsyncExitStack() as stack:
        mcp = await stack.enter_async_context(_mcp_door(parts, state_key, traffic))
        channels = _channels(parts)
        if channels is not None:
            parts.work.messenger.bind(channels)
            await stack.enter_async_context(channels)
        yield Doors(mcp=mcp, channels=channels, reviews=_reviews(parts), traffic=traffic)


def gateway_of(parts: Assembled, doors: Doors, metrics: CollectorRegistry | None) -> Router:
    """Returns the gateway, with the other doors at their paths. `metrics`: those of `/metrics`; None: those of `parts`."""
    settings = parts.settings
    return create_app(
        parts,
        forwards=not settings.fallback,
        bounds=settings.bounds,
        idempotency=settings.idempotency,
        settings=settings.gateway,
        mounts=_mounts(parts, doors),
        reviews=doors.reviews,
        traffic=doors.traffic,
        metrics=metrics,
        queue=parts.work.queue,
        jobs=settings.jobs,
    )


def _mounts(parts: Assembled, doors: Doors) -> Mapping[str, App]:
    """Returns the doors beside the gateway's own, by path."""
    console = console_of(parts, doors.reviews, doors.traffic)
    telephony = TelephonyDoor(parts.runtime.source)  # without a telephone too, because a reload may add one
    return {
        **({} if console is None else dict.fromkeys(console.paths, console)),
        **({} if doors.channels is None else dict.fromkeys(ChannelsDoor.paths, ChannelsDoor(doors.channels))),
        **dict.fromkeys(telephony.paths, telephony),
        **(dict.fromkeys(doors.mcp.paths, doors.mcp) if parts.settings.mcp.enabled else {}),
    }


def _mcp_door(parts: Assembled, state_key: str | None, traffic: Traffic) -> MCPDoor:
    """Returns the MCP door. `state_key`: the secret that seals the state of waiting calls; None: that of the settings. `traffic`
    admits its requests. Raises `ConfigError` for settings that contradict each other."""
    settings = parts.settings.mcp
    check_mode(settings)
    if settings.path in _TAKEN_PATHS or settings.path.startswith(
        ("/v1", *Console.paths, *ChannelsDoor.paths, *TelephonyDoor.paths)
    ):
        raise ConfigError(f"mcp.path {settings.path!r} is a path of the gateway; choose another one, such as /mcp")
    return MCPDoor(
        parts.runtime,
        parts.documents,
        Access(parts.keys),
        settings,
        load_offers(settings.offers),
        bounds=parts.settings.bounds,
        state_key=state_key or state_key_of(settings),
        tokens=_tokens(settings),
        limiter=Limiter(parts.meter, parts.runtime, defaults=parts.key_limits),
        traffic=traffic,
    )


def _reviews(parts: Assembled) -> Reviews | None:
    """Returns the reviews of tools that bots wrote; None: the settings let bots write none."""
    if not writes_tools(parts.settings):
        return None
    return Reviews(authorship_of(parts.settings, host_parts(parts.settings, parts.documents)), parts.runtime.approvals)


def _channels(parts: Assembled) -> Channels | None:
    """Returns the channels of the settings, not opened yet; None: there are none. Raises `ConfigError`."""
    if not parts.settings.channel:
        return None
    host = host_parts(parts.settings, parts.documents)
    return channels_of(parts.settings, parts.work.bots.talk, store=parts.documents, parts=host)


def _tokens(settings: MCPSettings) -> Tokens | None:
    """Returns the check of OAuth tokens; None: the settings name no authorization server. Raises `ConfigError`."""
    if not (settings.authorization_servers or settings.introspection_url or settings.url):
        return None
    variable = settings.client_secret_env
    secret = None if variable is None else Secrets().require(variable, what="the secret of mcp.client_secret_env")
    return Tokens(settings, secret, operator_client)
