"""The MCP source as the client that the conformance suites test. `scripts/conformance.py` passes this file to them as a command.

The suite starts a server, runs this program with the server's address, and checks what the server has received. The name of the
scenario is in the environment. Every scenario goes through the same source that `[[source]]` tables make.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
from mcp.shared.auth import AuthorizationCodeResult

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import OutboundError
from toolcaddie.core.run import RunContext
from toolcaddie.parts import Parts, Secrets
from toolcaddie.sources.mcp import McpServer, McpSource, OAuth, links
from toolcaddie.sources.mcp.oauth import auth_for

SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
PROTOCOL: Any = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "auto")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
SECRET = "CONFORMANCE_SECRET"


class Browser:
    """Logs in as a person would: opens the address and reads where it leads."""

    def __init__(self) -> None:
        self._answer: AuthorizationCodeResult | None = None

    async def open(self, url: str) -> None:
        async with aiohttp.ClientSession() as client, client.get(url, allow_redirects=False) as response:
            query = parse_qs(urlsplit(response.headers["location"]).query)
        self._answer = AuthorizationCodeResult(
            code=query["code"][0], state=query.get("state", [None])[0], iss=query.get("iss", [None])[0]
        )

    async def answer(self) -> AuthorizationCodeResult:
        assert self._answer is not None
        return self._answer


async def _interactive(server: McpServer, parts: Parts, principal: Principal) -> Any:
    """Returns the authentication of `toolcaddie mcp login` with a browser that needs no person."""
    browser = Browser()
    return await auth_for(server, parts, principal, redirect=browser.open, callback=browser.answer)


def _server(url: str) -> McpServer:
    oauth = None
    if SCENARIO.startswith("auth/"):
        oauth = OAuth(
            grant="client_credentials" if "client-credentials" in SCENARIO else "authorization_code",
            client_id=CONTEXT.get("client_id"),
            client_secret_env=SECRET if CONTEXT.get("client_secret") else None,
            client_metadata_url="https://conformance-test.local/client-metadata.json",
            hosts=("http://localhost:*", "http://127.0.0.1:*"),  # the suite's authorization servers take any free port
        )
    return McpServer(
        name="suite", prefix="", url=url, protocol=PROTOCOL, oauth=oauth, elicitation="defaults", connect_seconds=25
    )


def _value(schema: dict[str, Any], name: str) -> Any:
    """Returns an argument that fits its schema."""
    examples = {"a": 5, "b": 3}
    if name in examples:
        return examples[name]
    kinds = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
    if "enum" in schema:
        return schema["enum"][0]
    return kinds.get(schema.get("type", "string"), "text")


async def main(url: str) -> None:
    links.auth_for = _interactive  # type: ignore[assignment]  # nobody sits at this machine
    secrets = Secrets({SECRET: CONTEXT.get("client_secret", "")})
    source = McpSource(_server(url), Parts(secrets=secrets))
    run = RunContext(run_id="suite", principal=Principal(), view=View(catalog=Catalog.of(())), model="none")
    try:
        await source.open()
        planned = CONTEXT.get("toolCalls")
        calls = (
            [(call["name"], call.get("arguments") or {}) for call in planned]
            if planned
            else [
                (
                    tool.name,
                    {name: _value(part, name) for name, part in tool.input_schema.get("properties", {}).items()},
                )
                for tool in source.tools()
            ]
        )
        tools = {source._routes[tool.name].name: tool for tool in source.tools()}
        by_name = {tool.name: tool for tool in source.tools()} | tools
        for name, arguments in calls:
            if name in by_name:
                result = await source.call_tool(by_name[name], arguments, run)
                print(name, result.is_error, result.text[:500], file=sys.stderr)
    except OutboundError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from error
    finally:
        await source.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
