"""Starts the export of spans and metrics to the collector of the settings."""

from __future__ import annotations

import importlib
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from toolcaddie.app.settings.telemetry import TelemetrySettings
from toolcaddie.core.errors import ConfigError
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.util.log import Logger

log = Logger(__name__)

FLUSH_SECONDS = 3.0
"""Seconds at shutdown in which a collector may take what is left."""

_BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACES, _METRICS = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS")
_PROTOCOLS = (
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
)
_OUR_PROTOCOL = "http/protobuf"
_INSTALL = "install them with: pip install 'toolcaddie[telemetry]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """OpenTelemetry's providers of this process; None: that signal is not exported, and the global one is used."""

    tracer_provider: Any = None
    meter_provider: Any = None


@asynccontextmanager
async def exporting(
    settings: TelemetrySettings, *, version: str, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[Providers]:
    """Yields the providers; on exit what is left is sent, for a limited time. `version`: that of Toolcaddie.

    Raises `ConfigError` if the settings name a collector and the packages are missing, or if the variables ask for another
    protocol. A collector that only the variables name, which a platform may set for all programs, is then left out.
    """
    traces, metrics = addresses(settings, environ)
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or (traces is None and metrics is None):
        yield Providers()
        return
    for name in _PROTOCOLS:
        if environ.get(name, _OUR_PROTOCOL) not in (_OUR_PROTOCOL, ""):
            raise ConfigError(
                f"the variable {name} is {environ[name]!r}, but spans are sent as {_OUR_PROTOCOL}; unset it"
            )
    for name in _HEADERS:
        for pair in environ.get(name, "").split(","):
            value = unquote(pair.partition("=")[2]).strip()
            KNOWN.add(value, value.rpartition(" ")[2])  # the second is a token without the word `Bearer` before it
    try:
        otlp = importlib.import_module("toolcaddie.telemetry.otlp")
    except ImportError as error:
        if settings.otlp is not None:
            raise ConfigError(f"telemetry.otlp needs packages that are missing ({error.name}); {_INSTALL}") from error
        log.warning("telemetry_not_exported", reason=f"the package {error.name} is missing", hint=_INSTALL)
        yield Providers()
        return
    exports = otlp.Exporting(version=version, traces=traces, metrics=metrics)
    try:
        yield Providers(tracer_provider=exports.tracer_provider, meter_provider=exports.meter_provider)
    finally:
        await exports.close(seconds=FLUSH_SECONDS)


def addresses(settings: TelemetrySettings, environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Returns the whole addresses for spans and for metrics; None: that signal is not sent. The setting takes precedence over the
    variables, and the variable of a signal over that of both."""
    if settings.otlp is not None:
        return _below(settings.otlp, "traces"), _below(settings.otlp, "metrics")
    base = environ.get(_BASE)
    return (
        environ.get(_TRACES) or (_below(base, "traces") if base else None),
        environ.get(_METRICS) or (_below(base, "metrics") if base else None),
    )


def _below(base: str, signal: str) -> str:
    return f"{base.rstrip('/')}/v1/{signal}"
