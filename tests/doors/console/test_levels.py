"""People's permissions in the console follow from the roles of their keys, and their acts are in the trail."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.doors.authoring import BOSS, reviewing, written
from tests.doors.console.browser import HOME, browser
from tests.doors.console.full import VIEWER, console
from toolcaddie.storage.audits import RowQuery

pytestmark = pytest.mark.anyio


async def test_what_a_person_does_is_in_the_trail_with_who_did_it_and_how_it_ended(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        tool = await written(server.service)
        page = await boss.signs_in(BOSS, then=f"{HOME}/{tool.id}")
        await boss.sends(page, "reject", note="not now")
        rows = [row async for row in server.database.audits.rows(RowQuery())]
        begun, ended = [row.record for row in rows if row.record.kind.startswith("console_act")]
        assert begun.data["principal"] == "boss"
        assert begun.data["path"] == f"{HOME}/{tool.id}/reject"
        assert begun.data["fields"] == {"note": "not now"}
        assert (ended.run_id, ended.data["status"]) == (begun.run_id, 303)


async def test_a_program_reads_and_acts_with_an_api_key_and_json(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, aiohttp.ClientSession(base_url=server.url) as web:
        tool = await written(server.service)
        headers = {"authorization": f"Bearer {await server.key(BOSS)}", "accept": "application/json"}
        async with web.get(HOME, headers=headers) as answer:
            assert [each["id"] for each in (await answer.json())["tools"]] == [tool.id]
        async with web.post(f"{HOME}/{tool.id}/reject", json={"note": "no"}, headers=headers) as answer:
            assert (await answer.json())["done"] is True
        assert (await server.service.show("default", tool.id)).tool.status == "rejected"
        async with web.get(HOME, headers={"accept": "application/json"}) as answer:
            assert answer.status == 401
            assert "Bearer tc_" in (await answer.json())["error"]["message"]


async def test_a_person_reads_the_console_in_the_language_of_the_browser_or_the_chosen_one(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server, browser(server) as boss:
        page = await boss.opens("/console/sign-in", **{"accept-language": "fr, pt-BR;q=0.8, es;q=0.5"})
        assert '<html lang="pt">' in page.html
        page = await boss.opens("/console/language?to=es&next=/console/sign-in", **{"accept-language": "pt"})
        assert '<html lang="es">' in page.html
        page = await boss.opens("/console/language?to=es&next=//evil.example/")
        assert page.path.startswith("/console/")


async def test_signing_in_leads_back_to_the_list_with_its_filter(tmp_path: Path) -> None:
    async with console(tmp_path) as server, browser(server) as vera:
        page = await vera.signs_in(VIEWER, then="/console/runs?text=a%26b&status=failed")
        assert page.path == "/console/runs"
        assert 'value="a&amp;b"' in page.html
