"""Event sinks for operators: log lines, metrics and spans. An error in one of them does not stop a run.

A sink receives every event of every run. It holds some numbers of a run until the run ends or pauses. If a run never ends, they
are removed when newer runs need the place.
"""

from __future__ import annotations

from toolcaddie.telemetry.logs import StructlogSink, configure_logging
from toolcaddie.telemetry.measures import GenAIMetricsSink
from toolcaddie.telemetry.metrics import PrometheusSink
from toolcaddie.telemetry.spans import OpenTelemetrySink

__all__ = ["GenAIMetricsSink", "OpenTelemetrySink", "PrometheusSink", "StructlogSink", "configure_logging"]
