"""The setting that puts the vectors of large catalogs into PostgreSQL, from settings to a running server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import databases, vectors
from toolcaddie.app.build import assembled
from toolcaddie.app.settings import Settings, load_settings
from toolcaddie.core.errors import ConfigError

pytestmark = pytest.mark.anyio


def _settings(folder: Path, url: str, most: int | None) -> Settings:
    file = folder / "toolcaddie.toml"
    limit = "" if most is None else f"most_in_memory = {most}\n"
    file.write_text(
        f'database_url = "{url}"\ncatalogs = ["gym"]\n[embedding]\nembedder = "minilm"\npatience = 60.0\n{limit}'
    )
    return load_settings(file)


async def test_a_server_has_the_vectors_of_more_tools_than_the_setting_says_in_the_database(tmp_path: Path) -> None:
    with vectors.schema() as url:
        async with assembled(_settings(tmp_path, url, 5)) as parts:
            tools = len(parts.runtime.source.snapshot())
            assert databases.rows(url, "SELECT count(*) FROM tool_vectors") == [(tools,)]
            assert "get_client_birthdays" in parts.runtime.select("wish people many happy returns").names
            assert parts.runtime.degraded == ()


async def test_a_server_that_must_have_them_there_does_not_start_without_the_extension(tmp_path: Path) -> None:
    refused = pytest.raises(ConfigError, match="install pgvector on the server of the database")
    with vectors.without_extension() as url, refused:
        async with assembled(_settings(tmp_path, url, 5)):
            pytest.fail("the server has started")


async def test_a_server_that_needs_none_starts_without_it(tmp_path: Path) -> None:
    with vectors.without_extension() as url:
        async with assembled(_settings(tmp_path, url, None)) as parts:
            assert parts.runtime.degraded == ()


async def test_with_sqlite_all_vectors_are_in_memory(tmp_path: Path) -> None:
    async with assembled(_settings(tmp_path, f"sqlite:///{tmp_path}/own.sqlite", 5)) as parts:
        assert "get_client_birthdays" in parts.runtime.select("wish people many happy returns").names
        assert parts.runtime.degraded == ()
