"""`toolcaddie policy`: checks the rules of the settings, shows them, explains decisions, and tests cases of a file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
from msgspec import Struct

from toolcaddie.app.runtimes import catalog_of, host_parts, policy_of
from toolcaddie.app.settings import Settings
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.control.policy.cedar.schema import problems_of, schema_of
from toolcaddie.control.visibility import may_use
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.tool import Tool
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import FAILED
from toolcaddie.doors.cli.options import catalog_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.tools import name_advice
from toolcaddie.registry import Registry

Outcome = Literal["allow", "ask", "deny", "hidden"]


class Explanation(Struct, frozen=True, kw_only=True):
    """What the policy says of a call: `hidden` if the caller does not even see the tool."""

    outcome: Outcome
    rules: Sequence[str]
    reason: str


class Case(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table `[[case]]` of a file of `policy test`."""

    tool: str
    expect: Outcome
    principal: str = "local"
    role: str | None = None
    bot: str | None = None
    tenant: str = "default"
    channel: str | None = None
    arguments: Mapping[str, Any] = {}
    taint: tuple[str, ...] = ()

    @property
    def caller(self) -> Principal:
        return Principal(id=self.principal, role=self.role, bot=self.bot, tenant=self.tenant, channel=self.channel)


class Cases(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of `policy test`."""

    case: tuple[Case, ...]


@click.group(
    name="policy",
    epilog="\b\nExamples:\n"
    "  toolcaddie policy check --catalog gym\n"
    "  toolcaddie policy show\n"
    "  toolcaddie policy explain ann delete_client '{\"client_id\": 7}' --role staff\n"
    "  toolcaddie policy test cases.toml --catalog gym",
)
def command() -> None:
    """Check the rules of the policy, and explain its decisions."""


@command.command("check", epilog="\b\nExamples:\n  toolcaddie policy check --catalog gym")
@catalog_option
@json_option
@click.pass_obj
def check(common: Common, catalogs: tuple[str, ...], as_json: bool) -> None:
    """Read the rules, and validate them against the tools of the catalog.

    A rule that names an attribute or an argument that does not exist, or compares values of different types, is reported. The
    exit code is 1 if there is such a rule.
    """
    settings = settings_of(common, catalogs=catalogs)
    policy, catalog = _policy(settings), catalog_of(settings)
    problems = problems_of(policy.rules, catalog.tools)
    if as_json:
        print_json({"rules": len(policy.rules), "version": policy.version, "problems": problems})
    else:
        for problem in problems:
            echo(problem)
        note(f"{len(policy.rules)} rules, {len(catalog)} tools, {len(problems)} problems; version {policy.version}")
    if problems:
        raise click.exceptions.Exit(FAILED)


@command.command(
    "show", epilog="\b\nExamples:\n  toolcaddie policy show\n  toolcaddie policy show --schema --catalog gym"
)
@click.option("--schema", is_flag=True, help="Print what rules may look at instead, as a Cedar schema of the catalog.")
@catalog_option
@json_option
@click.pass_obj
def show(common: Common, schema: bool, catalogs: tuple[str, ...], as_json: bool) -> None:
    """Print all rules in Cedar, with their places, also those made of short forms."""
    settings = settings_of(common, catalogs=catalogs)
    if schema:
        echo(schema_of(catalog_of(settings).tools))
        return
    rules = _policy(settings).rules
    if as_json:
        print_json({"rules": [{"id": rule.id, "place": rule.place, "text": rule.text} for rule in rules]})
        return
    for rule in rules:
        echo(f"// {rule.place}\n{rule.text}\n")


@command.command(
    "explain",
    epilog="\b\nExamples:\n"
    "  toolcaddie policy explain ann delete_client '{\"client_id\": 7}' --role staff\n"
    "  toolcaddie policy explain ann send_mail --taint web_fetch",
)
@click.argument("principal")
@click.argument("tool")
@click.argument("arguments", default="{}")
@click.option("--role", help="Role of the caller.")
@click.option("--bot", help="Bot of the caller.")
@click.option("--tenant", default="default", show_default=True, help="Tenant of the caller.")
@click.option("--channel", help="Channel of the request, such as gateway or mcp.")
@click.option(
    "--taint", multiple=True, metavar="TOOL", help="A tool with untrusted results that was read. Can be repeated."
)
@catalog_option
@json_option
@click.pass_obj
def explain(
    common: Common, /, principal: str, tool: str, arguments: str, taint: tuple[str, ...], as_json: bool, **caller: Any
) -> None:
    """Tell what happens if PRINCIPAL calls TOOL with ARGUMENTS (a JSON object), and which rules decide it."""
    settings = settings_of(common, catalogs=caller.pop("catalogs"))
    who = Principal(id=principal, **caller)
    values = _arguments(arguments)
    explanation = _explained(_policy(settings), _tool(catalog_of(settings), tool), who, values, taint)
    if as_json:
        print_json(explanation)
        return
    echo(f"{explanation.outcome}: {', '.join(explanation.rules)}")
    if explanation.reason:
        echo(explanation.reason)


@command.command("test", epilog="\b\nExamples:\n  toolcaddie policy test cases.toml --catalog gym")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@catalog_option
@json_option
@click.pass_obj
def test(common: Common, file: Path, catalogs: tuple[str, ...], as_json: bool) -> None:
    """Compare the decisions of the policy with the cases in FILE. The exit code is 1 if one differs.

    \b
    [[case]]
    principal = "ann"
    role = "guest"
    tool = "delete_client"
    arguments = { client_id = 7 }
    expect = "hidden"             # or allow, ask, deny
    """
    settings = settings_of(common, catalogs=catalogs)
    policy, catalog = _policy(settings), catalog_of(settings)
    outcomes = [
        (case, _explained(policy, _tool(catalog, case.tool), case.caller, case.arguments, case.taint))
        for case in _cases(file)
    ]
    different = [(case, outcome) for case, outcome in outcomes if outcome.outcome != case.expect]
    if as_json:
        found = [{"case": case, "outcome": outcome} for case, outcome in outcomes]
        print_json({"cases": found, "different": len(different)})
    else:
        if different:
            rows = [
                (case.principal, case.role or "", case.tool, case.expect, outcome.outcome, ", ".join(outcome.rules))
                for case, outcome in different
            ]
            print_table(("principal", "role", "tool", "expected", "decided", "rules"), rows)
        note(f"{len(outcomes) - len(different)} of {len(outcomes)} cases as expected")
    if different:
        raise click.exceptions.Exit(FAILED)


def _policy(settings: Settings) -> CedarPolicy:
    """Returns the policy of the settings. Raises `ConfigError` for one that is not in Cedar."""
    policy = policy_of(settings, Registry(), host_parts(settings))
    if isinstance(policy, CedarPolicy):
        return policy
    kind = "" if settings.policy is None else settings.policy.type
    raise ConfigError(f"policy.type is {kind!r}; this command reads rules of the type 'cedar'")


def _tool(catalog: Catalog, name: str) -> Tool:
    tool = catalog.get(name)
    if tool is None:
        raise RequestError(f"no tool {name!r}; {name_advice(name, [other.name for other in catalog])}", param="tool")
    return tool


def _explained(
    policy: CedarPolicy, tool: Tool, principal: Principal, arguments: Mapping[str, Any], taint: Sequence[str]
) -> Explanation:
    if not may_use(tool, principal):
        return Explanation(outcome="hidden", rules=[], reason="the tool's own roles or scope exclude this caller")
    visible, rules = policy.sees(principal, tool)
    if not visible:
        reason = (
            "; ".join(rule.reason for rule in rules if rule.reason) or "no rule permits it, or one cannot be evaluated"
        )
        return Explanation(outcome="hidden", rules=[rule.id for rule in rules], reason=reason)
    decision = policy.decision(principal, tool, arguments, taint=taint)
    return Explanation(outcome=decision.verdict, rules=decision.rule.split(", "), reason=decision.reason)


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"write a JSON object: {error}", param_hint="ARGUMENTS") from error


def _cases(file: Path) -> Sequence[Case]:
    try:
        return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Cases).case
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(
            f"{file}: {error}; each case is a table [[case]] with tool, expect, and the caller"
        ) from error
