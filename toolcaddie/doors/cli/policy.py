"""`toolcaddie policy`: checks the rules of the settings, shows them, explains decisions, and tests cases of a file."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from toolcaddie.app.runtimes import bots_of, catalog_of, whole_catalog_of
from toolcaddie.control.policy.cedar.explaining import Explanation, Outcome, explained
from toolcaddie.control.policy.cedar.schema import schema_of
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.tool import Tool
from toolcaddie.doors.cli import policy_try
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import FAILED
from toolcaddie.doors.cli.options import catalog_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.policy_try import problems_in
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.tools import name_advice
from toolcaddie.doors.policy_sheets import checked_caller, policy_in


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
    effects: tuple[str, ...] = ()

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
    "  toolcaddie policy test cases.toml --catalog gym\n"
    "  toolcaddie policy try stricter.cedar --catalog gym",
)
def command() -> None:
    """Check the rules of the policy, and explain its decisions."""


command.add_command(policy_try.command)


@command.command("check", epilog="\b\nExamples:\n  toolcaddie policy check --catalog gym")
@catalog_option
@json_option
@click.pass_obj
def check(common: Common, catalogs: tuple[str, ...], as_json: bool) -> None:
    """Read the rules, and validate them against the tools of the catalog.

    A rule that names an attribute or an argument that does not exist, or compares values of different types, is reported; so are
    names in the table [policy] and in rules that no tool, category, bot or channel has, and roles that differ from known ones
    only in case. The exit code is 1 if something is reported.
    """
    settings = settings_of(common, catalogs=catalogs)
    policy, catalog = policy_in(settings), whole_catalog_of(settings)
    problems = asyncio.run(problems_in(settings, policy, catalog))
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
    rules = policy_in(settings).rules
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
@click.option(
    "--effect",
    "effects",
    multiple=True,
    metavar="EFFECT",
    help="An effect of the call, such as 'systemd.stop nginx.service'. Can be repeated.",
)
@catalog_option
@json_option
@click.pass_obj
def explain(
    common: Common,
    /,
    principal: str,
    tool: str,
    arguments: str,
    taint: tuple[str, ...],
    effects: tuple[str, ...],
    as_json: bool,
    **caller: Any,
) -> None:
    """Tell what happens if PRINCIPAL calls TOOL with ARGUMENTS (a JSON object), and which rules decide it."""
    settings = settings_of(common, catalogs=caller.pop("catalogs"))
    if not principal.strip():
        raise click.BadParameter("name the caller, such as ann", param_hint="PRINCIPAL")
    bots, catalog = bots_of(settings), catalog_of(settings)
    who = bots.identified(checked_caller(Principal(id=principal, **caller)))
    values = _arguments(arguments)
    visibility = Visibility(bots)
    explanation = explained(policy_in(settings), visibility, _tool(catalog, tool), who, values, taint, effects)
    for name in taint:
        if catalog.get(name) is None:
            advice = name_advice(name, [other.name for other in catalog])
            note(f"the catalog has no tool {name!r}, so it is taken for one that a client runs; {advice}")
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
    policy, catalog, bots = policy_in(settings), catalog_of(settings), bots_of(settings)
    visibility = Visibility(bots)

    def outcome_of(number: int, case: Case) -> Explanation:
        try:
            caller, tool = bots.identified(checked_caller(case.caller)), _tool(catalog, case.tool)
        except RequestError as error:
            raise RequestError(f"{file}: case {number}: {error}", param=error.param) from error
        return explained(policy, visibility, tool, caller, case.arguments, case.taint, case.effects)

    outcomes = [(case, outcome_of(number, case)) for number, case in enumerate(_cases(file), 1)]
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


def _tool(catalog: Catalog, name: str) -> Tool:
    tool = catalog.get(name)
    if tool is None:
        raise RequestError(f"no tool {name!r}; {name_advice(name, [other.name for other in catalog])}", param="tool")
    return tool


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
