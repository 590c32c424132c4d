"""The desk: the tools of one caller, without a model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.databases import database_url
from toolcaddie.audit.trail import Trail
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import LimitExceededError, RequestError
from toolcaddie.core.presets import preset
from toolcaddie.core.tool import Tool
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio

GUEST = Principal(id="guest", role="guest")
ADMIN = Principal(id="ann", role="admin")


@tool(roles=["admin"], category="members")
def erase_members() -> str:
    """Erase all members."""
    return "erased"


@tool(category="members", read_only=True)
def count_members(active: bool = True) -> str:
    """Count the members of the club."""
    return f"7 {'active' if active else 'in all'}"


@tool(category="doors")
def lock_doors(_chatId: str = "") -> str:
    """Lock all doors."""
    return f"locked {_chatId}".strip()


class Asks:
    version = "asks-1"

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return None

    async def decide(self, request: CallRequest) -> Decision:
        return Decision(verdict="ask", reason="a person decides")


def club(**options: Any) -> Runtime:
    sources = [FunctionSource("club", [erase_members, count_members, lock_doors])]
    return Runtime(provider=ScriptedProvider([]), sources=sources, **options)


def test_it_lists_page_by_page_what_its_caller_may_see() -> None:
    page = club().desk(principal=GUEST).list(limit=1)
    assert ([shown.name for shown in page.tools], page.total, page.has_more) == (["count_members"], 2, True)
    rest = club().desk(principal=GUEST).list(offset=1)
    assert ([shown.name for shown in rest.tools], rest.has_more) == (["lock_doors"], False)
    assert club().desk(principal=ADMIN).list(category="members").total == 2


async def test_it_finds_by_rank_and_by_plain_words_what_its_caller_may_see() -> None:
    best, *_ = await club().desk(principal=GUEST).search("members of the club")
    assert best.name == "count_members"
    assert [hit.name for hit in await club().desk(principal=GUEST).search("erase")] == []
    assert [hit.name for hit in await club().desk(principal=ADMIN).search("rase")] == ["erase_members"]


def test_it_shows_a_schema_and_never_that_of_a_hidden_tool() -> None:
    schema = club().desk().schema("count_members")
    assert (schema["name"], schema["description"]) == ("count_members", "Count the members of the club.")
    assert "active" in schema["parameters"]["properties"]
    with pytest.raises(RequestError, match="there is no tool 'erase_members'"):
        club().desk(principal=GUEST).schema("erase_members")
    with pytest.raises(RequestError, match="did you mean count_members"):
        club().desk().schema("count_member")


async def test_it_calls_through_the_gates_and_what_goes_wrong_is_a_result() -> None:
    desk = club().desk(principal=GUEST, injected={"_chatId": "7"})
    assert (await desk.call("lock_doors", {})).content == "locked 7"
    assert (await desk.call("erase_members", {})).error == "unknown_tool"
    assert (await desk.call("count_members", {"active": "yes"})).error == "invalid_arguments"
    with pytest.raises(RequestError, match="arguments must be a dict"):
        await desk.call("count_members", [])  # type: ignore[arg-type]


async def test_an_option_that_no_request_has_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match="principle"):
        club().desk(principle=GUEST)


async def test_a_direct_call_is_on_record_as_a_run_of_its_own(tmp_path: Path) -> None:
    async with Database(database_url(tmp_path / "x.sqlite")) as database:
        runtime = club(trail=Trail(database.events), documents=database.store)
        await runtime.call("lock_doors", {}, run_id="direct")
        await database.events.flush()
        events = await database.events.events("direct")
        (summary,) = await database.events.runs()
    assert [event.kind for event in events] == [
        "run_started",
        "call_decided",
        "call_intended",
        "call_finished",
        "run_finished",
    ]
    assert (summary.message, summary.status, summary.calls) == ("lock_doors, called directly", "completed", 1)


async def test_a_direct_call_that_is_asked_about_waits_and_is_carried_on_like_a_run() -> None:
    runtime = club(policy=Asks())
    waiting = await runtime.call("lock_doors", {}, run_id="direct")
    (approval,) = await runtime.approvals.list("default", status="open")
    assert (waiting.is_error, waiting.error) == (True, "denied")
    assert approval.id in waiting.text
    assert "(run direct)" in waiting.text
    done = await runtime.resume("direct", approvals={approval.call_id: True})
    assert (done.status, done.text, done.tool_calls) == ("completed", "locked", ("lock_doors",))


async def test_the_same_direct_call_gets_the_answer_once_a_person_has_approved_it() -> None:
    runtime = club(policy=Asks())
    assert "waits for a person" in (await runtime.call("lock_doors", {})).text
    assert "waits for a person" in (await runtime.call("lock_doors", {})).text
    (approval,) = await runtime.approvals.list("default", status="open")
    await runtime.approvals.answer("default", approval.id, approved=True)
    assert (await runtime.call("lock_doors", {})).text == "locked"
    assert "waits for a person" in (await runtime.call("lock_doors", {})).text  # an approval is valid for one call


async def test_a_direct_call_has_the_time_limit_of_every_run() -> None:
    @tool
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(60)
        return "waited"

    limits = replace(preset("default").limits, seconds=0.05)
    runtime = Runtime(provider=ScriptedProvider([]), sources=[wait], preset=replace(preset("default"), limits=limits))
    with pytest.raises(LimitExceededError, match=r"longer than 0\.05 s"):
        await runtime.call("wait", {})


async def test_a_callers_own_tool_is_not_run_here() -> None:
    own = Tool(name="open_door", description="Open the door.", source="client")
    result = await club().call("open_door", {}, client_tools=(own,))
    assert (result.is_error, "run it there" in result.text) == (True, True)
