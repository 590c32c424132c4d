"""The hostile server of these tests, and Debian's chromium. Where one of the programs is missing, the tests are skipped."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.server import toolcaddie_serve
from tests.console_browser.seed import model, seed, settings_file
from toolcaddie.testing import ScriptedUpstream

CHROMIUM = shutil.which("chromium")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileServer:
    """A server whose database is full of payloads."""

    url: str
    key: str
    """The API key of an admin."""


@pytest.fixture(scope="package")
def chromium() -> str:
    """The path of the browser."""
    if CHROMIUM is None:
        pytest.skip("chromium is missing; `make console-check` installs it on Debian")
    return CHROMIUM


@pytest.fixture(scope="package")
def hostile_server(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileServer]:
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch, ScriptedUpstream(model) as upstream:
        patch.setenv("HOSTILE_KEY", "test-key")
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        file = settings_file(folder, upstream.base_url)
        key = asyncio.run(seed(file))
        with toolcaddie_serve(folder) as url:
            yield HostileServer(url=url, key=key)
