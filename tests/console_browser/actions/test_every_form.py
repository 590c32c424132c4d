"""Looks back at all other tests of this folder: a form that none of them sends must get a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console_browser.actions.server import FriendlyServer


def test_every_form_of_the_console_was_sent_and_accepted(
    request: pytest.FixtureRequest, server: FriendlyServer
) -> None:
    there = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    missing = there - {item.path.name for item in request.session.items}
    if missing:
        pytest.skip(f"it looks back at the tests of {', '.join(sorted(missing))}, which do not run now")
    assert len(server.forms) > 25
    unsent = [form.path for form in server.forms if not any(form.part_of(path) is not None for path in server.sent)]
    assert unsent == []
