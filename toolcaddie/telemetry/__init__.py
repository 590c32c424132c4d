"""Three sinks for those who run the thing: log lines, metrics, spans. None of them is asked whether a run may go on.

What a sink remembers of a run is dropped when the run ends or is put away; what never ends is pushed out by newer runs.
"""

from __future__ import annotations

from toolcaddie.telemetry.logs import StructlogSink, configure_logging
from toolcaddie.telemetry.metrics import PrometheusSink
from toolcaddie.telemetry.spans import OpenTelemetrySink

__all__ = ["OpenTelemetrySink", "PrometheusSink", "StructlogSink", "configure_logging"]
