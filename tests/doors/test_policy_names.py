"""Names in the table `[policy]` that nothing has: they protect nothing, so check, start and the settings tell of them."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.databases import home_environment, home_url, sqlite_only
from tests.doors.commandline import CommandLine
from toolcaddie.app.build import assembled
from toolcaddie.app.settings import load_settings
from toolcaddie.core.control import Principal
from toolcaddie.storage.database import Database

MODULE = '''
from toolcaddie import tool

@tool(category="payroll", roles=["guest", "Boss"], scope="desk")
def show_pay() -> str:
    """Show the pay."""
    return "all of it"
'''
FAULTS = [
    ('deny = ["SHOW_PAY"]', "policy.deny: no tool is called 'SHOW_PAY'; did you mean 'show_pay'?"),
    ('ask = ["nope_*"]', "policy.ask: no tool is called 'nope_*'"),
    ('never_ask = ["show_pays"]', "policy.never_ask: no tool is called 'show_pays'; did you mean 'show_pay'?"),
    ('categories = ["payrol"]', "policy.categories: there is no category 'payrol'; did you mean 'payroll'?"),
    (
        '[policy.roles.guest]\ndeny = ["show_pax"]',
        "policy.roles.guest.deny: no tool is called 'show_pax'; did you mean 'show_pay'?",
    ),
    (
        '[policy.channels.mcp]\ncategories = ["x"]',
        "policy.channels.mcp.categories: there is no category 'x'",
    ),
    (
        '[policy.roles.Guest]\ndeny = ["*"]',
        "policy.roles.Guest: the role of callers is 'guest', not 'Guest'; upper and lower case differ",
    ),
    (
        '[policy.roles.STAFF]\ndeny = ["*"]',
        "policy.roles.STAFF: the role of callers is 'staff', not 'STAFF'; upper and lower case differ",
    ),
    (
        'approvers = ["role:boss"]',
        "policy.approvers: the role of callers is 'Boss', not 'boss'; upper and lower case differ",
    ),
    (
        '[policy.bots.Desk]\ndeny = ["*"]',
        "policy.bots.Desk: the bot of callers is 'desk', not 'Desk'; upper and lower case differ",
    ),
    (
        '[policy.bots.shpo]\ndeny = ["*"]\n[bots.shop]\n',
        "policy.bots.shpo: there is no bot 'shpo'; did you mean 'shop'?",
    ),
    (
        '[policy.channels.mpc]\ndeny = ["*"]',
        "policy.channels.mpc: no request comes by the channel 'mpc'; did you mean 'mcp'?",
    ),
    (
        'approvers = ["Staff"]',
        "policy.approvers: 'Staff' is the id of a person; for the role, write 'role:staff'",
    ),
    (
        'approvers = ["manager"]\n[policy.roles.managers]',
        "policy.approvers: 'manager' is the id of a person; for the role, write 'role:managers'",
    ),
    (
        'files = ["rules.cedar"]\napprovers = ["auditor"]',
        "policy.approvers: 'auditor' is the id of a person; for the role, write 'role:auditor'",
    ),
]
FINE = (
    'deny = ["show_*", "*"]\nask = ["show_pay"]\ncategories = ["payroll"]\napprovers = ["role:Boss", "ann"]\n'
    "[policy.roles.guest]\n[policy.roles.other]\n[policy.bots.desk]\n[policy.bots.elsewhere]\n"
)


@pytest.fixture
def home(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A folder with a tool, and a database with a key of the role `staff`."""

    async def key() -> None:
        async with Database(home_url(Path.cwd())) as database:
            await database.keys.add("ann", Principal(id="ann", role="staff"))

    (toolcaddie.home / "paying.py").write_text(MODULE)
    (toolcaddie.home / "rules.cedar").write_text('permit (principal in Role::"auditor", action, resource);')
    monkeypatch.syspath_prepend(str(toolcaddie.home))
    asyncio.run(key())
    return toolcaddie


def write(home: CommandLine, policy: str) -> Path:
    path = home.home / "toolcaddie.toml"
    path.write_text(f'catalogs = ["python:paying"]\n[policy]\n{policy}\n')
    return path


async def _warned(path: Path) -> list[str]:
    """Starts the parts of the settings, and returns the warnings about names."""
    with capture_logs() as lines:
        async with assembled(load_settings(path, environ={**os.environ, **home_environment(path.parent)})):
            pass
    return [line["problem"] for line in lines if line["event"] == "setting_names_nothing"]


@pytest.mark.parametrize(("policy", "problem"), FAULTS, ids=[policy for policy, _ in FAULTS])
def test_a_name_that_nothing_has_is_a_problem_of_check_and_one_warning_at_start(
    home: CommandLine, policy: str, problem: str
) -> None:
    path = write(home, policy)
    result = home("policy", "check", "--json")
    assert (result.exit_code, json.loads(result.stdout)["problems"]) == (1, [problem])
    assert asyncio.run(_warned(path)) == [problem]


def test_names_that_something_has_and_roles_that_may_exist_are_no_problem(home: CommandLine) -> None:
    path = write(home, FINE)
    assert home.json("policy", "check")["problems"] == []
    assert asyncio.run(_warned(path)) == []


def test_a_tool_of_a_category_that_is_not_enabled_has_its_name_nevertheless(home: CommandLine) -> None:
    path = write(home, 'deny = ["show_pay"]')
    path.write_text(path.read_text() + "[catalog]\ncategories = []\n")
    assert home.json("policy", "check")["problems"] == []


@pytest.mark.parametrize("argument", ["größe", "a b", 'quote"', "back\\slash", "line\u2028", "\U0001f600"])
def test_whatever_arguments_of_the_catalog_are_called_the_rules_are_checked(
    toolcaddie: CommandLine, argument: str
) -> None:
    schema = {"type": "object", "properties": {argument: {"type": "string"}}}
    row = {"name": "measure", "description": "Measures.", "parameters": schema}
    (toolcaddie.home / "tools.jsonl").write_text(json.dumps(row) + "\n")
    (toolcaddie.home / "toolcaddie.toml").write_text("")
    assert toolcaddie.json("policy", "check", "--catalog", "tools.jsonl")["problems"] == []


@sqlite_only("a file is made by whoever opens it")
def test_check_makes_no_database_to_look_for_keys(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text("")
    before = sorted(toolcaddie.home.rglob("*"))
    assert toolcaddie.json("policy", "check", "--catalog", "gym")["problems"] == []
    assert sorted(toolcaddie.home.rglob("*")) == before


@pytest.mark.parametrize(
    ("policy", "place"),
    [
        ('deny = ["show_pay "]', "toolcaddie.toml:3: policy.deny.0: "),
        ('never_ask = ["x", " show_pay"]', "toolcaddie.toml:3: policy.never_ask.1: "),
        ('deny = ["*"]\n[policy.roles.guest]\nask = ["show_pay\\t"]', "toolcaddie.toml:5: policy.roles.guest.ask.0: "),
        ('categories = ["payroll "]', "toolcaddie.toml:3: policy.categories.0: "),
    ],
    ids=["behind", "before", "of a role", "category"],
)
def test_blanks_around_a_name_are_a_mistake_with_its_line(home: CommandLine, policy: str, place: str) -> None:
    write(home, policy)
    refusal = home.refused("policy", "check")
    assert place in refusal
    assert "without blanks around it" in refusal
