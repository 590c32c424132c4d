"""`toolcaddie policy try`: recorded calls are judged by other rules, and nothing is changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.databases import home_url
from tests.doors.commandline import CommandLine
from toolcaddie.audit.trail import Trail
from toolcaddie.core.control import Principal
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, say

MODULE = '''
from toolcaddie import tool

@tool
def pay(amount: int, note: str = "") -> str:
    """Pay an amount."""
    return f"paid {amount}"
'''


@tool
def pay(amount: int, note: str = "") -> str:
    """Pay an amount."""
    return f"paid {amount}"


@tool
def gone(amount: int) -> str:
    """Do what no catalog has any more."""
    return "done"


async def _recorded(*calls: tuple[str, str, dict[str, object]]) -> None:
    """Records a run for each call: its caller, its tool and its arguments."""
    async with Database(home_url(Path.cwd())) as database:
        script = [reply for _, name, arguments in calls for reply in (call(name, arguments), say("done"))]
        runtime = Runtime(provider=ScriptedProvider(script), sources=[pay, gone], trail=Trail(database.events))
        for person, _, _ in calls:
            await runtime.run("pay", principal=Principal(id=person, role="staff", bot="front", channel="desk"))


@pytest.fixture
def recorded(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    (toolcaddie.home / "payments.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(toolcaddie.home))
    (toolcaddie.home / "toolcaddie.toml").write_text('catalogs = ["python:payments"]\n')
    asyncio.run(
        _recorded(("ann", "pay", {"amount": 5_000}), ("bob", "pay", {"amount": 5}), ("ann", "gone", {"amount": 1}))
    )
    return toolcaddie


LARGE = '@id("large") forbid (principal, action == Action::"call_unasked", resource) when { context.arguments.amount > 1000 };'


def test_the_calls_that_other_rules_decide_otherwise_are_shown(recorded: CommandLine) -> None:
    (recorded.home / "stricter.cedar").write_text(LARGE)
    result = recorded("policy", "try", "stricter.cedar")
    assert result.exit_code == 1
    assert "ann" in result.stdout
    assert "bob" not in result.stdout
    assert "1 of 2 recorded calls would be decided otherwise" in result.stderr
    assert "not judged, because the catalog lacks their tools: 1 (gone)" in result.stderr
    found = recorded("policy", "try", "stricter.cedar", "--json").stdout
    assert '"recorded": "allow"' in found
    assert '"outcome": "ask"' in found
    assert '"large"' in found


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        ('principal in Channel::"desk"', '"outcome": "deny"'),
        ('principal in Role::"staff" && principal.id == "bob"', '"principal": "bob"'),
    ],
)
def test_callers_are_as_they_were_recorded(recorded: CommandLine, condition: str, outcome: str) -> None:
    rule = f'forbid (principal, action == Action::"call", resource) when {{ {condition} }};'
    (recorded.home / "stricter.cedar").write_text(rule)
    assert outcome in recorded("policy", "try", "stricter.cedar", "--json").stdout


def test_a_misspelt_name_in_tried_rules_is_told_although_it_changes_no_decision(recorded: CommandLine) -> None:
    (recorded.home / "stricter.cedar").write_text(
        'forbid (principal, action == Action::"call", resource == Tool::"pya");'
    )
    result = recorded("policy", "try", "stricter.cedar")
    assert "stricter.cedar:1: Tool::\"pya\": there is no tool 'pya'; did you mean 'pay'?" in result.stderr
    assert "0 of 2 recorded calls" in result.stderr


def test_the_same_rules_decide_alike(recorded: CommandLine) -> None:
    (recorded.home / "empty.cedar").write_text("")
    assert "0 of 2 recorded calls" in recorded("policy", "try", "empty.cedar").stderr
    assert recorded("policy", "try", "empty.cedar").exit_code == 0


def test_another_settings_file_is_tried_with_its_policy(recorded: CommandLine) -> None:
    (recorded.home / "other.toml").write_text('[policy]\ndeny = ["pay"]\n')
    found = recorded("policy", "try", "other.toml", "--runs", "2", "--json")
    assert found.stdout.count('"outcome": "hidden"') == 1


def test_a_call_whose_record_was_cut_is_counted(toolcaddie: CommandLine, recorded: CommandLine) -> None:
    asyncio.run(_recorded(("eve", "pay", {"amount": 1, "note": "x" * 5_000})))
    (recorded.home / "empty.cedar").write_text("")
    assert "does not have them whole: 1" in recorded("policy", "try", "empty.cedar").stderr


def test_rules_that_cannot_be_read_are_named(recorded: CommandLine, tmp_path: Path) -> None:
    (recorded.home / "broken.cedar").write_text("forbid everything;")
    assert "broken.cedar:1: this is no Cedar policy" in recorded.refused("policy", "try", "broken.cedar")


def test_recorded_calls_are_judged_by_the_settings_of_their_bots_too(recorded: CommandLine) -> None:
    (recorded.home / "same.cedar").write_text("")
    settings = recorded.home / "toolcaddie.toml"
    assert recorded.json("policy", "try", recorded.home / "same.cedar")["differences"] == []
    settings.write_text(f'{settings.read_text()}[bots.front]\ndisabled_tools = ["pay"]\n')
    result = recorded("policy", "try", recorded.home / "same.cedar")
    assert result.exit_code == 1
    assert result.stdout.count("bots.front.disabled_tools") == 2
