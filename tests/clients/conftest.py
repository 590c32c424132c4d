"""Clients as their users install them, against `toolcaddie serve` in a process of its own.

One server for all of them: its upstream is strict about what it is sent and answers as each test says.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from tests.clients.server import Stage, serving, toolcaddie_serve

# Before any client is imported: none of them may report to its makers from a test.
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
os.environ["LANGSMITH_TRACING"] = "false"


@pytest.fixture(autouse=True)
def _left_clients() -> Iterator[None]:
    """Clients that their users do not close go here and now: in the event loop of a later test they would try to close
    connections of a loop that has ended, and that test would fail."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with serving(tmp_path_factory.mktemp("clients")) as stage:
        yield stage


@pytest.fixture
def stage(served: Stage) -> Iterator[Stage]:
    """The server with an upstream that has not been asked anything yet."""
    served.begin()
    yield served
    assert served.upstream.refusals == [], "a strict provider refused what the gateway made of a client's request"


@pytest.fixture(scope="session")
def gym(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base address of a server with the gym's tools and the practice model."""
    with toolcaddie_serve(tmp_path_factory.mktemp("gym"), "--catalog", "gym") as address:
        yield f"{address}/v1"
