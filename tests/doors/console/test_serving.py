"""`toolcaddie serve` with the source `authored`: its console, and what all of its processes offer after a decision there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from tests.databases import home_url
from tests.doors.authoring import BOSS, COUNTS, written
from tests.doors.console.browser import HOME, browser
from tests.doors.processes import Process, serving
from toolcaddie.core.control import Principal
from toolcaddie.parts import Parts
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedUpstream, say
from toolcaddie.tools.authored import authorship

pytestmark = pytest.mark.anyio

SETTINGS = '[sandbox]\ntype = "plain"\n\n[[source]]\ntype = "authored"\nstore_path = "tools"\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server in a process of its own, and its database."""

    url: str
    database: Database

    async def key(self, person: Principal) -> str:
        return (await self.database.keys.add(person.id, person))[1]


def shown(body: Any) -> Any:
    """A model that says which tools it was given."""
    return say(" ".join(sorted(tool["function"]["name"] for tool in body.get("tools", ()))))


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    (tmp_path / "toolcaddie.toml").write_text(SETTINGS)
    with (
        ScriptedUpstream(shown) as upstream,
        serving(tmp_path, "--upstream", upstream.base_url, "--workers", "2") as server,
    ):
        yield server


def offered(server: Process, key: str) -> set[str]:
    """The tools that the model gets with the next requests, on new connections, so that both processes answer some."""
    names: list[set[str]] = []
    for _ in range(6):
        with server.client(api_key=key) as client:
            names.append(set(_answer(client).split()))
    assert all(each == names[0] for each in names)
    return names[0]


def _answer(client: openai.OpenAI) -> str:
    messages: Any = [{"role": "user", "content": "count the words of a text"}]
    return client.chat.completions.create(model="gpt-test", messages=messages).choices[0].message.content or ""


async def test_all_processes_offer_what_was_approved_in_the_console_of_any(process: Process, tmp_path: Path) -> None:
    database = Database(home_url(tmp_path))
    async with database:
        running = Running(url=process.base_url.removesuffix("/v1"), database=database)
        service = authorship(parts=Parts(store=database.store), store_path=str(tmp_path / "tools"))
        tool = await written(service, source=COUNTS)
        key = await running.key(Principal(id="dora"))
        async with browser(running) as boss:
            page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
            assert "count_words" not in offered(process, key)
            page = await boss.sends(page, "approve")
            assert "count_words approved" in page.text
            assert "count_words" in offered(process, key)
            await boss.sends(page, "revoke")
            assert "count_words" not in offered(process, key)


async def test_behind_a_proxy_with_https_cookies_are_sent_over_https_only(process: Process) -> None:
    url = f"{process.base_url.removesuffix('/v1')}/console/sign-in"
    async with aiohttp.ClientSession() as web, web.get(url, headers={"x-forwarded-proto": "https"}) as answer:
        (cookie,) = answer.headers.getall("set-cookie")
    assert cookie.startswith("__Host-toolcaddie-form=")
    assert "; Path=/; Secure; HttpOnly; SameSite=Strict;" in cookie
