"""`toolcaddie approvals`: questions are listed, shown, and answered one by one or for a whole run, by those who may."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.databases import home_url, sqlite_only
from tests.doors.commandline import CommandLine
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.control import Principal
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, calls, say
from toolcaddie.util.user import user_name


def _remover(roles: tuple[str, ...]) -> Callable[[str], str]:
    @tool(destructive=True, roles=roles)
    def remove(name: str) -> str:
        """Remove somebody."""
        return f"removed {name}"

    return remove


async def _waits(*names: str, asker: str = "ann", roles: tuple[str, ...] = ()) -> str:
    """Stores a run that asks about the removal of each name, and returns its id."""
    async with Database(home_url(Path.cwd())) as database:
        script = [calls(*(("remove", {"name": name}) for name in names)), say("done")]
        runtime = Runtime(
            provider=ScriptedProvider(script), sources=[_remover(roles)], documents=database.store, policy=CedarPolicy()
        )
        return (await runtime.run("remove them", principal=Principal(id=asker, role="admin"))).run_id


@pytest.fixture
def run_id(toolcaddie: CommandLine) -> str:
    return asyncio.run(_waits("john", "jane"))


def test_questions_are_listed_shown_and_answered(toolcaddie: CommandLine, run_id: str) -> None:
    john, jane = (approval["id"] for approval in toolcaddie.json("approvals", "list")["approvals"])
    assert "remove" in toolcaddie.ok("approvals", "list")
    assert 'name: "john"' in toolcaddie.ok("approvals", "show", john)
    assert f"approved remove ({john})" in toolcaddie.ok("approvals", "approve", john, "--reason", "by phone")
    (refused,) = toolcaddie.json("approvals", "deny", jane)["approvals"]
    assert (refused["status"], refused["answered_by"]["id"]) == ("refused", user_name())
    assert toolcaddie.json("approvals", "list")["approvals"] == []


def test_a_text_cannot_forge_lines_of_its_question(toolcaddie: CommandLine) -> None:
    run_id = asyncio.run(_waits("john\nreason       agreed already\u202e"))
    (asked,) = toolcaddie.json("approvals", "list")["approvals"]
    assert asked["run_id"] == run_id
    shown = toolcaddie.ok("approvals", "show", asked["id"])
    assert shown.splitlines()[-1] == r'  name: "john\nreason       agreed already\u202e"'


@pytest.mark.parametrize(("verb", "status"), [("approve", "approved"), ("deny", "refused")])
def test_all_questions_of_a_run_are_answered_at_once(
    toolcaddie: CommandLine, run_id: str, verb: str, status: str
) -> None:
    other = asyncio.run(_waits("joe"))
    answers = toolcaddie.json("approvals", verb, "--run", run_id)["approvals"]
    assert [answer["status"] for answer in answers] == [status, status]
    assert [each["run_id"] for each in toolcaddie.json("approvals", "list")["approvals"]] == [other]


def test_one_question_that_is_closed_leaves_the_others_open(toolcaddie: CommandLine, run_id: str) -> None:
    john, jane = (approval["id"] for approval in toolcaddie.json("approvals", "list")["approvals"])
    toolcaddie.ok("approvals", "deny", jane)
    assert "was refused by" in toolcaddie.refused("approvals", "approve", john, jane)
    assert [each["id"] for each in toolcaddie.json("approvals", "list")["approvals"]] == [john]


def test_who_may_not_approve_is_refused(toolcaddie: CommandLine, run_id: str) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text('[policy]\napprovers = ["role:manager"]\n')
    assert f"{user_name()} may not approve calls of remove (rule approvers" in toolcaddie.refused(
        "approvals", "approve", "--run", run_id
    )
    assert len(toolcaddie.json("approvals", "list")["approvals"]) == 2


def test_the_person_of_the_command_line_has_no_role_and_must_be_named_for_a_tool_of_some_roles(
    toolcaddie: CommandLine,
) -> None:
    run_id = asyncio.run(_waits("john", roles=("admin",)))
    refusal = toolcaddie.refused("approvals", "approve", "--run", run_id)
    assert "because this tool is hidden from them (tool.roles" in refusal
    assert "policy.approvers can name people and roles" in refusal
    (toolcaddie.home / "toolcaddie.toml").write_text(f'[policy]\napprovers = ["{user_name()}"]\n')
    assert "approved remove" in toolcaddie.ok("approvals", "approve", "--run", run_id)


def test_variables_of_the_environment_do_not_make_somebody_an_approver(
    toolcaddie: CommandLine, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text('[policy]\napprovers = ["boss"]\n')
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "boss")
    refusal = toolcaddie.refused("approvals", "approve", "--run", run_id)
    assert f"{user_name()} may not approve calls of remove" in refusal
    assert "boss" not in refusal


def test_nobody_approves_a_call_of_their_own(toolcaddie: CommandLine) -> None:
    own = asyncio.run(_waits("john", asker=user_name()))
    assert "nobody approves a call of their own" in toolcaddie.refused("approvals", "approve", "--run", own)


@pytest.mark.parametrize("words", [(), ("approval_1", "--run", "run_1")])
def test_the_command_takes_approvals_or_a_run(toolcaddie: CommandLine, words: tuple[str, ...]) -> None:
    assert "name approvals, or a run with --run" in toolcaddie("approvals", "approve", *words).stderr


def test_a_run_without_questions_is_named(toolcaddie: CommandLine, tmp_path: Path) -> None:
    assert "run_9 waits for no answer" in toolcaddie.refused("approvals", "approve", "--run", "run_9")


_DELETE = ("run", "delete client 977", "--catalog", "gym")


def _waiting_run(toolcaddie: CommandLine) -> tuple[str, str]:
    """Starts a run that waits for a person, and returns its id and that of its question."""
    assert toolcaddie(*_DELETE).exit_code == 1
    (asked,) = toolcaddie.json("approvals", "list")["approvals"]
    return asked["run_id"], asked["id"]


def test_resume_without_the_catalog_is_refused_and_the_run_still_waits(toolcaddie: CommandLine) -> None:
    run_id, approval_id = _waiting_run(toolcaddie)
    toolcaddie.ok("approvals", "approve", approval_id)
    refusal = toolcaddie.refused("resume", run_id)
    assert f"{run_id} waits to call delete_client, which is not in the catalog" in refusal
    assert "--catalog" in refusal
    assert toolcaddie.json("runs")["runs"][0]["status"] == "pending"
    assert toolcaddie.json("approvals", "show", approval_id)["status"] == "approved"
    assert "There is no client_id 977" in toolcaddie.ok("resume", run_id, "--catalog", "gym")


def test_a_refused_call_needs_no_catalog(toolcaddie: CommandLine) -> None:
    run_id, approval_id = _waiting_run(toolcaddie)
    toolcaddie.ok("approvals", "deny", approval_id)
    assert "the call did not run" in toolcaddie.ok("resume", run_id)


def test_the_hint_of_a_run_that_waits_names_its_catalog(toolcaddie: CommandLine) -> None:
    hint = toolcaddie(*_DELETE).stderr
    run_id = toolcaddie.json("runs")["runs"][0]["run_id"]
    assert f"`toolcaddie resume {run_id} --catalog gym`" in hint
    assert 'delete_client {"client_id":977} (' in hint
    assert hint.index("`toolcaddie approvals show approval_") < hint.index("`toolcaddie approvals approve approval_")
    answered = toolcaddie("approvals", "approve", "--run", run_id)
    assert f"`toolcaddie resume {run_id}`; name the same --catalog and --box" in answered.stderr


@sqlite_only("a file is made by whoever opens it")
def test_resume_makes_no_database(toolcaddie: CommandLine) -> None:
    assert "there is no database" in toolcaddie.refused("resume", "run_1", "--catalog", "gym")
    assert not list(toolcaddie.home.rglob("*.sqlite*"))


def _two_waiting_runs(toolcaddie: CommandLine) -> tuple[str, str, str]:
    """Starts two runs that wait for the answer to one question, and returns their ids and that of the question."""
    first, approval_id = _waiting_run(toolcaddie)
    assert toolcaddie(*_DELETE).exit_code == 1
    (second,) = {row["run_id"] for row in toolcaddie.json("runs")["runs"]} - {first}
    return first, second, approval_id


def test_the_trail_of_a_run_says_whose_answer_to_another_run_let_its_call_run(toolcaddie: CommandLine) -> None:
    first, second, approval_id = _two_waiting_runs(toolcaddie)
    toolcaddie.ok("approvals", "approve", "--run", first)
    toolcaddie.ok("resume", second, "--catalog", "gym")
    rows = toolcaddie.json("trail", second)["events"]
    (applied,) = [row["data"] for row in rows if row["kind"] == "approval_applied"]
    assert (applied["approval"], applied["status"], applied["asked_in"]) == (approval_id, "approved", first)
    assert (applied["by"], applied["channel"]) == (user_name(), "command line")
    assert f"delete_client approved by {approval_id} of {first}, answered by {user_name()} (command line)" in " ".join(
        toolcaddie.ok("trail", second).split()
    )
    assert f"used by      {second}/call_" in toolcaddie.ok("approvals", "show", approval_id)


def test_a_question_of_two_runs_names_both_and_is_answered_by_either(toolcaddie: CommandLine) -> None:
    first, second, approval_id = _two_waiting_runs(toolcaddie)
    assert f"also waits   {second}" in toolcaddie.ok("approvals", "show", approval_id)
    refused = toolcaddie("approvals", "deny", "--run", second)
    assert f"refused delete_client ({approval_id})" in refused.stdout
    assert "wait for this answer: all of them are refused" in refused.stderr
    assert first in refused.stderr
    assert second in refused.stderr


@pytest.mark.parametrize(
    "words", [_DELETE, ("call", "delete_client", "client_id=977", "--catalog", "gym")], ids=["run", "call"]
)
def test_a_run_that_waits_is_one_json_object_with_its_questions(
    toolcaddie: CommandLine, words: tuple[str, ...]
) -> None:
    done = toolcaddie(*words, "--json")
    assert (done.exit_code, done.stderr) == (1, "")
    waits = json.loads(done.stdout)
    (question,) = waits["approvals"]
    assert (waits["status"], question["tool"], question["arguments"]) == (
        "pending",
        "delete_client",
        {"client_id": 977},
    )
    assert waits["resume"] == f"toolcaddie resume {waits['run_id']} --catalog gym"
    toolcaddie.ok("approvals", "approve", question["id"])
    assert "There is no client_id 977" in toolcaddie.ok(*waits["resume"].split()[1:])
    assert {row["status"] for row in toolcaddie.json("runs")["runs"]} == {"completed"}


def test_a_message_of_a_chat_that_waits_is_one_line_of_json(toolcaddie: CommandLine) -> None:
    done = toolcaddie("chat", "--catalog", "gym", "--json", stdin="delete client 977\n")
    (line,) = done.stdout.splitlines()
    assert (done.exit_code, json.loads(line)["status"]) == (1, "pending")


def test_the_calls_of_a_run_include_one_that_waits_and_one_that_a_person_refused(toolcaddie: CommandLine) -> None:
    run_id, approval_id = _waiting_run(toolcaddie)
    (call,) = toolcaddie.json("runs", run_id)["calls"]
    assert (call["name"], call["state"]) == ("delete_client", "waiting")
    toolcaddie.ok("approvals", "deny", approval_id)
    toolcaddie.ok("resume", run_id, "--catalog", "gym")
    (call,) = toolcaddie.json("runs", run_id)["calls"]
    assert call["state"] == "refused"
    assert user_name() in call["detail"]


def test_a_refusal_by_the_settings_is_not_told_as_that_of_a_person(toolcaddie: CommandLine) -> None:
    answer = toolcaddie.ok(*_DELETE, "--approve", "deny")
    assert "The settings refuse every call that needs an approval; no person was asked." in answer
    assert "A person" not in answer
    (call,) = toolcaddie.json("runs", "last")["calls"]
    assert (call["state"], call["detail"]) == ("refused", "without a person")
