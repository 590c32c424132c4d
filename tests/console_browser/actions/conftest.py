"""The friendly server and its people. Every page that a test opens must report nothing: no error of a script, no refusal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console_browser.actions.server import FriendlyServer, friendly

_HERE = Path(__file__).parent
_LAST = "test_every_form.py"


@pytest.fixture(scope="package")
def server(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FriendlyServer]:
    with friendly(tmp_path_factory.mktemp("friendly")) as server:
        yield server


@pytest.fixture(scope="package")
def browsers(chromium: str, server: FriendlyServer) -> Iterator[Any]:
    """A browser for all tests of this folder. It starts after the server: Playwright holds the event loop."""
    module = pytest.importorskip(
        "tests.console_browser.actions.people", reason="Playwright is missing; `make console-check` installs it"
    )
    with module.gathered(chromium, server) as people:
        yield people


@pytest.fixture
def people(browsers: Any) -> Iterator[Any]:
    """The people of the server. At the end of a test, none of its pages may have reported anything."""
    yield browsers
    assert browsers.problems() == []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests that look back at all others of this folder come last there."""
    own = [item for item in items if item.path.parent == _HERE]
    ordered = iter(sorted(own, key=lambda item: item.path.name == _LAST))
    items[:] = [next(ordered) if item.path.parent == _HERE else item for item in items]
