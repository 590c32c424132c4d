"""Databases to copy, and places to copy them to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgresql
from tests.doors.copying.filled import filled


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a database in which every table has rows, and the secret of a key."""
    folder = tmp_path_factory.mktemp("filled")
    return folder, filled(folder)


@pytest.fixture
def source(template: tuple[Path, str], tmp_path: Path) -> str:
    for file in template[0].glob("filled.sqlite*"):  # the log and its index too: the last process was killed
        shutil.copy(file, tmp_path / file.name.replace("filled", "source"))
    return f"sqlite:///{tmp_path}/source.sqlite"


@pytest.fixture(params=["file", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"sqlite:///{tmp_path}/target.sqlite"
    return str(request.getfixturevalue("postgresql_url"))


@pytest.fixture
def other_postgresql_url(postgresql_server: str) -> Iterator[str]:
    with postgresql.schema(postgresql_server) as url:
        yield url
