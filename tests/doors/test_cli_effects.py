"""The effects of calls on the command line: in the records of a run, and where the policy is explained."""

from __future__ import annotations

import pytest

from tests.doors.commandline import CommandLine
from toolcaddie.testing import ScriptedUpstream, call, say

EFFECT = "systemd.stop nginx.service"
MODULE = """
from toolcaddie import FunctionSource, tool
from toolcaddie.core.assessment import Assessment


@tool
def stop_unit(unit: str) -> str:
    \"\"\"Stop a unit.\"\"\"
    return "stopped"


async def judge(name, arguments, context):
    return Assessment(effects=(f"systemd.stop {arguments['unit']}.service",), question="it is in use")


source = FunctionSource("host", [stop_unit], assess=judge)
"""
SETTINGS = """
catalogs = ["python:host_effects"]
[policy]
deny_effects = ["systemd.stop sshd.service"]
[policy.roles.guest]
ask_effects = ["systemd.*"]
"""


@pytest.fixture
def home(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.syspath_prepend(toolcaddie.home)
    (toolcaddie.home / "host_effects.py").write_text(MODULE)
    (toolcaddie.home / "toolcaddie.toml").write_text(SETTINGS)
    return toolcaddie


def test_the_records_of_a_run_show_what_its_calls_did(home: CommandLine) -> None:
    with ScriptedUpstream([call("stop_unit", {"unit": "nginx"}), say("Done.")]) as upstream:
        home.ok("run", "go", "--upstream", upstream.base_url, "--model", "gpt-test", "--approve", "run")
    [shown] = home.json("runs", "show", "last")["calls"]
    assert (shown["state"], shown["effects"]) == ("done", [EFFECT])
    assert EFFECT in home.ok("runs", "show", "last")
    assert home.json("why", "stop_unit", "--run", "last")["effects"] == [EFFECT]
    assert f"effect of a call: {EFFECT}" in home.ok("why", "stop_unit", "--run", "last")
    assert f"ask stop_unit ({EFFECT}) by rule source" in " ".join(home.ok("trail", "last").split())


def test_a_call_through_execute_tool_is_shown_under_the_name_of_its_tool(home: CommandLine) -> None:
    inner = {"tool_name": "stop_unit", "arguments": {"unit": "nginx"}}
    with ScriptedUpstream([call("execute_tool", inner)]) as upstream:
        home("run", "go", "--upstream", upstream.base_url, "--model", "gpt-test", "--preset", "compact")
    trail = [" ".join(line.split()) for line in home.ok("trail", "last").splitlines()]
    assert [line.partition("run_paused ")[2] for line in trail if "run_paused" in line] == ["waits for stop_unit"]
    assert [line.partition("tools_selected ")[2] for line in trail if "tools_selected" in line] == ["0 of 1"]
    assert home.ok("why", "stop_unit", "--run", "last").startswith("stop_unit was out, but called")


def test_a_call_without_a_model_can_be_explained(home: CommandLine) -> None:
    home("call", "stop_unit", "unit=nginx", "--approve", "run")
    shown = home.ok("why", "stop_unit", "--run", "last")
    assert "it was called directly; nothing was selected or sent" in shown
    assert f"effect of a call: {EFFECT}" in shown
    assert "selected no tools" in home.refused("why", "start_unit", "--run", "last")


def test_a_question_names_the_effects_and_the_reason_of_the_source(home: CommandLine) -> None:
    with ScriptedUpstream([call("stop_unit", {"unit": "nginx"})]) as upstream:
        home("run", "go", "--upstream", upstream.base_url, "--model", "gpt-test")
    [approval] = home.json("approvals", "list")["approvals"]
    assert approval["effects"] == [EFFECT]
    shown = home.ok("approvals", "show", approval["id"])
    assert "it is in use" in shown
    assert f"effect: {EFFECT}" in shown


@pytest.mark.parametrize(
    ("effect", "role", "outcome"),
    [("systemd.stop sshd.service", "admin", "deny"), (EFFECT, "guest", "ask"), (EFFECT, "admin", "allow")],
)
def test_the_policy_is_explained_for_an_effect(home: CommandLine, effect: str, role: str, outcome: str) -> None:
    words = ("policy", "explain", "ann", "stop_unit", "--role", role, "--effect", effect)
    assert home.json(*words)["outcome"] == outcome


def test_a_case_of_the_policy_names_effects(home: CommandLine) -> None:
    case = '[[case]]\ntool = "stop_unit"\neffects = ["systemd.stop sshd.service"]\nexpect = "{}"\n'
    (home.home / "right.toml").write_text(case.format("deny"))
    (home.home / "wrong.toml").write_text(case.format("allow"))
    home.ok("policy", "test", "right.toml")
    assert home("policy", "test", "wrong.toml").exit_code == 1


def test_other_rules_are_tried_on_recorded_effects(home: CommandLine) -> None:
    with ScriptedUpstream([call("stop_unit", {"unit": "nginx"}), say("Done.")]) as upstream:
        home.ok("run", "go", "--upstream", upstream.base_url, "--model", "gpt-test", "--approve", "run")
    (home.home / "stricter.cedar").write_text(
        'forbid (principal, action == Action::"call", resource) when { context.effects.contains("systemd.stop") };'
    )
    result = home("policy", "try", "stricter.cedar", "--json")
    assert result.exit_code == 1
    assert '"outcome":"deny"' in result.stdout.replace(" ", "")


def test_rules_about_effects_fit_the_schema(home: CommandLine) -> None:
    (home.home / "policy.cedar").write_text(
        'forbid (principal, action == Action::"call", resource) when { context.effects.contains(1) };'
    )
    (home.home / "toolcaddie.toml").write_text(SETTINGS.replace("[policy]\n", '[policy]\nfiles = ["policy.cedar"]\n'))
    result = home("policy", "check")
    assert result.exit_code == 1
    assert "policy.cedar:1: " in result.stdout
    (home.home / "policy.cedar").write_text(
        'forbid (principal, action == Action::"call", resource) when { context.effects.contains("lvm.remove") };'
    )
    assert home.json("policy", "check")["problems"] == []
