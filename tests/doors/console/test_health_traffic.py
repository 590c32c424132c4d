"""The page of health shows upstreams that fail, requests that wait, and the servers on one database."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.doors.console.browser import browser
from tests.doors.console.full import NOBODY, VIEWER, Server, console
from toolcaddie.app.following import followed, share
from toolcaddie.app.settings.model import Server as ServerSettings
from toolcaddie.app.settings.traffic import TrafficSettings
from toolcaddie.app.shared_settings import SharedSettings, bundle
from toolcaddie.core.breakers import BreakerSettings
from toolcaddie.core.control import Principal
from toolcaddie.testing import Reply, ScriptedUpstream, refuse, say

pytestmark = pytest.mark.anyio

HOME = "/console/health"
PROGRAM = Principal(id="monitor", role="viewer")


async def ask(server: Server, person: Principal = NOBODY) -> None:
    """Asks the model something."""
    headers = {"authorization": f"Bearer {await server.key(person)}"}
    body = {"model": "gpt-test", "messages": [{"role": "user", "content": "hello"}]}
    async with (
        aiohttp.ClientSession(base_url=server.url) as web,
        web.post("/v1/chat/completions", json=body, headers=headers) as answer,
    ):
        await answer.read()


async def health(server: Server, key: str) -> Any:
    """The report as a program gets it."""
    headers = {"authorization": f"Bearer {key}", "accept": "application/json"}
    async with aiohttp.ClientSession(base_url=server.url) as web, web.get(HOME, headers=headers) as answer:
        return (await answer.json())["health"]


async def test_the_page_shows_which_upstreams_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    settings = BreakerSettings(requests=2, share=0.5)
    async with (
        ScriptedUpstream([refuse(503, "down")] * 5) as upstream,
        console(tmp_path, upstream=upstream, breakers=settings) as server,
        browser(server) as vera,
    ):
        page = await vera.signs_in(VIEWER, then=HOME)
        assert "requests are sent" in page.text
        await ask(server)
        (circuit,) = (await health(server, await server.key(PROGRAM)))["circuits"]
        assert circuit["upstream"].startswith("model:")
        assert (circuit["state"], circuit["requests"], circuit["failures"]) == ("open", 2, 2)
        assert 0 < circuit["seconds_to_trial"] <= settings.pause
        page = await vera.opens(HOME)
        assert "left alone" in page.text
        assert "requests are sent" not in page.text


async def test_the_page_shows_who_has_the_places_for_requests_and_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    gate, begun = asyncio.Event(), asyncio.Event()

    async def slow(body: Any) -> Reply:
        begun.set()
        await gate.wait()
        return say("Done.")

    traffic = TrafficSettings(requests=1, waiting=3, weights={"acme": 3})
    async with (
        ScriptedUpstream([slow, say("Done.")]) as upstream,
        console(tmp_path, upstream=upstream, traffic=traffic) as server,
        browser(server) as vera,
        asyncio.TaskGroup() as group,
    ):
        key = await server.key(PROGRAM)
        page = await vera.signs_in(VIEWER, then=HOME)
        assert "No request has a place or waits for one." in page.text
        group.create_task(ask(server, Principal(id="ann", tenant="acme")))
        await begun.wait()
        group.create_task(ask(server, Principal(id="gus", tenant="globex")))
        async with asyncio.timeout(10):
            while not (load := (await health(server, key))["traffic"])["waiting"]:
                pass
        assert (load["places"], load["at_work"], load["waiting"], load["most_waiting"]) == (1, 1, 1, 3)
        acme = {"tenant": "acme", "at_work": 1, "waiting": 0, "weight": 3}
        globex = {"tenant": "globex", "at_work": 0, "waiting": 1, "weight": 1}
        assert load["tenants"] == [acme, globex]
        page = await vera.opens(HOME)
        assert "1 of at most 3" in page.text
        rows = page.tree.css("section[aria-labelledby=traffic] tbody th")
        assert [row.text(strip=True) for row in rows] == ["acme", "globex"]
        gate.set()


async def test_the_page_shows_which_server_has_which_version_of_the_shared_settings(tmp_path: Path) -> None:
    following = ServerSettings(follow=True)
    async with console(tmp_path, server=following) as server, browser(server) as vera:
        key = await server.key(PROGRAM)
        page = await vera.signs_in(VIEWER, then=HOME)
        assert "None are shared" in page.text
        parts = server.parts
        async with followed(parts, lambda: parts.settings, reloaded=lambda: None):
            shared = bundle(parts.settings, by="ada", at=time.time())
            await share(parts.database, shared)
            async with asyncio.timeout(10):
                while True:
                    report = await health(server, key)
                    (process,) = report["processes"]
                    if process["settings"] and process["settings"]["version"]:
                        break
            assert process["settings"]["version"] == report["shared"]["version"] == shared.version
            assert 0 <= process["age"] < 60
            page = await vera.opens(HOME)
            assert "shared by ada" in page.text
            assert page.text.count(shared.version) == 2
            assert "newest" in page.text
            broken = SharedSettings(at=time.time(), by="eve", catalogs=("python:no_such_module",))
            await share(parts.database, broken)
            async with asyncio.timeout(10):
                while not (process := (await health(server, key))["processes"][0])["settings"]["refused"]:
                    pass
            page = await vera.opens(HOME)
            assert "refused the newest" in page.text
            assert "no_such_module" in page.text
