"""`toolcaddie call`: calls one tool without a model, with all checks of a run, and records the call in the trail."""

from __future__ import annotations

import asyncio
import shlex
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import click
import msgspec

from toolcaddie.app.build import assembled
from toolcaddie.app.settings import ApprovalAnswer, Settings
from toolcaddie.core.content import shown_text
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, RunNotFoundError
from toolcaddie.core.events import RunEvent
from toolcaddie.core.schema import argument_errors
from toolcaddie.core.tool import JsonObject, ToolResult
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import FAILED, CommandFailed
from toolcaddie.doors.cli.options import (
    approve_option,
    bot_option,
    box_option,
    catalog_option,
    catalog_words,
    database_option,
    settings_of,
)
from toolcaddie.doors.cli.output import json_option, note, print_json
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.run import RunWaits, waiting_printed
from toolcaddie.doors.cli.steps import Progress, interrupted_line
from toolcaddie.doors.cli.tools import name_advice
from toolcaddie.runtime import Runtime

_CALLER = Principal(channel="call")


@click.command(
    name="call",
    epilog="\b\nExamples:\n"
    "  toolcaddie call get_clients_list --catalog gym search=John\n"
    '  toolcaddie call get_clients_list --catalog gym --args \'{"search": "John"}\'',
)
@click.argument("tool")
@click.argument("pairs", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--args", "arguments", metavar="JSON", help="All arguments as one JSON object.")
@catalog_option
@box_option
@bot_option
@approve_option
@database_option
@json_option
@click.pass_obj
def command(
    common: Common,
    tool: str,
    pairs: tuple[str, ...],
    arguments: str | None,
    catalogs: tuple[str, ...],
    box: tuple[str, ...],
    bot: str | None,
    approve: ApprovalAnswer | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Call TOOL without a model, with all checks of a run.

    The call is recorded in the trail. A VALUE is read as the tool's schema says: numbers, booleans and lists as JSON, the
    rest as text.
    """
    settings = settings_of(common, catalogs=catalogs, box=box, bot=bot, approve=approve, database_url=database_url)
    with waiting_printed(as_json=as_json):
        result = asyncio.run(
            _call(settings, tool, _arguments(arguments), pairs, hint=_show_command(common, tool, catalogs, box))
        )
    if as_json:
        print_json(
            {
                "tool": tool,
                "success": result.success,
                "content": shown_text(result.content),
                "structured": result.structured,
                "error": result.error,
            }
        )
    elif result.is_error:
        raise CommandFailed(shown_text(result.content))
    else:
        echo(shown_text(result.content))
    if result.is_error:
        raise click.exceptions.Exit(FAILED)


async def _call(
    settings: Settings, name: str, base: Mapping[str, Any], pairs: Sequence[str], *, hint: str
) -> ToolResult:
    """Returns the result of the call. Raises `RequestError` for a wrong name or wrong arguments, and `RunWaits` if a person must
    approve the call first.

    The error is worded for a person, because the text of the result is written for a model and contains the whole schema. `base`:
    the arguments of `--args`. `pairs`: words `KEY=VALUE`, which override them. `hint`: the command that shows the
    schema.
    """
    async with assembled(settings, needs_catalog=True) as parts, parts.runtime.holding(_CALLER.tenant):
        visible = parts.runtime.desk(principal=_CALLER).view
        tool = visible.get(name)
        schema: JsonObject = {} if tool is None else tool.input_schema
        arguments = {**base, **_pairs(pairs, schema)}
        run_id = f"run_{uuid.uuid4().hex}"
        result = await _followed(parts.runtime, name, arguments, run_id)
        if result.error == "denied":
            with suppress(RunNotFoundError):  # refused, so nothing waits
                raise RunWaits(run_id, await parts.runtime.questions(run_id))
    match result.error:
        case "unknown_tool":
            raise RequestError(
                f"no tool {name!r}; {name_advice(name, [other.name for other in visible])}", param="tool"
            )
        case "invalid_arguments":
            wrong = "; ".join(argument_errors(schema, arguments)) or result.text
            raise RequestError(f"{wrong}; see `{hint}`", param="arguments")
        case _:
            return result


def _show_command(common: Common, name: str, catalogs: Sequence[str], box: Sequence[str]) -> str:
    """Returns the command that shows the schema of a tool, with the settings file and the catalogs of this command."""
    config = () if common.config is None else ("--config", str(common.config))
    return shlex.join(("toolcaddie", *config, "tools", "show", name, *catalog_words(catalogs, box)))


async def _followed(runtime: Runtime, name: str, arguments: Mapping[str, Any], run_id: str) -> ToolResult:
    """Returns the result of a call. If it is interrupted, says which run it was, and whether the tool may have acted."""
    progress = Progress()

    async def take(event: RunEvent) -> None:
        progress.take(event)

    with runtime.subscribe(take):
        try:
            return await runtime.call(name, arguments, principal=_CALLER, run_id=run_id)
        except asyncio.CancelledError:  # Ctrl-C
            note(interrupted_line(progress))
            raise


def _arguments(text: str | None) -> dict[str, Any]:
    """Returns the arguments of `--args`; None: the option was not given. Raises `click.BadParameter`."""
    if text is None:
        return {}
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--args") from error
    if not isinstance(value, dict):
        raise click.BadParameter('write an object, such as {"name": "John"}', param_hint="--args")
    return value


def _pairs(pairs: Sequence[str], schema: JsonObject) -> dict[str, Any]:
    """Returns the arguments of words `KEY=VALUE`. A value is read as JSON unless the tool's schema says that it is text."""
    properties = schema.get("properties") or {}
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(
                f"{pair!r} is not an argument; write KEY=VALUE, or give all arguments as --args JSON"
            )
        arguments[key] = _value(text, properties.get(key))
    return arguments


def _value(text: str, schema: Any) -> Any:
    """Returns the value that a person typed, by the schema of its argument."""
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    if kinds == "string" or (isinstance(kinds, list) and "string" in kinds):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text  # if the schema expects another type, the check of the arguments says so
