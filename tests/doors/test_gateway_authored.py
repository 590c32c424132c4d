"""The gateway's paths of tools that bots wrote: what each person sees and may decide, and what the running server offers then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.doors.authoring import ANN, BOSS, COUNTS, Server, changed_by_hand, reviewing, written
from tests.doors.serving import gateway
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.control import Principal
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.testing import ScriptedUpstream, say

pytestmark = pytest.mark.anyio


SHARED_BY_MANAGERS = """
permit (principal, action, resource);
forbid (principal, action == Action::"approve", resource == Tool::"create_tool")
when { context.arguments.scope == "all" } unless { principal in Role::"manager" };
"""


class Person:
    """Somebody with an API key, or without one."""

    def __init__(self, server: Server, key: str) -> None:
        self._server, self._key = server, key

    async def asks(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        fields = {"authorization": f"Bearer {self._key}"} if self._key else {}
        async with (
            aiohttp.ClientSession() as web,
            web.request(method, f"{self._server.url}{path}", json=body, headers={**fields, **headers}) as answer,
        ):
            return answer.status, await answer.json()


@asynccontextmanager
async def people(folder: Path, **options: Any) -> AsyncIterator[tuple[Server, Person, Person]]:
    """A server, the boss, and Ann, in whose name a bot wrote a tool."""
    async with reviewing(folder, **options) as server:
        yield server, Person(server, await server.key(BOSS)), Person(server, await server.key(ANN))


async def test_a_tool_is_listed_shown_and_approved_with_its_digest(tmp_path: Path) -> None:
    async with people(tmp_path) as (server, boss, _):
        tool = await written(server.service, taint=("web_fetch",))
        status, listed = await boss.asks("GET", "/authored?status=pending")
        assert (status, [each["id"] for each in listed["data"]], listed["broken"]) == (200, [tool.id], [])
        assert "source" not in listed["data"][0]["definition"]
        status, shown = await boss.asks("GET", f"/authored/{tool.id}")
        assert status == 200
        assert (shown["definition"]["source"], shown["findings"], shown["objection"]) == (COUNTS, [], "")
        assert (shown["author"]["run_id"], shown["author"]["taint"]) == ("run_1", ["web_fetch"])
        status, approved = await boss.asks(
            "POST", f"/authored/{tool.id}/approve", {"digest": shown["digest"], "note": "read it"}
        )
        assert (status, approved["status"], approved["decided_by"]["id"]) == (200, "approved", "boss")
        assert approved["note"] == "read it"


async def test_a_state_that_has_changed_is_not_approved(tmp_path: Path) -> None:
    async with people(tmp_path) as (server, boss, _):
        tool = await written(server.service)
        changed_by_hand(tmp_path, tool, COUNTS + "\n")
        status, refusal = await boss.asks("POST", f"/authored/{tool.id}/approve", {"digest": tool.digest})
        assert (status, refusal["error"]["code"], refusal["error"]["param"]) == (409, "changed", "digest")
        assert "read it again" in refusal["error"]["message"]
        assert (await server.service.show("default", tool.id)).tool.status == "pending"


async def test_the_difference_to_the_approved_state_is_shown_and_rolled_back(tmp_path: Path) -> None:
    async with people(tmp_path) as (server, boss, _):
        tool = await written(server.service)
        await boss.asks("POST", f"/authored/{tool.id}/approve", {"digest": tool.digest})
        changed_by_hand(tmp_path, tool, COUNTS.replace("len", "str"))
        _, shown = await boss.asks("GET", f"/authored/{tool.id}/diff")
        assert "+    return str(text.split())" in shown["diff"]
        status, refusal = await boss.asks("POST", f"/authored/{tool.id}/rollback", {"version": 7})
        assert (status, "it has 1" in refusal["error"]["message"]) == (400, True)
        status, back = await boss.asks("POST", f"/authored/{tool.id}/rollback", {"version": 1})
        assert (status, back["status"], back["digest"]) == (200, "approved", tool.digest)


async def test_tools_are_rejected_revoked_and_deleted(tmp_path: Path) -> None:
    async with people(tmp_path) as (server, boss, _):
        tool = await written(server.service)
        _, rejected = await boss.asks("POST", "/authored/count_words/reject", {"note": "use wc"})
        assert (rejected["status"], rejected["note"]) == ("rejected", "use wc")
        await boss.asks("POST", "/authored/count_words/approve", {"digest": tool.digest})
        _, revoked = await boss.asks("POST", "/authored/count_words/revoke", {})
        assert revoked["status"] == "revoked"
        assert (await boss.asks("DELETE", f"/authored/{tool.id}"))[0] == 200
        assert (await boss.asks("GET", f"/authored/{tool.id}"))[0] == 404


async def test_nobody_approves_a_tool_of_their_own_but_may_withdraw_it(tmp_path: Path) -> None:
    async with people(tmp_path) as (server, boss, ann):
        tool = await written(server.service)
        status, refusal = await ann.asks("POST", f"/authored/{tool.id}/approve", {"digest": tool.digest})
        assert (status, refusal["error"]["code"]) == (403, "may_not_approve")
        assert "nobody approves a tool of their own" in refusal["error"]["message"]
        assert "cannot tell people apart" not in refusal["error"]["message"]
        await boss.asks("POST", f"/authored/{tool.id}/approve", {"digest": tool.digest})
        assert (await ann.asks("POST", f"/authored/{tool.id}/rollback", {"version": 1}))[0] == 403
        assert (await ann.asks("POST", f"/authored/{tool.id}/revoke", {}))[0] == 200
        assert (await ann.asks("DELETE", f"/authored/{tool.id}"))[0] == 200


async def test_a_rollback_is_judged_by_the_version_that_it_lets_run(tmp_path: Path) -> None:
    policy = CedarPolicy(text=SHARED_BY_MANAGERS)
    async with people(tmp_path, policy=policy) as (server, boss, _):
        manager = Person(server, await server.key(Principal(id="mia", role="manager")))
        tool = await written(server.service)
        path = f"/authored/{tool.id}"
        assert (await manager.asks("POST", f"{path}/approve", {"digest": tool.digest}))[0] == 200
        narrow = await server.service.change_scope("default", tool.id, "helper")
        assert (await boss.asks("POST", f"{path}/approve", {"digest": narrow.digest}))[0] == 200
        status, refusal = await boss.asks("POST", f"{path}/rollback", {"version": 1})
        assert (status, refusal["error"]["code"]) == (403, "may_not_approve")
        assert (await server.service.show("default", tool.id)).tool.digest == narrow.digest
        assert (await manager.asks("POST", f"{path}/rollback", {"version": 1}))[0] == 200
        narrowed = await server.service.rollback("default", tool.id, 2)
        assert (await boss.asks("POST", f"{path}/rollback", {"version": 2}))[1]["digest"] == narrowed.digest


async def test_a_server_without_keys_cannot_tell_people_apart(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as server:
        tool = await written(server.service, author=Principal())
        anybody = Person(server, "")
        status, refusal = await anybody.asks("POST", f"/authored/{tool.id}/approve", {"digest": tool.digest})
        assert status == 403
        assert "cannot tell people apart: make a key for each (toolcaddie keys add NAME)" in refusal["error"]["message"]
        assert (await anybody.asks("POST", f"/authored/{tool.id}/reject", {}))[0] == 200
        assert (await anybody.asks("DELETE", f"/authored/{tool.id}", origin="https://evil.example"))[0] == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/diff"),
        ("POST", "/approve"),
        ("POST", "/reject"),
        ("POST", "/revoke"),
        ("POST", "/rollback"),
        ("DELETE", ""),
    ],
)
async def test_for_others_the_tool_does_not_exist(tmp_path: Path, method: str, path: str) -> None:
    policy = CedarPolicy(approvers=["boss"])
    async with people(tmp_path, policy=policy) as (server, _, ann):
        tool = await written(server.service, author=Principal(id="carl"))
        other = Person(server, await server.key(Principal(id="boss", tenant="other")))
        bodies = {"/approve": {"digest": tool.digest}, "/rollback": {"version": 1}}
        body = bodies.get(path, {}) if method == "POST" else None
        for stranger in (other, ann):
            for key in (tool.id, "count_words"):
                status, answer = await stranger.asks(method, f"/authored/{key}{path}", body)
                assert (status, answer["error"]["code"]) == (404, "unknown_tool")
                assert answer["error"]["message"] == f"there is no tool '{key}'; there are none"
            assert (await stranger.asks("GET", "/authored"))[1]["data"] == []
        assert (await server.service.show("default", tool.id)).tool == tool


async def test_the_broken_tools_of_others_are_not_told(tmp_path: Path) -> None:
    policy = CedarPolicy(approvers=["boss"])
    async with people(tmp_path, policy=policy) as (server, boss, ann):
        tool = await written(server.service)
        (tmp_path / "tools" / tool.id / "meta.json").write_text("{")
        assert (await ann.asks("GET", f"/authored/{tool.id}"))[0] == 404
        assert (await ann.asks("GET", "/authored"))[1]["broken"] == []
        assert (await ann.asks("DELETE", f"/authored/{tool.id}"))[0] == 404
        assert (await boss.asks("GET", f"/authored/{tool.id}"))[0] == 409
        assert (await boss.asks("GET", "/authored"))[1]["broken"][0]["name"] == tool.id
        assert (await boss.asks("DELETE", f"/authored/{tool.id}"))[0] == 200


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("approve", {}, "required field `digest`"),
        ("approve", {"digest": "x", "force": True}, "unknown field `force`"),
        ("reject", {"note": "x" * 2_001}, "length <= 2000"),
        ("rollback", {"version": "1"}, "Expected `int`"),
    ],
)
async def test_a_wrong_body_is_named(tmp_path: Path, path: str, body: Any, message: str) -> None:
    async with people(tmp_path) as (server, boss, _):
        tool = await written(server.service)
        status, refusal = await boss.asks("POST", f"/authored/{tool.id}/{path}", body)
        assert (status, message in refusal["error"]["message"]) == (400, True)


async def test_a_wrong_state_in_the_query_is_named(tmp_path: Path) -> None:
    async with people(tmp_path) as (_, boss, _):
        status, refusal = await boss.asks("GET", "/authored?status=old")
        assert (status, refusal["error"]["param"]) == (400, "status")


async def test_a_key_is_needed(tmp_path: Path) -> None:
    async with people(tmp_path) as (server, _, _):
        assert (await Person(server, "").asks("GET", "/authored"))[0] == 401
        assert (await Person(server, "tc_wrong").asks("GET", "/authored"))[0] == 401


async def test_there_are_no_such_paths_where_bots_write_no_tools(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
        aiohttp.ClientSession() as web,
    ):
        for path in ("/authored", "/authored/x", "/console", "/console/", "/console/authored"):
            assert (await web.get(f"{served.base_url}{path}", allow_redirects=False)).status == 404


def _names(body: Any) -> set[str]:
    return {tool["function"]["name"] for tool in body.get("tools", ())}


async def _offered(server: Server, key: str, upstream: ScriptedUpstream) -> set[str]:
    """The tools that the model gets with the next request."""
    body = {"model": "m", "messages": [{"role": "user", "content": "count the words of a text"}]}
    async with (
        aiohttp.ClientSession() as web,
        web.post(f"{server.url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key}"}) as answer,
    ):
        assert answer.status == 200, await answer.text()
    return _names(upstream.bodies[-1])


@pytest.mark.proves("R002-88", "R002-89")
async def test_the_running_server_offers_a_tool_once_it_is_approved_and_no_longer_once_it_is_revoked(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedUpstream(lambda body: say("done")) as upstream,
        people(tmp_path, provider=OpenAIChat(upstream.base_url, "test-key")) as (server, boss, _),
    ):
        key = await server.key(Principal(id="dora"))
        tool = await written(server.service)
        assert "count_words" not in await _offered(server, key, upstream)
        await boss.asks("POST", f"/authored/{tool.id}/approve", {"digest": tool.digest})
        assert "count_words" in await _offered(server, key, upstream)
        await boss.asks("POST", f"/authored/{tool.id}/revoke", {})
        assert "count_words" not in await _offered(server, key, upstream)
