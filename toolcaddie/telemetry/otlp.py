"""Sends spans and metrics to a collector with OpenTelemetry's protocol over HTTP, in threads of their own.

Whatever the collector does, no request waits for it: spans wait in a queue of limited length, and what does not fit is dropped.
Only a process that exports imports this module, because it needs the packages of the extra `telemetry`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal
from uuid import uuid4

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from toolcaddie.util.log import Logger

log = Logger(__name__)

_QUIET = ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk._shared_internal")
"""Loggers that write lines for each attempt to reach a collector; `_Watch` writes one when it fails first."""


class Exporting:
    """The two providers whose spans and metrics go to a collector. `close` sends what is left."""

    def __init__(self, *, version: str, traces: str | None, metrics: str | None) -> None:
        """`traces`, `metrics`: the whole addresses; None: that signal is not sent. Headers, timeouts, certificates, sampling and
        intervals are those of OpenTelemetry's standard variables, and so are further attributes of the resource."""
        for name in _QUIET:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        resource = Resource.create(
            {"service.name": "toolcaddie", "service.version": version, "service.instance.id": str(uuid4())}
        ).merge(OTELResourceDetector().detect())
        self.tracer_provider: TracerProvider | None = None
        self.meter_provider: MeterProvider | None = None
        if traces is not None:
            self.tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
            spans = _WatchedSpans(OTLPSpanExporter(endpoint=traces), _Watch("spans", traces))
            self.tracer_provider.add_span_processor(BatchSpanProcessor(spans))
        if metrics is not None:
            measures = _WatchedMetrics(OTLPMetricExporter(endpoint=metrics), _Watch("metrics", metrics))
            reader = PeriodicExportingMetricReader(measures)
            self.meter_provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)

    async def close(self, *, seconds: float) -> None:
        """Sends what is left, for at most `seconds`; the rest is dropped, which is logged."""
        flushes = [_Flush(each.shutdown) for each in (self.tracer_provider, self.meter_provider) if each is not None]
        try:
            async with asyncio.timeout(seconds):
                for flush in flushes:
                    await flush.done.wait()
        except TimeoutError:
            log.warning("telemetry_dropped", reason="the collector did not take it in time", seconds=seconds)


class _Flush:
    """A shutdown in a thread that the end of the process does not wait for, unlike those of an executor."""

    def __init__(self, shutdown: Callable[[], None]) -> None:
        self.done = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._shutdown = shutdown
        threading.Thread(target=self._run, name="telemetry flush", daemon=True).start()

    def _run(self) -> None:
        try:
            self._shutdown()
        except Exception as error:  # noqa: BLE001  what cannot be sent any more is lost either way
            log.warning("telemetry_dropped", reason=str(error))
        try:
            self._loop.call_soon_threadsafe(self.done.set)
        except RuntimeError:  # the loop has ended, because the time was up
            return


class _Watch:
    """Logs a line when a collector stops taking a signal, and one when it takes it again."""

    def __init__(self, signal: Literal["spans", "metrics"], url: str) -> None:
        self._signal = signal
        self._url = url
        self._works = True

    def note(self, *, works: bool) -> None:
        if works == self._works:
            return
        self._works = works
        if works:
            log.info("telemetry_exported_again", signal=self._signal, url=self._url)
        else:
            log.warning(
                "telemetry_not_exported", signal=self._signal, url=self._url, effect="requests are not affected"
            )


class _WatchedSpans(SpanExporter):
    def __init__(self, inner: SpanExporter, watch: _Watch) -> None:
        self._inner = inner
        self._watch = watch

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        self._watch.note(works=result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


class _WatchedMetrics(MetricExporter):
    def __init__(self, inner: MetricExporter, watch: _Watch) -> None:
        super().__init__(
            preferred_temporality=inner._preferred_temporality,
            preferred_aggregation=inner._preferred_aggregation,
        )
        self._inner = inner
        self._watch = watch

    def export(self, metrics_data: Any, timeout_millis: float = 10_000, **options: Any) -> MetricExportResult:
        result = self._inner.export(metrics_data, timeout_millis, **options)
        self._watch.note(works=result is MetricExportResult.SUCCESS)
        return result

    def shutdown(self, timeout_millis: float = 30_000, **options: Any) -> None:
        self._inner.shutdown(timeout_millis, **options)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._inner.force_flush(timeout_millis)
