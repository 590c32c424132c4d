"""`toolcaddie authored run`: runs a tool once in the sandbox, also before it is approved."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from toolcaddie.core.tool import ToolResult
from toolcaddie.doors.cli.authored.desk import Desk, asked, key_argument, tenant_option
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import CommandFailed
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, print_json
from toolcaddie.doors.cli.root import Common


@click.command(
    "run",
    epilog="\b\nExamples:\n"
    """  toolcaddie authored run count_words '{"text": "one two"}'\n"""
    """  toolcaddie authored run count_words '{"text": "one two"}' --digest 3f2a9c...""",
)
@key_argument
@click.argument("arguments", default="{}")
@click.option("--digest", default="", help="Run it only if this is still its digest, as `show` prints it.")
@tenant_option
@database_option
@json_option
@click.pass_obj
def run(
    common: Common, key: str, arguments: str, digest: str, tenant: str, database_url: str | None, as_json: bool
) -> None:
    """Run the tool KEY once, and approve nothing.

    ARGUMENTS is a JSON object. The tool runs in the sandbox of the settings. A tool that is not approved is
    refused in a sandbox that contains nothing.
    """
    values = _object(arguments)
    settings = settings_of(common, database_url=database_url)

    async def tried(desk: Desk) -> ToolResult:
        return await desk.reviews.dry_run(desk.person, key, values, digest=digest)

    result = asked(settings, tenant, tried)
    if as_json:
        print_json({"success": result.success, "content": result.text, "structured": result.structured})
    elif result.success:
        echo(result.text)
    if not result.success:
        raise CommandFailed(f"the tool failed: {result.text}")


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise click.UsageError(
            f'ARGUMENTS must be a JSON object, such as \'{{"text": "one two"}}\': {error}'
        ) from error
