"""A real HTTP server that records every request and answers as a test says, and sources that call it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.parts import Parts, Secrets
from toolcaddie.sources.openapi import OpenApi, OpenApiSource

Answer = Callable[["Recorded"], web.StreamResponse]


@dataclass(frozen=True)
class Recorded:
    method: str
    target: str
    """Path and query as they were sent."""
    headers: Mapping[str, str]
    body: bytes


def echo(request: Recorded) -> web.StreamResponse:
    return web.json_response({"target": request.target})


@dataclass
class Api:
    url: str = ""
    answer: Answer = echo
    requests: list[Recorded] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        recorded = Recorded(request.method, request.raw_path, request.headers.copy(), await request.read())
        self.requests.append(recorded)
        return self.answer(recorded)


@asynccontextmanager
async def serving(answer: Answer = echo) -> AsyncIterator[Api]:
    """Yields a running server."""
    api = Api(answer=answer)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield api
    finally:
        await runner.cleanup()


def document(paths: Mapping[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    return {"openapi": version, "info": {"title": "Test", "version": "1"}, "paths": paths, **more}


def operation(*parameters: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"operationId": "go", "parameters": list(parameters), "responses": {"200": {"description": "OK"}}, **more}


def body(schema: Any, media_type: str = "application/json", **more: Any) -> dict[str, Any]:
    return {"requestBody": {"content": {media_type: {"schema": schema, **more}}}}


@asynccontextmanager
async def opened(
    folder: Path, description: Any, *, environ: Mapping[str, str] | None = None, lookup: Any = None, **settings: Any
) -> AsyncIterator[OpenApiSource]:
    """Yields an open source for a description, which is a document or its text."""
    path = folder / "api.json"
    path.write_text(description if isinstance(description, str) else json.dumps(description))
    api = OpenApi(name="api", document=str(path), **settings)
    source = OpenApiSource(api, Parts(secrets=Secrets(environ or {})), credentials=lookup)
    await source.open()
    try:
        yield source
    finally:
        await source.close()


def context(principal: Principal | None = None) -> RunContext:
    view = View(catalog=Catalog.of(()))
    return RunContext(run_id="r1", view=view, model="m", principal=principal or Principal())


def tool_named(source: OpenApiSource, name: str) -> Tool:
    return next(tool for tool in source.tools() if tool.name == name)


async def called(
    source: OpenApiSource,
    name: str = "go",
    arguments: Mapping[str, Any] | None = None,
    principal: Principal | None = None,
) -> ToolResult:
    return await source.call_tool(tool_named(source, name), dict(arguments or {}), context(principal))
