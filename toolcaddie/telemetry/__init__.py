"""Three sinks for operators: log lines, metrics and spans. None of them can stop a run.

A sink drops its state of a run when the run ends or is stored; the state of a run that never ends is evicted by newer ones.
"""

from __future__ import annotations

from toolcaddie.telemetry.logs import StructlogSink, configure_logging
from toolcaddie.telemetry.metrics import PrometheusSink
from toolcaddie.telemetry.spans import OpenTelemetrySink

__all__ = ["OpenTelemetrySink", "PrometheusSink", "StructlogSink", "configure_logging"]
