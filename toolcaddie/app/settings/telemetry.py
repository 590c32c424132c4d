"""The settings of telemetry."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class TelemetrySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The collector to which `serve` sends spans and metrics."""

    otlp: Annotated[str, Meta(pattern=r"^https?://[^\s/]+")] | None = None
    """Base address of the collector, such as `http://collector:4318`. None: that of OpenTelemetry's standard variables; if they
    are not set either, nothing is sent."""
