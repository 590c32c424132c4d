"""Questions to people over HTTP: those who may approve see them by run, answer one or several, and nobody else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.doors.serving import Gateway, gateway
from toolcaddie.control.bots import Bot
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.control import Principal
from toolcaddie.sources.functions import tool
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

PEOPLE = (
    Principal(id="ann", role="staff"),
    Principal(id="mia", role="manager"),
    Principal(id="leo", role="manager"),
    Principal(id="eve", role="manager", tenant="elsewhere"),
)


@dataclass
class House:
    """A gateway with a key for each person."""

    gateway: Gateway
    http: aiohttp.ClientSession
    deleted: list[str]
    keys: dict[str, str] = field(default_factory=dict)

    async def send(self, person: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {self.keys[person]}"}
        async with self.http.request(method, f"{self.gateway.base_url}{path}", json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def ask(self, person: str, text: str) -> str:
        """Sends a message as this person, and returns the answer."""
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        status, answer = await self.send(person, "POST", "/v1/chat/completions", body)
        assert status == 200, answer
        return str(answer["choices"][0]["message"]["content"])

    async def waiting(self, person: str, **query: str) -> list[Mapping[str, Any]]:
        """Returns the questions that this person sees, by run."""
        path = "/approvals" + "".join(f"?{name}={value}" for name, value in query.items())
        status, answer = await self.send(person, "GET", path)
        assert status == 200, answer
        return list(answer["data"])


@asynccontextmanager
async def house(folder: Path, script: list[Any], policy: CedarPolicy | None = None) -> AsyncIterator[House]:
    deleted: list[str] = []

    @tool(destructive=True)
    def delete_client(name: str) -> str:
        """Delete a client."""
        deleted.append(name)
        return f"deleted {name}"

    async with (
        gateway(folder, ScriptedProvider(script), sources=[delete_client], policy=policy) as served,
        aiohttp.ClientSession() as http,
    ):
        here = House(gateway=served, http=http, deleted=deleted)
        for person in PEOPLE:
            _, here.keys[person.id] = await served.database.keys.add(person.id, person)
        yield here


MANAGERS = CedarPolicy(approvers=["role:manager"])
ONE = [call("delete_client", {"name": "John"}), say("Done.")]
TWO = [calls(("delete_client", {"name": "John"}), ("delete_client", {"name": "Jane"})), say("Done.")]


async def test_a_manager_sees_the_question_approves_it_and_the_conversation_goes_on(tmp_path: Path) -> None:
    async with house(tmp_path, ONE, MANAGERS) as here:
        paused = await here.ask("ann", "delete John")
        (run,) = await here.waiting("mia")
        (question,) = run["approvals"]
        assert (run["asked_by"], question["tool"], question["arguments"]) == ("ann", "delete_client", {"name": "John"})
        assert question["reason"] == "it may delete or overwrite something"
        assert question["id"] in paused
        assert await here.send("mia", "GET", f"/approvals/{question['id']}") == (200, question)

        answer = {"approved": True, "reason": "agreed by phone"}
        status, answered = await here.send("mia", "POST", f"/approvals/{question['id']}", answer)

        assert status == 200
        assert (answered["status"], answered["answered_by"]["id"]) == ("approved", "mia")
        assert answered["answer_reason"] == "agreed by phone"
        assert await here.waiting("mia") == []
        assert [run["run_id"] for run in await here.waiting("mia", status="approved")] == [question["run_id"]]


async def test_several_questions_of_a_run_stand_together_and_are_answered_together(tmp_path: Path) -> None:
    async with house(tmp_path, TWO, MANAGERS) as here:
        await here.ask("ann", "delete John and Jane")
        (run,) = await here.waiting("mia")
        john, jane = (question["id"] for question in run["approvals"])

        status, outcome = await here.send("mia", "POST", "/approvals", {"answers": {john: True, jane: False}})

        assert status == 200
        assert [each["status"] for each in outcome["data"]] == ["approved", "refused"]
        await here.gateway.runtime.resume(run["run_id"])
        assert here.deleted == ["John"]


async def test_if_one_of_several_questions_is_closed_none_is_answered(tmp_path: Path) -> None:
    async with house(tmp_path, TWO, MANAGERS) as here:
        await here.ask("ann", "delete John and Jane")
        (run,) = await here.waiting("mia")
        john, jane = (question["id"] for question in run["approvals"])
        await here.send("leo", "POST", f"/approvals/{jane}", {"approved": False})

        status, outcome = await here.send("mia", "POST", "/approvals", {"answers": {john: True, jane: True}})

        assert status == 409
        assert "was refused by leo already" in outcome["error"]["message"]
        assert [each["status"] for each in (await here.send("mia", "GET", f"/approvals/{john}"))[1:]] == ["open"]


async def test_two_managers_who_answer_at_once_do_not_both_succeed(tmp_path: Path) -> None:
    async with house(tmp_path, ONE, MANAGERS) as here:
        await here.ask("ann", "delete John")
        (run,) = await here.waiting("mia")
        path = f"/approvals/{run['approvals'][0]['id']}"

        answers = await asyncio.gather(
            *(here.send(who, "POST", path, {"approved": who == "mia"}) for who in ("mia", "leo") * 5)
        )

        assert sorted(status for status, _ in answers) == [200, *[409] * 9]


async def test_who_may_not_approve_does_not_see_the_question(tmp_path: Path) -> None:
    async with house(tmp_path, [*ONE, *ONE], MANAGERS) as here:
        await here.ask("mia", "delete John")
        (run,) = await here.waiting("leo")
        path = f"/approvals/{run['approvals'][0]['id']}"
        for stranger in ("ann", "eve"):
            assert await here.waiting(stranger) == []
            for method, body in (("GET", None), ("POST", {"approved": True})):
                status, answer = await here.send(stranger, method, path, body)
                assert (status, answer["error"]["code"]) == (404, "unknown_approval")
            status, answer = await here.send(stranger, "POST", "/approvals", {"answers": {path[11:]: True}})
            assert (status, answer["error"]["code"]) == (404, "unknown_approval")
        assert (await here.send("leo", "GET", path))[1]["status"] == "open"


async def test_nobody_approves_a_call_of_their_own_but_may_refuse_it(tmp_path: Path) -> None:
    async with house(tmp_path, ONE, CedarPolicy(text="permit (principal, action, resource);")) as here:
        await here.ask("mia", "delete John")
        (run,) = await here.waiting("mia")
        path = f"/approvals/{run['approvals'][0]['id']}"

        status, answer = await here.send("mia", "POST", path, {"approved": True})
        assert (status, answer["error"]["code"]) == (403, "may_not_approve")
        assert "mia asked for this call, and nobody approves a call of their own" in answer["error"]["message"]
        assert (await here.send("mia", "POST", path, {"approved": False}))[0] == 200


async def test_without_names_in_the_settings_everybody_else_of_the_tenant_may_approve(tmp_path: Path) -> None:
    async with house(tmp_path, ONE) as here:
        await here.ask("mia", "delete John")
        assert await here.waiting("eve") == []
        (run,) = await here.waiting("ann")
        status, _ = await here.send("ann", "POST", f"/approvals/{run['approvals'][0]['id']}", {"approved": True})
        assert status == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "message"),
    [
        (
            "GET",
            "/approvals?status=lost",
            None,
            "'status' is 'lost'; it can be open, approved, refused, expired, used, all",
        ),
        ("GET", "/approvals?limit=0", None, "'limit' must be a number from 1 to 1,000"),
        ("POST", "/approvals", {"answers": {}}, 'send {"answers": {"approval_0123": true'),
        ("POST", "/approvals/approval_1", {"approve": True}, 'send {"approved": true'),
        ("POST", "/approvals/approval_1", {"approved": "yes"}, "Expected `bool`, got `str` - at `$.approved`"),
    ],
)
async def test_a_wrong_request_says_what_to_send(
    tmp_path: Path, method: str, path: str, body: Any, message: str
) -> None:
    async with house(tmp_path, []) as here:
        status, answer = await here.send("mia", method, path, body)
        assert (status, message in answer["error"]["message"]) == (400, True), answer


# --- tools that are hidden from the person ------------------------------------------------------------------------------

GUEST, ROOT, OWNER = (
    Principal(id="gus", role="guest", bot="front"),
    Principal(id="root", role="admin", bot="back"),
    Principal(id="olga", role="admin", bot="back"),
)
NO_DEFAULT_SEE = 'forbid (principal, action == Action::"see", resource) unless { principal in Role::"admin" };'
PERMIT = 'permit (principal in Role::"guest", action == Action::"approve", resource == Tool::"purge");'


@asynccontextmanager
async def hidden_tool(
    folder: Path,
    *,
    bots: Mapping[str, Bot] | None = None,
    policy: CedarPolicy | None = None,
    **restrictions: Any,
) -> AsyncIterator[tuple[House, str]]:
    """A house in which `root` asked for a call of `purge`, and the id of the question."""

    @tool(destructive=True, category="salaries", **restrictions)
    def purge(person: str) -> str:
        """Purge the salaries of a person."""
        return f"purged {person}"

    script = [call("purge", {"person": "the director"}), say("Done.")]
    async with (
        gateway(folder, ScriptedProvider(script), sources=[purge], policy=policy, bots=bots) as served,
        aiohttp.ClientSession() as http,
    ):
        here = House(gateway=served, http=http, deleted=[])
        for person in (GUEST, ROOT, OWNER):
            _, here.keys[person.id] = await served.database.keys.add(person.id, person)
        await here.ask("root", "purge the director")
        [question] = await served.runtime.approvals.list("default")
        yield here, question.id


@pytest.mark.parametrize(
    "restrictions",
    [
        {"roles": ("admin",)},
        {"scope": "back"},
        {"bots": {"front": Bot(disabled_tools=("purge",)), "back": Bot()}},
        {"bots": {"front": Bot(categories=()), "back": Bot()}},
        {"policy": CedarPolicy(text=NO_DEFAULT_SEE)},
    ],
    ids=["roles", "scope", "disabled tool", "category", "rule about see"],
)
async def test_a_person_from_whom_a_tool_is_hidden_neither_sees_nor_answers_its_questions(
    tmp_path: Path, restrictions: dict[str, Any]
) -> None:
    async with hidden_tool(tmp_path, **restrictions) as (here, question):
        unknown = await here.send("gus", "GET", "/approvals/approval_0")
        assert await here.waiting("gus", status="all") == []
        for method, path, body in (
            ("GET", f"/approvals/{question}", None),
            ("POST", f"/approvals/{question}", {"approved": True}),
            ("POST", f"/approvals/{question}", {"approved": False}),
            ("POST", "/approvals", {"answers": {question: True}}),
        ):
            status, answer = await here.send("gus", method, path, body)
            assert (status, answer["error"]["code"]) == (404, "unknown_approval")
            assert answer["error"]["message"].replace(question, "approval_0") == unknown[1]["error"]["message"]

        assert (await here.send("olga", "POST", f"/approvals/{question}", {"approved": True}))[0] == 200


@pytest.mark.parametrize(
    "policy",
    [CedarPolicy(approvers=["role:guest"]), CedarPolicy(approvers=["gus"]), CedarPolicy(text=PERMIT)],
    ids=["role", "person", "rule"],
)
async def test_people_whom_the_rules_name_as_approvers_answer_questions_about_tools_that_they_cannot_see(
    tmp_path: Path, policy: CedarPolicy
) -> None:
    async with hidden_tool(tmp_path, policy=policy, roles=("admin",)) as (here, question):
        [run] = await here.waiting("gus")
        assert run["approvals"][0]["arguments"] == {"person": "the director"}
        assert (await here.send("gus", "POST", f"/approvals/{question}", {"approved": True}))[0] == 200


@pytest.mark.parametrize(
    "rule",
    [
        'permit (principal, action == Action::"approve", resource);',
        'permit (principal in Role::"guest", action, resource);',
        'permit (principal in Tenant::"default", action == Action::"approve", resource);',
        'permit (principal in Role::"guest", action == Action::"approve", resource) when { context.arguments.no == 1 };',
    ],
    ids=["everybody", "all actions", "a tenant", "cannot be evaluated"],
)
async def test_a_rule_that_does_not_name_approvers_does_not_show_hidden_tools(tmp_path: Path, rule: str) -> None:
    async with hidden_tool(tmp_path, policy=CedarPolicy(text=rule), roles=("admin",)) as (here, question):
        assert await here.waiting("gus") == []
        assert (await here.send("gus", "POST", f"/approvals/{question}", {"approved": True}))[0] == 404


async def test_a_named_approver_is_still_bound_by_the_rules_that_forbid(tmp_path: Path) -> None:
    forbidding = CedarPolicy(
        approvers=["role:guest"],
        text='forbid (principal in Role::"guest", action == Action::"approve", resource) when { context.tainted == false };',
    )
    async with hidden_tool(tmp_path, policy=forbidding, roles=("admin",)) as (here, question):
        assert await here.waiting("gus") == []
        assert (await here.send("gus", "POST", f"/approvals/{question}", {"approved": True}))[0] == 404
