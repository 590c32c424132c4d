"""A tool source that is an MCP server. It loads the protocol's package, which takes most of a second, when it is opened."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import OutboundError, StorageError
from toolcaddie.core.events import SourceStatus
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.guards.aside import aside
from toolcaddie.parts import Parts
from toolcaddie.sources.mcp.definitions import Definition, Offer, offer_of
from toolcaddie.sources.mcp.pins import Pins, PinStore
from toolcaddie.sources.mcp.server import McpServer, check_server
from toolcaddie.util.log import Logger

log = Logger(__name__)

_SHOWN_PROBLEMS = 20
"""The largest number of problems of a list that are logged."""
_PIN_SECONDS = 5.0
"""Seconds between two looks whether a person has accepted a definition, while one is in quarantine."""


class Health(Struct, frozen=True, kw_only=True):
    """The state of a server, for `toolcaddie mcp status`."""

    state: str
    reason: str = ""
    version: str = ""
    server_name: str = ""
    tools: int = 0
    quarantined: Sequence[str] = ()
    problems: Sequence[str] = ()


class McpSource:
    """The tools of one MCP server. Implements `ports.OpenableSource`.

    McpSource(McpServer(name="files", command="npx", args=("-y", "@modelcontextprotocol/server-filesystem", "/tmp")))
    McpSource(McpServer(name="tickets", url="https://tickets.example.com/mcp", token_env="TICKETS_TOKEN"))

    `open` fails if the server cannot be reached. Later the source keeps its tools while the server is away and connects again by
    itself; a call meanwhile gets a result that says so. `sampler` answers requests of the server to the model
    (`questions.Sampler`); without one they are declined.
    """

    required = False
    """Everything else starts without this source if it cannot be opened, unless the settings say `required = true`."""

    def __init__(self, server: McpServer, parts: Parts | None = None, *, sampler: Any = None) -> None:
        self._server = check_server(server)
        self._parts = parts or Parts()
        self._sampler = sampler
        self._pins = PinStore(self._parts.store, self._parts.clock)
        self._definitions: Sequence[Definition] = ()
        self._offer = Offer()
        self._quarantined: Mapping[str, Any] = {}
        self._routes: Mapping[str, Definition] = {}
        self._tools: tuple[Tool, ...] = ()
        self._revision = 0
        self._links: Any = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self._server.name

    @property
    def server(self) -> McpServer:
        return self._server

    @property
    def revision(self) -> int:
        return self._revision

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def categories(self) -> Sequence[Category]:
        return ()

    @property
    def health(self) -> Health:
        """The state of the connection, the tools in quarantine, and the problems of the last list."""
        main = self._links.main if self._links is not None else None
        return Health(
            state="closed" if main is None else main.state,
            reason="" if main is None else main.reason,
            version="" if main is None else main.version,
            server_name="" if main is None else main.server_name,
            tools=len(self._tools),
            quarantined=tuple(self._quarantined),
            problems=self._offer.problems,
        )

    async def open(self) -> None:
        """Connects to the server and reads its lists. Raises `OutboundError` or `ConfigError`."""
        await self.close()
        # In a thread, because the import would hold up everything else for most of a second.
        module = await asyncio.to_thread(importlib.import_module, "toolcaddie.sources.mcp.links")
        self._links = module.Links(self._server, self._parts, self._listed, self._lost, sampler=self._sampler)
        try:
            await self._links.open()
        except BaseException:
            await self.close()
            raise
        self._watch = asyncio.create_task(self._watch_pins())

    async def close(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait({watch})
        links, self._links = self._links, None
        if links is not None:
            await links.close()

    async def accept(self, tool: str | None = None) -> Sequence[str]:
        """Accepts the definition of a tool in quarantine (by the server's own name), or of all. Returns the accepted names."""
        names = await self._pins.accept(self.name, tool)
        self._use(await self._pins.read(self.name))
        return names

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        """Calls the tool on the server. Whatever goes wrong there becomes a failed result."""
        definition = self._routes.get(tool.name)
        if definition is None:
            return self._withdrawn(tool)
        if self._links is None:
            return failed(f"the MCP server {self.name!r} of {tool.name!r} is not open; do without it", "revoked")
        result: ToolResult = await self._links.call(definition, tool, arguments, context)
        return result

    def _withdrawn(self, tool: Tool) -> ToolResult:
        if tool.name in self._quarantined:
            return failed(
                f"{tool.name}: the MCP server {self.name!r} has changed or added this tool, so it is in quarantine until a "
                f"person accepts it (toolcaddie mcp accept {self.name}); do without it",
                "revoked",
            )
        return failed(f"the MCP server {self.name!r} no longer has the tool {tool.name!r}; do without it", "revoked")

    async def _listed(self, definitions: list[Definition]) -> None:
        """Takes the definitions of the server. Raises `OutboundError` if the pins cannot be read, because without them a changed
        tool would not be noticed."""
        offer = await aside(lambda: offer_of(definitions, self._server, self._parts.bounds))
        try:
            pins = await self._pins.see(
                self.name, [definition for definition, _ in offer.tools], self._server.new_tools
            )
        except StorageError as error:
            raise OutboundError(f"its pinned definitions cannot be read: {error}") from error
        for problem in [each for each in offer.problems if each not in self._offer.problems][:_SHOWN_PROBLEMS]:
            log.warning("mcp_definition", source=self.name, problem=problem)
        self._offer = offer
        self._use(pins)

    def _use(self, pins: Pins) -> None:
        """Offers the tools that are not in quarantine."""
        waiting = pins.quarantined
        quarantined = {tool.name: definition for definition, tool in self._offer.tools if definition.key in waiting}
        for name in quarantined.keys() - self._quarantined.keys():
            log.warning(
                "mcp_tool_quarantined", source=self.name, tool=name, accept=f"toolcaddie mcp accept {self.name}"
            )
        offered = [(definition, tool) for definition, tool in self._offer.tools if tool.name not in quarantined]
        known = {tool.name: tool for tool in self._tools}
        # A tool that has not changed stays the same object, so that the catalog need not check and index it again.
        tools = tuple(old if (old := known.get(tool.name)) == tool else tool for _, tool in offered)
        self._quarantined = quarantined
        self._routes = {tool.name: definition for definition, tool in offered}
        if tools != self._tools:
            self._tools = tools
            self._revision += 1  # last, so that a reader of the new number finds the new tools

    def _lost(self, reason: str) -> None:
        log.warning("mcp_connection_lost", source=self.name, reason=reason)
        self._parts.emit(SourceStatus(source=self.name, status="failed", tools=len(self._tools), detail=reason))

    async def _watch_pins(self) -> None:
        """Offers a tool again after a person has accepted its definition with another process."""
        while True:
            await asyncio.sleep(_PIN_SECONDS)
            if self._quarantined:
                try:
                    self._use(await self._pins.read(self.name))
                except StorageError as error:
                    log.warning("mcp_pins_unreadable", source=self.name, error=str(error))


def address_of(template: str, arguments: Mapping[str, Any]) -> str:
    """Returns the address of a resource: its template with the arguments filled in. Values are encoded, so that none of them can
    change the path around it."""

    def value(match: re.Match[str]) -> str:
        operator, names = match[1], match[2].split(",")
        values = {name.rstrip("*").partition(":")[0]: name for name in names}
        safe = "/" if operator in ("+", "#") else ""
        filled = [(name, quote(str(arguments.get(name, "")), safe=safe)) for name in values]
        if operator in ("?", "&"):
            return operator + "&".join(f"{name}={text}" for name, text in filled)
        joint = {"/": "/", ".": "."}.get(operator, ",")
        lead = operator if operator in ("/", ".", "#") else ""
        return lead + joint.join(text for _, text in filled)

    return re.sub(r"\{([+#./;?&]?)([A-Za-z0-9_.,*:%]+)\}", value, template)
