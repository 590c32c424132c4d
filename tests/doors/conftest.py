"""The command line as a person has it: a folder of their own, no key of a provider, nothing set."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.databases import KINDS
from tests.doors.commandline import CommandLine


@pytest.fixture
def toolcaddie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name in [name for name in os.environ if name.startswith("TOOLCADDIE_")]:
        monkeypatch.delenv(name)
    # Commands set up logging for the whole process, as a program may; the next test must not find that.
    root, known = logging.getLogger(), structlog.get_config() if structlog.is_configured() else None
    handlers, level = list(root.handlers), root.level
    yield CommandLine(tmp_path)
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()
    if known is not None:
        structlog.configure(**known)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """The place of a channel's messages in a test: a file, and a database of a PostgreSQL server."""
    return tmp_path if request.param == "file" else str(request.getfixturevalue("postgresql_url"))
