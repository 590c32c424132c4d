"""Three event sinks for operators: log lines, metrics and spans. An error in one of them does not stop a run.

A sink receives every event of every run. It forgets a run that ends or pauses; a run that never ends is evicted by newer runs.
"""

from __future__ import annotations

from toolcaddie.telemetry.logs import StructlogSink, configure_logging
from toolcaddie.telemetry.metrics import PrometheusSink
from toolcaddie.telemetry.spans import OpenTelemetrySink

__all__ = ["OpenTelemetrySink", "PrometheusSink", "StructlogSink", "configure_logging"]
