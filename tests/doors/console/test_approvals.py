"""Questions about calls in the console: what a person reads before an answer, who may answer, and what the answer does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.doors.console.browser import browser
from tests.doors.console.full import ADMIN, Server, console
from toolcaddie.core.approval import Approval
from toolcaddie.core.control import Principal
from toolcaddie.testing import ScriptedUpstream, calls, say

pytestmark = pytest.mark.anyio

ANN = Principal(id="ann")
PATH = "/console/approvals"


@asynccontextmanager
async def asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *clients: int
) -> AsyncIterator[tuple[Server, list[Approval]]]:
    """A server, in which the model has asked to delete these clients of the gym in Ann's name."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    wanted = [("delete_client", {"client_id": number}) for number in clients]
    async with (
        ScriptedUpstream([calls(*wanted), say("Done.")]) as upstream,
        console(folder, upstream=upstream) as server,
    ):
        result = await server.parts.runtime.run("delete some clients", principal=ANN)
        assert result.status == "pending"
        yield server, list(await server.parts.runtime.approvals.list("default"))


async def statuses(server: Server) -> list[str]:
    return [each.status for each in await server.parts.runtime.approvals.list("default")]


async def test_a_person_reads_the_exact_arguments_and_approves_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(tmp_path, monkeypatch, 7) as (server, (question,)), browser(server) as ada:
        page = await ada.signs_in(ADMIN, then=PATH)
        assert "delete_client" in page.text
        assert '"client_id": 7' in page.text
        page = await ada.opens(f"{PATH}/{question.id}")
        assert "Asked by ann" in page.text
        page = await ada.sends(page, "answer", verdict="approve", reason="agreed by phone")
        assert "Approved. The call runs when its run goes on." in page.text
        (answered,) = await server.parts.runtime.approvals.list("default")
        assert (answered.status, answered.answer_reason) == ("approved", "agreed by phone")
        assert answered.answered_by is not None
        assert answered.answered_by.id == "ada"
        page = await ada.opens(f"{PATH}?status=approved&tool=delete_client")
        assert "answered by ada" in page.text
        assert "agreed by phone" in page.text


async def test_the_page_of_the_run_says_who_allowed_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked(tmp_path, monkeypatch, 7) as (server, (question,)), browser(server) as ada:
        page = await ada.signs_in(ADMIN, then=f"/console/runs/{question.run_id}")
        assert "It waits for an answer" in page.text
        page = await ada.opens(f"{PATH}/{question.id}")
        await ada.sends(page, "answer", verdict="approve", reason="agreed by phone")
        page = await ada.opens(f"/console/runs/{question.run_id}")
        assert "It was answered, and goes on when it is resumed" in page.text
        assert "It waits for an answer" not in page.text
        await server.parts.runtime.resume(question.run_id, principal=ANN)
        page = await ada.opens(f"/console/runs/{question.run_id}")
        (row,) = page.tree.css("#calls ~ .scroll tbody tr")
        assert row.text(separator=" ").count("Approved · ada · agreed by phone") == 1
        page = await ada.opens(f"{PATH}?status=used")
        assert "delete_client Approved and used" in page.text


@pytest.mark.parametrize(("verdict", "status"), [("approve", "approved"), ("refuse", "refused")])
async def test_several_questions_are_answered_at_once_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: str, status: str
) -> None:
    async with asked(tmp_path, monkeypatch, 1, 2, 3) as (server, questions), browser(server) as ada:
        page = await ada.signs_in(ADMIN, then=PATH)
        page = await ada.sends(page, "answer", verdict=verdict)
        assert page.status == 400
        assert "no question is chosen" in page.text.lower()
        page = await ada.opens(PATH)
        chosen = {f"answer-{each.id}": "yes" for each in questions[:2]}
        await ada.sends(page, "answer", verdict=verdict, **chosen)
        assert await statuses(server) == [status, status, "open"]


async def test_nobody_approves_a_call_of_their_own_and_everybody_may_refuse_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(tmp_path, monkeypatch, 7) as (server, (question,)), browser(server) as ann:
        page = await ann.signs_in(ANN, then=f"{PATH}/{question.id}")
        assert "nobody approves a call of their own" in page.text
        page = await ann.sends(page, "answer", verdict="approve")
        assert page.status == 403
        assert await statuses(server) == ["open"]
        await ann.sends(await ann.opens(f"{PATH}/{question.id}"), "answer", verdict="refuse")
        assert await statuses(server) == ["refused"]


async def test_people_of_another_tenant_do_not_learn_of_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(tmp_path, monkeypatch, 7) as (server, (question,)), browser(server) as eve:
        page = await eve.signs_in(Principal(id="eve", role="admin", tenant="other"), then=PATH)
        assert "delete_client" not in page.text
        assert (await eve.opens(f"{PATH}/{question.id}")).status == 404


async def test_a_question_is_answered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked(tmp_path, monkeypatch, 7) as (server, (question,)), browser(server) as ada:
        page = await ada.signs_in(ADMIN, then=f"{PATH}/{question.id}")
        await ada.sends(page, "answer", verdict="refuse")
        page = await ada.sends(page, "answer", verdict="approve")
        assert page.status == 409
        assert await statuses(server) == ["refused"]


async def test_the_last_question_about_a_tool_is_compared_with_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(tmp_path, monkeypatch, 1, 2) as (server, questions), browser(server) as ada:
        page = await ada.signs_in(ADMIN, then=f"{PATH}/{questions[0].id}")
        await ada.sends(page, "answer", verdict="approve")
        page = await ada.opens(f"{PATH}/{questions[1].id}")
        changes = ["".join(line.text().split()) for line in page.tree.css(".diff .added, .diff .removed")]
        assert changes == ['-"client_id":1', '+"client_id":2']


async def test_a_program_answers_with_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked(tmp_path, monkeypatch, 7) as (server, (question,)), aiohttp.ClientSession(server.url) as web:
        headers = {"authorization": f"Bearer {await server.key(ADMIN)}", "accept": "application/json"}
        async with web.get(PATH, headers=headers) as answer:
            ((only,),) = (await answer.json())["runs"].values()
            assert (only["id"], only["arguments"]) == (question.id, {"client_id": 7})
        async with web.post(f"{PATH}/{question.id}/answer", json={"verdict": "approve"}, headers=headers) as answer:
            assert (await answer.json())["done"] is True
        assert await statuses(server) == ["approved"]
