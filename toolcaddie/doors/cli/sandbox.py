"""`toolcaddie sandbox`: shows whether this machine holds the sandbox of the settings, and runs a command in it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from toolcaddie.app.sandboxes import SandboxOnDemand
from toolcaddie.core.errors import ConfigError, SandboxError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import FAILED
from toolcaddie.doors.cli.options import settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.guards.net import Host
from toolcaddie.ports import Command, Egress, Outcome, Sandbox, SandboxFact

T = TypeVar("T")

_TIMED_OUT = 124


@click.group(
    name="sandbox",
    epilog="\b\nExamples:\n  toolcaddie sandbox check\n  toolcaddie sandbox run -- ls -la /",
)
def command() -> None:
    """Show whether this machine holds the sandbox, and run a command in it."""


@command.command("check", epilog="\b\nExample:\n  toolcaddie sandbox check --json")
@json_option
@click.pass_obj
def check(common: Common, as_json: bool) -> None:
    """Try to get out of the sandbox.

    It shows what holds of the sandbox of the settings. Programs that try to leave are run in it, and this machine
    is looked at. The exit code is 1 if one thing does not hold; the sandbox `plain` never holds.
    """
    facts = _facts(common)
    if as_json:
        print_json({"holds": _all_hold(facts), "facts": facts})
    else:
        rows = [(fact.name, "holds" if fact.holds else "FAILS", fact.detail) for fact in facts]
        print_table(("what", "", "detail"), rows)
        for fact in facts:
            if fact.remedy:
                note(f"{fact.name}: {fact.remedy}")
    if not _all_hold(facts):
        raise click.exceptions.Exit(FAILED)


def _hosts(_context: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the hosts of the option. Raises `BadParameter` for a text that is no name of a host."""
    for name in names:
        try:
            msgspec.convert(name, Host)
        except msgspec.ValidationError as error:
            raise click.BadParameter(
                f"{name!r} is not the name of a host; write it like pypi.org, without https://, port or path"
            ) from error
    return names


@command.command(
    "run",
    context_settings={"ignore_unknown_options": True},
    epilog="\b\nExamples:\n"
    "  toolcaddie sandbox run -- ls -la /\n"
    "  toolcaddie sandbox run --work . -- python3 script.py\n"
    "  toolcaddie sandbox run --host pypi.org -- curl -sI https://pypi.org/",
)
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--work",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder in which the command may read and write. [default: an empty one]",
)
@click.option("--read-only", is_flag=True, help="The command may only read in its folder.")
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), default=30.0, show_default=True, help="Time limit."
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    callback=_hosts,
    help="Host that it may reach over http(s), such as *.example.com; repeatable.",
)
@json_option
@click.pass_obj
def run(
    common: Common,
    argv: tuple[str, ...],
    work: Path | None,
    read_only: bool,
    seconds: float,
    hosts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a program in the sandbox of the settings.

    ARGV is the program with its arguments. The exit code is that of the program, or 124 if its time was up. Two
    hyphens separate the program from the options.
    """
    tried = Command(
        argv=argv,
        work=work,
        writable=not read_only,
        seconds=seconds,
        egress=Egress(hosts=hosts) if hosts else None,
    )
    outcome = _with_sandbox(common, lambda sandbox: _run(sandbox, tried))
    if as_json:
        print_json(_outcome_json(outcome))
    else:
        echo(outcome.stdout.decode(errors="replace"), nl=False)
        echo(outcome.stderr.decode(errors="replace"), nl=False, err=True)
        if outcome.ending != "exited":
            note(f"the command was ended: {outcome.ending}")
    raise click.exceptions.Exit(_code(outcome))


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Returns an outcome with its outputs as text."""
    outputs = {name: getattr(outcome, name).decode(errors="replace") for name in ("stdout", "stderr")}
    return {**dataclasses.asdict(outcome), **outputs}


def _run(sandbox: Sandbox, tried: Command) -> Awaitable[Outcome]:
    if not sandbox.holds:
        note(f"the sandbox {sandbox.name!r} protects nothing: the command has all permissions of this process")
    return sandbox.run(tried)


def _code(outcome: Outcome) -> int:
    if outcome.exit_code is not None:
        return outcome.exit_code
    return _TIMED_OUT if outcome.ending == "timeout" else FAILED


def _facts(common: Common) -> Sequence[SandboxFact]:
    """Returns the facts; a sandbox that cannot be made is one that does not hold."""
    try:
        return _with_sandbox(common, lambda sandbox: sandbox.facts())
    except (ConfigError, SandboxError) as error:
        return [SandboxFact(name="sandbox", holds=False, detail=str(error))]


def _all_hold(facts: Sequence[SandboxFact]) -> bool:
    return all(fact.holds for fact in facts)


def _with_sandbox(common: Common, use: Callable[[Sandbox], Awaitable[T]]) -> T:
    """Returns what `use` returns for the sandbox of the settings. Raises `ConfigError`, `SandboxError`."""
    on_demand = SandboxOnDemand(settings_of(common))

    async def used() -> T:
        try:
            return await use(on_demand())
        finally:
            await on_demand.close()

    return asyncio.run(used())
