"""The programs of Prometheus for tests, where they are installed or `make alerts-check` has put them, and what a server shows."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.doors.processes import PATIENCE, Process

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "packaging" / "telemetry"
_FETCHED = ROOT / "build" / "promtool" / "usr" / "bin"
_NAME = re.compile(r"\b(?:toolcaddie_\w+|up)\b")


def program(name: str) -> str:
    """The path of a program; skips the test where it is missing."""
    path = shutil.which(name) or shutil.which(name, path=_FETCHED)
    if path is None:
        pytest.skip(f"{name} is missing; `make alerts-check` fetches it")
    return path


def metrics_of(server: Process) -> Mapping[str, Metric]:
    """The metrics of a server by the name of each of their samples."""
    url = server.base_url.removesuffix("/v1") + "/metrics"
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    return {f"{family.name}{suffix}": family for family in families for suffix in suffixes.get(family.type, ())}


def names_in(expression: str) -> set[str]:
    """The metrics that a query reads; `up` is Prometheus's own."""
    return set(_NAME.findall(re.sub(r'"[^"]*"', '""', expression))) - {"up"}


@contextlib.contextmanager
def scraping(folder: Path, server: Process) -> Iterator[str]:
    """A Prometheus that reads the metrics of a server every half second; gives its address."""
    target = urllib.parse.urlsplit(server.base_url).netloc
    config = {
        "global": {"scrape_interval": "500ms"},
        "scrape_configs": [{"job_name": "toolcaddie", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [
            program("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={place}",
        ],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://{place}"
    finally:
        process.kill()
        process.wait(PATIENCE)


def queried(prometheus: str, expression: str) -> list[Any]:
    """The result of a query; empty as long as there is none. Fails if Prometheus refuses the query."""
    address = f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
            result: list[Any] = json.load(answer)["data"]["result"]
            return result
    except urllib.error.HTTPError as error:
        if error.code == 503:  # it is starting
            return []
        raise AssertionError(f"{expression}: {error.read().decode()}") from error
    except urllib.error.URLError:  # it does not listen yet
        return []
