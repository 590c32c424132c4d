"""Lists follow what happens: nothing is missed, and nobody is told what belongs to another tenant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.doors.console.full import NOBODY, VIEWER, Server, console
from tests.doors.console.test_runs import RUNS, append, started

pytestmark = pytest.mark.anyio

END = ("run_finished", {"status": "completed", "calls": 0, "rounds": 1, "seconds": 0.5})


async def events_of(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[Mapping[str, Any], str]]:
    """The data and the id of each event of a stream."""
    data, last = "", ""
    async for line in answer.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "data":
            data = value
        elif name == "id":
            last = value
        elif not name and data:
            yield json.loads(data), last
            data = ""


async def told(answer: aiohttp.ClientResponse, number: int) -> Mapping[str, str]:
    """The last status of the first `number` runs in a stream."""
    statuses: dict[str, str] = {}
    async for data, _ in events_of(answer):
        statuses |= {run["run_id"]: run["status"] for run in data["runs"]}
        if len(statuses) >= number and set(statuses.values()) == {"completed"}:
            break
    return statuses


async def headers_of(server: Server) -> Mapping[str, str]:
    return {"authorization": f"Bearer {await server.key(VIEWER)}", "accept": "application/json"}


async def test_a_list_is_told_all_runs_also_those_between_the_page_and_the_stream(tmp_path: Path) -> None:
    async with console(tmp_path) as server, aiohttp.ClientSession(base_url=server.url) as web:
        headers = await headers_of(server)
        async with web.get(RUNS, headers=headers) as page:
            last = (await page.json())["last"]
        for number in range(300):
            started(server, f"early_{number}", message="\u202ehi")
            append(server, f"early_{number}", END, seq=2)
        async with web.get(f"{RUNS}/live?after={last}", headers=headers) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            for number in range(300):
                started(server, f"late_{number}")
                append(server, f"late_{number}", END, seq=2)
            statuses = await asyncio.wait_for(told(answer, 600), 20)
        assert len(statuses) == 600


async def test_who_comes_back_goes_on_after_the_last_event(tmp_path: Path) -> None:
    async with console(tmp_path) as server, aiohttp.ClientSession(base_url=server.url) as web:
        headers = await headers_of(server)
        started(server, "run_a")
        append(server, "run_a", END, seq=2)
        async with web.get(f"{RUNS}/live?after=0", headers=headers) as answer:
            data, last = await anext(events_of(answer))
        assert [run["run_id"] for run in data["runs"]] == ["run_a"]
        started(server, "run_b")
        append(server, "run_b", END, seq=2)
        async with web.get(f"{RUNS}/live?after=0", headers={**headers, "last-event-id": last}) as answer:
            assert list(await asyncio.wait_for(told(answer, 1), 20)) == ["run_b"]


async def test_a_stream_has_only_what_its_page_would_show(tmp_path: Path) -> None:
    async with console(tmp_path) as server, aiohttp.ClientSession(base_url=server.url) as web:
        headers = await headers_of(server)
        started(server, "theirs", tenant="acme")
        started(server, "other_bot", bot="hall")
        started(server, "ended", bot="desk")
        append(server, "ended", END, seq=2)
        started(server, "waits", bot="desk")
        async with web.get(f"{RUNS}/live?after=0&bot=desk&status=running", headers=headers) as answer:
            data, _ = await asyncio.wait_for(anext(events_of(answer)), 20)
        assert {run["run_id"]: run["joins"] for run in data["runs"]} == {"ended": False, "waits": True}


async def test_a_stream_names_the_tools_of_a_run_as_its_page_does(tmp_path: Path) -> None:
    async with console(tmp_path) as server, aiohttp.ClientSession(base_url=server.url) as web:
        headers = await headers_of(server)
        started(server, "run_a")
        calls = [
            ("call_finished", {"id": name, "name": name, "error": None}) for name in ("a", "b", "c", "d", "e", "f")
        ]
        append(server, "run_a", *calls, seq=2)
        async with web.get(f"{RUNS}/live?after=0", headers=headers) as answer:
            data, _ = await asyncio.wait_for(anext(events_of(answer)), 20)
        (run,) = data["runs"]
        assert (run["tools"], run["more_tools"]) == (["a", "b", "c", "d"], 2)


async def test_a_stream_is_for_those_who_may_see_the_list(tmp_path: Path) -> None:
    async with console(tmp_path) as server, aiohttp.ClientSession(base_url=server.url) as web:
        nobody = {"authorization": f"Bearer {await server.key(NOBODY)}", "accept": "application/json"}
        for headers, status in ((nobody, 403), ({"accept": "application/json"}, 401)):
            async with web.get(f"{RUNS}/live?after=0", headers=headers) as answer:
                assert answer.status == status
        headers = dict(await headers_of(server))
        for query in ("", "?after=x", "?after=0&tool=lock", "?after=0&before=1.0,a"):
            async with web.get(f"{RUNS}/live{query}", headers=headers) as answer:
                assert answer.status == 400


async def test_nobody_reads_the_trail_when_nobody_watches(tmp_path: Path) -> None:
    async with console(tmp_path) as server, aiohttp.ClientSession(base_url=server.url) as web:
        started(server, "run_a")
        headers = await headers_of(server)

        def tasks() -> list[asyncio.Task[Any]]:
            return [task for task in asyncio.all_tasks() if task.get_name() == "toolcaddie-console-live"]

        async with (
            web.get(f"{RUNS}/live?after=0", headers=headers) as one,
            web.get(f"{RUNS}/live?after=0", headers=headers) as other,
        ):
            for answer in (one, other):
                await asyncio.wait_for(anext(events_of(answer)), 20)
            (task,) = tasks()
            one.close()
            other.close()
            await asyncio.wait_for(asyncio.wait({task}), 20)
        assert tasks() == []
