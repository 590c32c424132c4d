"""`toolcaddie runs`: how runs stand and how their calls ended, also those that a kill left open."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.databases import home_url
from tests.doors.commandline import CommandLine
from toolcaddie.audit.trail import Trail
from toolcaddie.core.approval import Approval
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.events import ApprovalClosed, CallDecided, CallIntended, RunPaused, RunStarted
from toolcaddie.core.run import RunRequest, RunState
from toolcaddie.core.tool import ToolCall
from toolcaddie.doors.texts import local_time
from toolcaddie.storage.database import Database
from toolcaddie.storage.runs import StoredRun, StoredRuns
from toolcaddie.util.replacing import replace


async def _begun(*run_ids: str, stored: str = "") -> None:
    """Runs that intended one call each, in a database that closes before there is an outcome."""
    async with Database(home_url(Path.cwd())) as database:
        trail = Trail(database.events)
        for run_id in run_ids:
            started = RunStarted(
                run_id=run_id,
                principal=Principal(),
                preset="default",
                model="m",
                message=f"pay for {run_id}",
                catalog_version="v",
                catalog_size=1,
            )
            await trail.emit(started)
            await trail.emit(CallIntended(run_id=run_id, call=ToolCall(id="c1", name="pay", arguments='{"to":"ann"}')))
        if stored:
            run = StoredRun(request=RunRequest(messages=()), state=RunState(run_id=stored), meta_categories=())
            await StoredRuns(database.store).store_paused(run, owner=await database.leases.own())
            await trail.emit(RunPaused(run_id=stored, state=run.state))


def test_calls_that_were_begun_and_have_no_outcome_are_shown_as_unknown(toolcaddie: CommandLine) -> None:
    asyncio.run(_begun("broken", "waiting", stored="waiting"))
    rows = {row["run_id"]: row for row in toolcaddie.json("runs")["runs"]}
    assert (rows["broken"]["status"], rows["broken"]["resumable"], rows["broken"]["unknown"]) == ("failed", False, 1)
    assert (rows["waiting"]["status"], rows["waiting"]["resumable"]) == ("pending", True)
    listed = toolcaddie.ok("runs")
    assert "pending (can be resumed)" in listed
    (call,) = toolcaddie.json("runs", "broken")["calls"]
    assert (call["name"], call["state"], call["arguments"]) == ("pay", "unknown", '{"to":"ann"}')
    assert "has ended" in toolcaddie.ok("runs", "broken")
    assert "whether it took effect is not known" in toolcaddie.ok("trail", "broken")


async def _answered() -> None:
    async with Database(home_url(Path.cwd())) as database:
        trail, pay = Trail(database.events), ToolCall(id="c1", name="pay", arguments="{}")
        decision = Decision(verdict="ask", reason="money", rule="large", policy_version="rules-7")
        question = Approval(
            id="approval_1",
            run_id="r",
            call_id="c1",
            tool="pay",
            arguments={},
            digest="d",
            policy_version="rules-7",
            principal=Principal(),
            created=0.0,
            expires=86_400.0 * 365,
        )
        answered = replace(
            question,
            status="refused",
            answered=86_400.0,
            answered_by=Principal(id="boss"),
            answer_reason="not today",
        )
        await trail.emit(CallDecided(run_id="r", call=pay, decision=decision))
        await trail.emit(ApprovalClosed(run_id="r", approval=answered))
        await trail.emit(ApprovalClosed(run_id="r", approval=replace(question, status="expired")))


def test_the_trail_shows_the_policy_of_a_decision_and_who_answered_a_question(toolcaddie: CommandLine) -> None:
    asyncio.run(_answered())
    rows = " ".join(toolcaddie.ok("trail", "r").split())
    assert "ask pay by rule large of policy rules-7: money" in rows
    assert f"pay refused by boss at {local_time(86_400.0)}: not today" in rows
    assert f"pay expired at {local_time(86_400.0 * 365)}" in rows


def test_a_run_under_way_names_the_process_that_carries_it_on(toolcaddie: CommandLine) -> None:
    async def while_it_runs() -> None:
        async with Database(home_url(Path.cwd())) as database:
            data = {"message": "pay", "principal": {"id": "ann"}, "preset": "default"}
            await Trail(database.events).emit(
                RunStarted(
                    run_id="r",
                    principal=Principal(),
                    preset="default",
                    model="m",
                    message=str(data["message"]),
                    catalog_version="v",
                    catalog_size=1,
                )
            )
            await database.events.flush()
            (row,) = (await asyncio.to_thread(toolcaddie.json, "runs"))["runs"]
            assert row["status"] == "running"
            assert "process" in row["owner"]

    asyncio.run(while_it_runs())


def test_finished_calls_are_done_or_failed(toolcaddie: CommandLine) -> None:
    toolcaddie("run", "freeze John's membership", "--catalog", "gym")
    states = [call["state"] for call in toolcaddie.json("runs", "last")["calls"]]
    assert states == ["done", "done"]
    assert toolcaddie("runs", "nothing").exit_code == 2


def test_an_empty_database_says_what_to_do(toolcaddie: CommandLine) -> None:
    assert "toolcaddie run" in toolcaddie("runs").stderr


def test_a_direct_call_that_was_refused_does_not_look_like_one_that_ran(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("call", "get_clients_list", "search=John", "--catalog", "gym")
    toolcaddie.refused("call", "get_clients", "--catalog", "gym")
    toolcaddie.refused("call", "convert_currency", "amount=20", "--catalog", "gym")
    toolcaddie.ok("run", "hello", "--catalog", "gym")
    assert [row["refused"] for row in toolcaddie.json("runs")["runs"]] == [False, True, True, False]
    assert toolcaddie.ok("runs").count("completed (the call was refused)") == 2


def test_a_misspelt_command_is_suggested_and_an_answer_names_its_run(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("run", "hello", "--catalog", "gym")
    assert "did you mean `toolcaddie runs unknown`?" in toolcaddie.refused("runs", "unknwon")
    assert "did you mean" not in toolcaddie.refused("runs", "run_0123")
    assert "name the run by its id" in toolcaddie.refused("approvals", "approve", "--run", "last")
    assert "`x-toolcaddie-run` of an answer of the gateway names its run" in toolcaddie.refused("trail", "run_0123")
