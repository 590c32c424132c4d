"""The links of one MCP source: the operator's own, and one for each principal if each has a login of its own. Makes a result of
whatever a call ends with."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx2
from mcp.shared.exceptions import MCPError

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.guards.hedging import hedged
from toolcaddie.parts import Parts
from toolcaddie.sources.mcp.definitions import Definition
from toolcaddie.sources.mcp.link import Hooks, Link, LinkLostError, MakeAuth, is_timeout
from toolcaddie.sources.mcp.oauth import auth_for
from toolcaddie.sources.mcp.questions import Sampler
from toolcaddie.sources.mcp.server import McpServer
from toolcaddie.sources.mcp.source import address_of
from toolcaddie.util.text import visible_line

OPERATOR = Principal()
"""The principal whose login reads the lists, and makes all calls unless each principal has its own login."""
_MOST_LINKS = 100
"""The largest number of links of principals that are open; the one that was unused for longest is closed first."""
_SHOWN = 2_000


class Links:
    """All links of one source. `main` is the operator's."""

    def __init__(
        self,
        server: McpServer,
        parts: Parts,
        listed: Callable[[list[Definition]], Awaitable[None]],
        lost: Callable[[str], None],
        *,
        sampler: Sampler | None = None,
    ) -> None:
        self._server = server
        self._parts = parts
        self._sampler = sampler
        self._breaker = None if parts.breakers is None else parts.breakers.named(f"mcp:{server.name}")
        self._personal: OrderedDict[tuple[str, str], asyncio.Task[Link]] = OrderedDict()
        self.main = Link(
            server, parts, Hooks(listed=listed, lost=lost), make_auth=self._auth(OPERATOR), sampler=sampler
        )

    async def open(self) -> None:
        """Opens the operator's link. Raises `OutboundError` or `ConfigError`."""
        await self.main.start()

    async def close(self) -> None:
        tasks = list(self._personal.values())
        self._personal.clear()
        await asyncio.gather(self.main.close(), *map(_ended, tasks))

    async def call(
        self, definition: Definition, tool: Tool, arguments: dict[str, Any], context: RunContext
    ) -> ToolResult:
        """Calls a tool, reads a resource or gets a prompt. The timeout of the tool includes the time until the server is
        connected and until another call leaves its place."""
        breaker = self._breaker
        if breaker is not None and (wait := breaker.wait()):
            seconds = math.ceil(wait)
            return self._failed(
                tool,
                f"has failed too often, so nothing is sent to it for another {seconds} s; try again later, or do without it",
            )
        try:
            if breaker is None:
                return await self._answered(definition, tool, arguments, context)
            with breaker.watched(TimeoutError, OSError, httpx2.HTTPError) as attempt:
                try:
                    return await self._answered(definition, tool, arguments, context)
                except (MCPError, LinkLostError) as error:
                    attempt.failed = is_timeout(error) if isinstance(error, MCPError) else error.began
                    raise
        except LinkLostError as error:
            if error.began:
                return self._failed(tool, f"went away during the call, which may or may not have run: {error}")
            return self._failed(tool, f"is not connected: {error}; try again later, or do without it")
        except MCPError as error:
            if is_timeout(error):
                return failed(f"{tool.name}: the MCP server {self._server.name!r} did not answer in time", "timeout")
            return self._failed(tool, f"answered with an error: {error.message}")
        except TimeoutError:
            return failed(f"{tool.name}: the MCP server {self._server.name!r} did not answer in time", "timeout")
        except (httpx2.HTTPError, OSError, ToolcaddieError) as error:
            return self._failed(tool, f"failed: {error}")
        except (ValueError, RuntimeError, TypeError) as error:
            return self._failed(tool, f"sent an answer that breaks the protocol: {str(error).partition(chr(10))[0]}")

    async def _answered(
        self, definition: Definition, tool: Tool, arguments: dict[str, Any], context: RunContext
    ) -> ToolResult:
        """Calls what the definition names, within the timeout of the tool; a second time if it only reads and takes long. Raises
        whatever goes wrong."""
        reads = definition.kind == "resource" or tool.annotations.read_only is True
        async with asyncio.timeout(tool.timeout):
            return await hedged(
                partial(self._called, definition, tool, arguments, context),
                self._server.hedge_after if reads else None,
            )

    async def _called(
        self, definition: Definition, tool: Tool, arguments: dict[str, Any], context: RunContext
    ) -> ToolResult:
        """Uses the link of the principal. Raises whatever goes wrong."""
        link = await self._link_of(context.principal)
        if definition.kind == "resource":
            return await link.read(address_of(definition.uri, arguments))
        if definition.kind == "prompt":
            return await link.prompt(definition.name, {name: str(value) for name, value in arguments.items()})
        return await link.call(definition.name, arguments, seconds=tool.timeout, on_progress=context.report_progress)

    def _failed(self, tool: Tool, reason: str) -> ToolResult:
        return failed(f"{tool.name}: the MCP server {self._server.name!r} {visible_line(reason)[:_SHOWN]}")

    async def _link_of(self, principal: Principal) -> Link:
        """Returns the link whose login the call of a principal uses. Raises the errors of `Link.start`."""
        oauth = self._server.oauth
        if oauth is None or not oauth.per_principal or principal.owner == OPERATOR.owner:
            return self.main
        task = self._personal.get(principal.owner)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._personal[principal.owner] = asyncio.create_task(self._started(principal))
            await self._close_oldest()
        self._personal.move_to_end(principal.owner)
        return await asyncio.shield(task)

    async def _started(self, principal: Principal) -> Link:
        link = Link(
            self._server,
            self._parts,
            Hooks(listed=_ignored, lost=lambda reason: None),
            make_auth=self._auth(principal),
            sampler=self._sampler,
        )
        await link.start()
        return link

    async def _close_oldest(self) -> None:
        if len(self._personal) > _MOST_LINKS:
            _, task = self._personal.popitem(last=False)
            await _ended(task)

    def _auth(self, principal: Principal) -> MakeAuth | None:
        return None if self._server.oauth is None else partial(auth_for, self._server, self._parts, principal)


async def _ignored(definitions: list[Definition]) -> None:
    """Drops the lists of a principal's own link: everybody sees the tools that the operator sees."""


async def _ended(task: asyncio.Task[Link]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is None:
        await task.result().close()
