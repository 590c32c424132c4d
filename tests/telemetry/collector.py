"""A collector for tests: a real HTTP server that takes OpenTelemetry's protocol, and is strict about it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PATIENCE = 30


class Collector:
    """Data that arrived. `problems`: what a strict collector refuses."""

    def __init__(self, *, status: int = 200, hangs: bool = False) -> None:
        self.status = status
        self.released = threading.Event()
        if not hangs:
            self.released.set()
        self.url = ""
        self.requests: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        self.problems: list[str] = []
        self.resources: list[Mapping[str, Any]] = []
        self.spans: list[Span] = []
        self.points: dict[str, list[HistogramDataPoint]] = {}
        """The data points of histograms by name; those of the last export."""
        self.asked = threading.Event()

    def take(self, path: str, body: bytes) -> None:
        match path:
            case "/v1/traces":
                for group in _parsed(ExportTraceServiceRequest(), body).resource_spans:
                    self.resources.append(_values(group.resource.attributes))
                    for scope in group.scope_spans:
                        for span in scope.spans:
                            _check_span(span)
                            self.spans.append(span)
            case "/v1/metrics":
                for group in _parsed(ExportMetricsServiceRequest(), body).resource_metrics:
                    self.resources.append(_values(group.resource.attributes))
                    for scope in group.scope_metrics:
                        for metric in scope.metrics:
                            assert metric.WhichOneof("data") == "histogram", metric.name
                            self.points[metric.name] = list(metric.histogram.data_points)
            case _:
                raise AssertionError(f"no signal has the path {path}")


def attributes(item: Span | HistogramDataPoint) -> dict[str, Any]:
    return _values(item.attributes)


def _values(pairs: Any) -> dict[str, Any]:
    assert len({pair.key for pair in pairs}) == len(pairs), "an attribute comes twice"
    return {pair.key: _value(pair) for pair in pairs}


def _value(pair: KeyValue) -> Any:
    kind = pair.value.WhichOneof("value")
    assert kind is not None, f"the attribute {pair.key} has no value"
    if kind == "array_value":
        return [each.string_value for each in pair.value.array_value.values]
    return getattr(pair.value, kind)


def _parsed(message: Any, body: bytes) -> Any:
    message.ParseFromString(body)
    _check_known(message)
    return message


def _check_known(message: Message) -> None:
    assert len(UnknownFieldSet(message)) == 0, f"{message.DESCRIPTOR.name} has fields that the protocol does not know"
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                _check_known(each)


def _check_span(span: Span) -> None:
    assert len(span.trace_id) == 16
    assert any(span.trace_id)
    assert len(span.span_id) == 8
    assert len(span.parent_span_id) in (0, 8)
    assert span.name
    assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano


@contextlib.contextmanager
def collecting(**options: Any) -> Iterator[Collector]:
    """A collector on a free port."""
    collector = Collector(**options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            collector.requests.append(self.path)
            collector.headers.append(dict(self.headers.items()))
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.asked.set()
            collector.released.wait(PATIENCE)
            status = collector.status
            try:
                assert self.headers["content-type"] == "application/x-protobuf"
                if status == 200:
                    collector.take(self.path, body)
            except Exception as error:  # noqa: BLE001  whatever is wrong with the request, the test reads it
                collector.problems.append(repr(error))
                status = 400
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.released.set()
        server.shutdown()
        server.server_close()
