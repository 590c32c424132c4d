"""Failures and missing parts of the plugin `lxc`, against a scripted server that speaks the interface of Incus strictly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.tools.host.incus_calling import SOCKET, hosted, made
from tests.tools.host.incus_server import IncusServer
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.states import Change
from toolcaddie.registry import Registry
from toolcaddie.tools.host.states.lxc import LxcPlugin, lxc

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(tmp_path: Path) -> Iterator[IncusServer]:
    server = IncusServer()
    with server.serving(tmp_path / SOCKET):
        yield server


@pytest.fixture
def plugin(server: IncusServer, tmp_path: Path) -> LxcPlugin:
    return made(tmp_path)


@pytest.mark.parametrize("kind", ["create", "start"])
async def test_an_operation_that_fails_is_no_success_and_is_undone(
    server: IncusServer, tmp_path: Path, kind: str
) -> None:
    server.failures[kind] = "No space left\x1b[31m on pool"
    async with hosted(tmp_path) as host:
        result = await host.apply({"a": {"image": "debian/12"}})
    assert result.error == "failed"
    assert "No space left\\x1b[31m on pool" in result.text
    assert "undone" in result.text
    assert not server.instances


async def test_an_operation_that_stalls_is_given_up(server: IncusServer, tmp_path: Path) -> None:
    server.stalls = True
    async with hosted(tmp_path, operation_timeout=0.1) as host:
        result = await host.apply({"a": {"image": "debian/12"}})
    assert result.error == "failed"
    assert "did not finish within 0.1 s" in result.text
    assert len(server.cancelled) == 1


async def test_a_cancelled_change_cancels_its_operation(server: IncusServer, plugin: LxcPlugin) -> None:
    server.stalls = True
    task = asyncio.ensure_future(_created(plugin, "a"))
    async with asyncio.timeout(10):
        while not any("wait" in each for each in server.requests):  # noqa: ASYNC110  the server is in another thread
            await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(server.cancelled) == 1
    await plugin.close()


async def _created(plugin: LxcPlugin, name: str) -> None:
    after = plugin.planned(name, {"image": "debian/12"}, None)
    await plugin.apply([Change(action="create", target=name, after=after)])


async def test_a_change_of_somebody_else_is_not_overwritten(server: IncusServer, tmp_path: Path) -> None:
    server.add("a")
    async with hosted(tmp_path) as host:
        diff = await host.diff({"a": {"limits.cpu": "2"}})
        server.meddles = True
        result = await host.call("apply", diff=diff, dry_run=False)
    assert result.error == "failed"
    assert "a was changed by somebody else meanwhile" in result.text
    assert "limits.cpu" not in server.instances["a"]["config"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (web.Response(status=302, headers={"Location": "http://evil.example.org/"}, text=""), "no JSON"),
        (web.Response(status=500, text='{"type": "error", "error": "boom"}'), "refused: boom"),
        (web.Response(text="<html>"), "no JSON"),
        (web.Response(text="[" * 100_000), "no JSON"),
        (web.Response(body=b'"\xff"'), "no JSON"),
        (web.Response(text="[]"), "no answer of its API"),
        (web.Response(text='{"type": "sync", "metadata": {}}'), "did not list"),
    ],
)
async def test_an_answer_that_is_none_is_a_failed_result(
    server: IncusServer, tmp_path: Path, answer: web.Response, words: str
) -> None:
    server.answer = answer
    async with hosted(tmp_path) as host:
        result = await host.call("query")
    assert result.error == "failed"
    assert words in result.text


async def test_a_machine_without_a_container_server_says_so_in_every_step(tmp_path: Path) -> None:
    async with hosted(tmp_path) as host:
        for result in (
            await host.call("query"),
            await host.call("diff", desired_state={"a": {"image": "debian/12"}}),
            await host.call("apply", diff={"plugin": "lxc", "base": "x"}, dry_run=False),
        ):
            assert result.error == "failed"
            assert "no socket" in result.text
            assert "install incus or lxd" in result.text
    (back_end,) = await made(tmp_path).back_ends()
    assert not back_end.present
    assert "incus" in back_end.remedy


async def test_the_back_end_is_named_with_its_version(server: IncusServer, plugin: LxcPlugin) -> None:
    (back_end,) = await plugin.back_ends()
    assert back_end.present
    assert "incus 6.0" in back_end.detail
    server.auth = "untrusted"
    (back_end,) = await plugin.back_ends()
    assert not back_end.present
    assert "incus-admin" in back_end.remedy
    await plugin.close()


async def test_a_hundred_requests_at_once_get_their_own_answers(server: IncusServer, plugin: LxcPlugin) -> None:
    names = [f"c{number}" for number in range(100)]
    await asyncio.gather(*(_created(plugin, name) for name in names))
    assert set(await plugin.query()) == set(names)
    await plugin.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"images": {"../x": ""}},
        {"images": {"a": "http://plain.example.org"}},
        {"profiles": ["a b"]},
        {"profiles": ["-x"]},
    ],
)
def test_wrong_settings_are_refused_at_the_start(settings: dict[str, Any]) -> None:
    registry = Registry()
    registry.add("state", "lxc", lxc)
    with pytest.raises(ConfigError, match=r"plugin\.lxc"):
        registry.make("state", "lxc", settings)
