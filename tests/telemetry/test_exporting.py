"""Settings and variables name the collector; without the packages for it, an error says what to install."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest
import structlog

from toolcaddie.app.exporting import Providers, addresses, exporting
from toolcaddie.app.settings.telemetry import TelemetrySettings
from toolcaddie.core.errors import ConfigError
from toolcaddie.guards.known_secrets import KNOWN

BOTH = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://both:4318/"}
TRACES = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces/spans"}
METRICS = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://metrics/numbers"}


@pytest.mark.parametrize(
    ("otlp", "environ", "traces", "metrics"),
    [
        (None, {}, None, None),
        ("http://set:4318", {}, "http://set:4318/v1/traces", "http://set:4318/v1/metrics"),
        ("http://set/below/", BOTH | TRACES, "http://set/below/v1/traces", "http://set/below/v1/metrics"),
        (None, BOTH, "http://both:4318/v1/traces", "http://both:4318/v1/metrics"),
        (None, BOTH | TRACES, "http://traces/spans", "http://both:4318/v1/metrics"),
        (None, METRICS, None, "http://metrics/numbers"),
    ],
)
def test_the_setting_comes_before_the_variables_and_that_of_a_signal_before_that_of_both(
    otlp: str | None, environ: Mapping[str, str], traces: str | None, metrics: str | None
) -> None:
    assert addresses(TelemetrySettings(otlp=otlp), environ) == (traces, metrics)


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra `telemetry` is not installed."""
    monkeypatch.delitem(sys.modules, "toolcaddie.telemetry.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)


@pytest.mark.anyio
@pytest.mark.usefixtures("without_packages")
async def test_a_setting_without_the_packages_is_refused_with_what_to_install() -> None:
    with pytest.raises(ConfigError, match=r"telemetry\.otlp needs packages .* pip install 'toolcaddie\[telemetry\]'"):
        async with exporting(TelemetrySettings(otlp="http://collector:4318"), version="1", environ={}):
            raise AssertionError("it exports without packages")


@pytest.mark.anyio
@pytest.mark.usefixtures("without_packages")
async def test_variables_that_a_platform_sets_for_all_do_not_stop_a_server_without_the_packages() -> None:
    with structlog.testing.capture_logs() as lines:
        async with exporting(TelemetrySettings(), version="1", environ=BOTH) as providers:
            assert providers == Providers()
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("telemetry_not_exported", "warning")
    assert "pip install 'toolcaddie[telemetry]'" in line["hint"]


@pytest.mark.anyio
async def test_a_disabled_sdk_exports_nothing() -> None:
    settings = TelemetrySettings(otlp="http://collector:4318")
    async with exporting(settings, version="1", environ={"OTEL_SDK_DISABLED": "true"}) as providers:
        assert providers == Providers()


@pytest.mark.anyio
@pytest.mark.usefixtures("without_packages")
async def test_the_values_of_headers_are_secrets() -> None:
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "x-team=gym,authorization=Bearer%20collector-key-4711"}
    async with exporting(TelemetrySettings(), version="1", environ=BOTH | headers):
        assert "collector-key-4711" not in KNOWN.redact("it sent Bearer collector-key-4711")
