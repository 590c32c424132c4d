"""The shipped settings of nginx before two servers on one PostgreSQL, while one of the servers, or the database, is killed."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.replicas.load import Load
from benchmarks.replicas.model import Model
from benchmarks.replicas.verdict import Verdict
from benchmarks.replicas.world import ROOT, World
from toolcaddie.app.settings import load_settings
from toolcaddie.testing import ScriptedUpstream

pytestmark = pytest.mark.anyio

PATIENCE = 60
COMPOSE: Any = yaml.safe_load((ROOT / "packaging" / "replicas" / "compose.yaml").read_text())


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(Model(0.0), api_key="test-key") as upstream:
        yield upstream


@pytest.fixture
def world(tmp_path: Path, upstream: ScriptedUpstream) -> Iterator[World]:
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed")
    world = World(tmp_path / "world", upstream.base_url)
    world.start()
    yield world
    world.end()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110  other processes have no event
            await asyncio.sleep(0.02)


async def test_no_client_sees_that_a_server_was_killed_or_the_database(
    world: World, upstream: ScriptedUpstream
) -> None:
    load = Load(world.address, rate=20)
    loading = asyncio.create_task(load.run())

    async def more_answers(number: int) -> None:
        before = len(upstream.requests)
        await until(lambda: len(upstream.requests) >= before + number)

    await more_answers(20)
    await asyncio.to_thread(world.replicas[0].kill)
    await more_answers(20)
    await asyncio.to_thread(world.replicas[0].start)
    await asyncio.to_thread(world.postgres.kill)
    await asyncio.to_thread(world.postgres.start)
    await more_answers(20)
    world.replicas[1].send(signal.SIGTERM)
    await more_answers(20)
    load.stop()
    verdict = Verdict(await loading, world)
    assert verdict.is_good, verdict.wrong


def test_the_variables_of_the_containers_are_settings() -> None:
    for name in ("one", "two"):
        own = COMPOSE["services"][name]["environment"]
        settings = load_settings(environ={**own, "TOOLCADDIE_MODEL": "openai:gpt-5.4"})
        assert (settings.server.follow, settings.server.drain) == (True, 3)
        assert (settings.mcp.sessions, settings.mcp.state_key_env) == (False, "MCP_STATE_KEY")
        assert settings.database_url.startswith("postgresql://")
        assert COMPOSE["services"]["nginx"]["depends_on"][name] == {"condition": "service_healthy"}
    assert COMPOSE["services"]["nginx"]["volumes"] == ["./nginx.conf:/etc/nginx/nginx.conf:ro"]
