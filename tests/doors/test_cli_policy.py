"""`toolcaddie policy`: rules are checked against the catalog, shown and explained, and cases are compared."""

from __future__ import annotations

import json
from pathlib import Path

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
PAGE = Path(__file__).parents[2] / "docs/policy.md"
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


FAULTY = """
@id("large-salaries")
@reason("an amount of more than 1000 needs an approval")
forbid (principal, action == Action::"call_unasked", resource == Tool::"create_salry")
when { context.arguments.amount > 1000 };

forbid (principal in Channel::"mpc", action, resource in Source::"gim");
forbid (principal in Role::"manager", action == Action::"cal", resource)
when { resource in [Category::"salaries", Category::"staff"] };
"""


def test_mistakes_and_names_of_rules_are_in_order_with_their_lines_and_what_to_do(home: CommandLine) -> None:
    (home.home / "policy.cedar").write_text(FAULTY)
    assert json.loads(home("policy", "check", "--json").stdout)["problems"] == [
        "policy.cedar:5: unable to guarantee safety of access to optional attribute `arguments.amount` in context for "
        'Action::"call_unasked"; not every call has it: write `context.arguments has amount && ...` before it',
        "policy.cedar:5: unexpected type: expected Long but saw decimal; a parameter of the type `number` is compared by "
        '`.greaterThan(decimal("9.99"))`',
        "policy.cedar:8: unable to find an applicable action given the policy scope constraints",
        'policy.cedar:8: unrecognized action `Action::"cal"`; there are see, call, call_unasked and approve',
        "policy.cedar:4: Tool::\"create_salry\": there is no tool 'create_salry'; did you mean 'create_salary', 'create_survey', "
        "'create_goal'?",
        "policy.cedar:7: Channel::\"mpc\": no request comes by the channel 'mpc'; did you mean 'mcp'?",
        "policy.cedar:7: Source::\"gim\": there is no source 'gim'; did you mean 'gym'?",
        "policy.cedar:9: Category::\"salaries\": there is no category 'salaries'; did you mean 'salary'?",
    ]


def test_the_rules_of_the_page_fit_the_catalog_that_it_names(home: CommandLine) -> None:
    [_, rules] = PAGE.read_text().split("`policy.cedar` for the sample `gym`:\n\n```text\n")
    (home.home / "policy.cedar").write_text(rules.partition("```")[0])
    assert home.json("policy", "check")["problems"] == []
    assert home.json("policy", "explain", "ann", "get_salaries_list", "--role", "guest")["outcome"] == "hidden"
    assert home.json("policy", "explain", "ann", "freeze_membership", '{"days": 91}')["outcome"] == "ask"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("", "delete_client"), "name the caller"),
        (("ann", "delete_client", "--channel", "mpc"), "no request comes by the channel 'mpc'; did you mean 'mcp'?"),
    ],
    ids=["no caller", "channel"],
)
def test_a_caller_that_cannot_be_is_not_explained(home: CommandLine, words: tuple[str, ...], told: str) -> None:
    assert told in home.refused("policy", "explain", *words)


def test_a_tool_that_was_read_and_is_not_in_the_catalog_is_taken_for_one_of_a_client(home: CommandLine) -> None:
    told = home("policy", "explain", "ann", "create_client", "--taint", "get_client")
    assert told.exit_code == 0
    assert (
        "the catalog has no tool 'get_client', so it is taken for one that a client runs; did you mean" in told.stderr
    )


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


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('tool = "delete_clint"', "no tool 'delete_clint'; did you mean delete_client"),
        ('tool = "delete_client"\nchannel = "mpc"', "no request comes by the channel 'mpc'; did you mean 'mcp'?"),
    ],
    ids=["tool", "channel"],
)
def test_a_misspelt_name_of_a_case_is_told_with_its_file_and_number(home: CommandLine, line: str, told: str) -> None:
    cases = home.home / "cases.toml"
    cases.write_text(f'[[case]]\ntool = "delete_client"\nexpect = "ask"\n[[case]]\n{line}\nexpect = "ask"\n')
    assert f"cases.toml: case 2: {told}" in home.refused("policy", "test", cases)
