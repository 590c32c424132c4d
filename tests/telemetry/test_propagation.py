"""The trace of a run goes on to servers that the operator has configured, and to no other address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from mcp.server.mcpserver import Context, MCPServer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from security.internet import Names, Wire, served
from tests.sources.mcp.upstream import serving as serving_mcp
from tests.sources.openapi.recording import document, operation
from tests.sources.openapi.recording import serving as serving_api
from toolcaddie import Runtime
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.guards.net import guarded_client
from toolcaddie.parts import Parts
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.registry import Registry
from toolcaddie.sources.mcp import McpServer, McpSource
from toolcaddie.sources.openapi import OpenApi, OpenApiSource
from toolcaddie.telemetry import OpenTelemetrySink
from toolcaddie.testing import ScriptedUpstream, call, calls, say
from toolcaddie.util.tracing import trace_headers

pytestmark = pytest.mark.anyio


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def sink(exporter: InMemorySpanExporter) -> OpenTelemetrySink:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return OpenTelemetrySink(provider)


async def asked(source: Any, sink: OpenTelemetrySink, *script: Any) -> list[str]:
    """Runs a request whose model answers from a script; returns the `traceparent` of each request to the model server."""
    async with ScriptedUpstream([*script, say("Done.")]) as upstream:
        provider = OpenAIChat(upstream.base_url, "test-key")
        async with Runtime(provider=provider, sources=[source], sinks=[sink], policy=AllowAll()) as runtime:
            await runtime.run("do it", model="gpt-test")
        assert trace_headers() == {}, "the trace ends with the run"
        return [request.headers["traceparent"] for request in upstream.requests]


def span_of(header: str, exporter: InMemorySpanExporter) -> str:
    """The name of the span whose id a `traceparent` has."""
    _, trace_id, span_id, flags = header.split("-")
    assert int(flags, 16) & 1, "sampled"
    spans = {
        (format(span.context.trace_id, "032x"), format(span.context.span_id, "016x")): span.name
        for span in exporter.get_finished_spans()
        if span.context is not None
    }
    return spans[trace_id, span_id]


async def test_an_mcp_server_and_the_model_learn_the_span_of_their_calls(
    sink: OpenTelemetrySink, exporter: InMemorySpanExporter
) -> None:
    server, metas = MCPServer("up"), []

    @server.tool()
    async def book(ctx: Context[Any, Any], seat: str) -> str:
        """Book a seat."""
        metas.append(dict(ctx.request_context.meta or {}))
        return seat

    async with serving_mcp(server) as url:
        source = McpSource(McpServer(name="up", url=url))
        to_model = await asked(source, sink, call("up__book", {"seat": "4a"}))
    assert [span_of(header, exporter) for header in to_model] == ["chat gpt-test", "chat gpt-test"]
    assert len(set(to_model)) == 2
    (meta,) = metas
    assert span_of(meta["traceparent"], exporter) == "execute_tool up__book"


async def test_a_server_of_an_api_that_the_settings_name_learns_the_span_of_the_call(
    tmp_path: Path, sink: OpenTelemetrySink, exporter: InMemorySpanExporter
) -> None:
    async with serving_api() as api:
        description = tmp_path / "api.json"
        description.write_text(json.dumps(document({"/a": {"post": operation()}})))
        source = OpenApiSource(OpenApi(name="api", document=str(description), servers=(api.url,)))
        await asked(source, sink, call("go", {}))
    (request,) = api.requests
    assert span_of(request.headers["traceparent"], exporter) == "execute_tool go"


async def test_calls_at_the_same_time_each_carry_their_own_span(
    sink: OpenTelemetrySink, exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    async with serving_api() as api:
        description = tmp_path / "api.json"
        paths = {
            "/a": {"post": {**operation(), "operationId": "a"}},
            "/b": {"post": {**operation(), "operationId": "b"}},
        }
        description.write_text(json.dumps(document(paths)))
        source = OpenApiSource(OpenApi(name="api", document=str(description), servers=(api.url,)))
        await asked(source, sink, calls(("a", {}), ("b", {})))
    spans = {request.target: span_of(request.headers["traceparent"], exporter) for request in api.requests}
    assert spans == {"/a": "execute_tool a", "/b": "execute_tool b"}


async def test_a_web_page_learns_no_trace(sink: OpenTelemetrySink) -> None:
    pages: list[web.Request] = []

    def page(request: web.Request) -> web.Response:
        pages.append(request)
        return web.Response(text="a page")

    async with served(page) as port:
        parts = Parts(
            guarded_client=lambda **options: guarded_client(resolver=Names(), open_socket=Wire(port), **options)
        )
        source = Registry().make("source", "web", {}, parts)
        assert await asked(source, sink, call("web_fetch", {"url": "http://example.com/"}))
    (request,) = pages
    assert not {"traceparent", "tracestate", "baggage"} & {name.lower() for name in request.headers}
