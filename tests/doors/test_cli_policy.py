"""`toolcaddie policy`: rules are checked against the catalog, shown and explained, and cases are compared."""

from __future__ import annotations

import pytest

from tests.doors.commandline import CommandLine

SETTINGS = """
catalogs = ["gym"]
[policy]
deny = ["update_*"]
files = ["policy.cedar"]
[policy.roles.guest]
categories = ["plans"]
"""
RULES = """
@id("bulk")
@reason("more than 100 days")
forbid (principal, action == Action::"call_unasked", resource == Tool::"freeze_membership")
when { context.arguments has days && context.arguments.days > 100 };
"""
CALL = 'forbid (principal, action == Action::"call", resource) when'


@pytest.fixture
def home(toolcaddie: CommandLine) -> CommandLine:
    (toolcaddie.home / "toolcaddie.toml").write_text(SETTINGS)
    (toolcaddie.home / "policy.cedar").write_text(RULES)
    return toolcaddie


def test_rules_that_fit_the_catalog_have_no_problems(home: CommandLine) -> None:
    assert home.json("policy", "check")["problems"] == []


@pytest.mark.parametrize(
    "rule",
    [
        "forbid (principal, action, resource) when { resource.may_destory };",
        'forbid (principal, action == Action::"calls", resource);',
        f'{CALL} {{ context.arguments has days && context.arguments.days == "x" }};',
        f"{CALL} {{ context.arguments.no_such_argument == 1 }};",
        "forbid (principal, action, resource) when { context.arguments has days };",
    ],
    ids=["attribute", "action", "type", "argument", "see has no arguments"],
)
def test_a_rule_that_cannot_work_is_named_with_its_line(home: CommandLine, rule: str) -> None:
    (home.home / "policy.cedar").write_text(f"{RULES}\n{rule}\n")
    result = home("policy", "check")
    assert result.exit_code == 1
    assert "policy.cedar:7: " in result.stdout


def test_rules_are_shown_with_their_places(home: CommandLine) -> None:
    shown = home.ok("policy", "show")
    assert '// [policy]:1\n@id("denied: everyone")' in shown
    assert '@id("ask-before-destroying")' in shown
    assert "entity Tool" in home.ok("policy", "show", "--schema")


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (("ann", "get_clients_list"), "allow"),
        (("ann", "delete_client", '{"client_id": 7}'), "ask"),
        (("ann", "freeze_membership", '{"days": 101}'), "ask"),
        (("ann", "freeze_membership", '{"days": 99}'), "allow"),
        (("gus", "delete_client", "--role", "guest"), "hidden"),
    ],
    ids=["reads", "destroys", "large", "small", "hidden"],
)
def test_a_decision_is_explained(home: CommandLine, words: tuple[str, ...], outcome: str) -> None:
    assert home.json("policy", "explain", *words)["outcome"] == outcome


BOTS = """
default_bot = "front"
catalogs = ["gym"]
[bots.front]
disabled_tools = ["delete_client"]
[bots.plans]
categories = ["plans"]
[bots.back]
"""


@pytest.mark.parametrize(
    ("words", "outcome", "rule"),
    [
        ((), "hidden", "bots.front.disabled_tools"),
        (("--bot", "plans"), "hidden", "bots.plans.categories"),
        (("--bot", "back"), "ask", "ask-before-destroying"),
    ],
    ids=["of the default bot", "by category", "of another bot"],
)
def test_a_decision_follows_the_settings_of_the_bots_as_in_a_run(
    toolcaddie: CommandLine, words: tuple[str, ...], outcome: str, rule: str
) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text(BOTS)
    explanation = toolcaddie.json("policy", "explain", "ann", "delete_client", '{"client_id": 7}', *words)
    assert (explanation["outcome"], explanation["rules"]) == (outcome, [rule])

    bot = f'bot = "{words[1]}"' if words else ""
    cases = toolcaddie.home / "cases.toml"
    cases.write_text(f'[[case]]\n{bot}\ntool = "delete_client"\nexpect = "{outcome}"\n')
    assert toolcaddie.json("policy", "test", cases)["different"] == 0


def test_a_bot_that_does_not_exist_is_named(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text(BOTS)
    assert "there is no bot 'bakc'; did you mean 'back'?" in toolcaddie.refused(
        "policy", "explain", "ann", "delete_client", "--bot", "bakc"
    )


def test_the_cases_of_a_file_are_compared(home: CommandLine) -> None:
    cases = home.home / "cases.toml"
    cases.write_text('[[case]]\nprincipal = "ann"\ntool = "delete_client"\nexpect = "ask"\n')
    assert home.json("policy", "test", cases)["different"] == 0
    cases.write_text('[[case]]\nprincipal = "ann"\ntool = "delete_client"\nexpect = "allow"\n')
    result = home("policy", "test", cases)
    assert result.exit_code == 1
    assert "ask-before-destroying" in result.stdout
    cases.write_text('[[case]]\ntool = "delete_client"\nexpected = "allow"\n')
    assert "cases.toml" in home.refused("policy", "test", cases)
