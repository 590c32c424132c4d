"""`toolcaddie call`: one tool, through every gate and into the trail, without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from toolcaddie.doors.assemble import assembled
from toolcaddie.doors.cli.failure import FAILED, WRONG_USE
from toolcaddie.doors.cli.options import catalog_option, database_option, settings_of
from toolcaddie.doors.cli.output import json_option, print_json
from toolcaddie.doors.cli.root import Common
from toolcaddie.settings import Settings
from toolcaddie.tool_types import JsonObject, ToolResult

_CALLERS_FAULT = frozenset({"invalid_arguments", "unknown_tool"})


@click.command(
    name="call",
    epilog="\b\nExamples:\n"
    "  toolcaddie call get_clients_list --catalog gym search=John\n"
    '  toolcaddie call convert_currency --catalog gym --args \'{"amount": 20, "from_currency": "EUR", "to_currency": "USD"}\'',
)
@click.argument("tool")
@click.argument("pairs", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--args", "arguments", metavar="JSON", help="All arguments as one JSON object.")
@catalog_option
@database_option
@json_option
@click.pass_obj
def command(
    common: Common,
    tool: str,
    pairs: tuple[str, ...],
    arguments: str | None,
    catalogs: tuple[str, ...],
    database_url: str | None,
    as_json: bool,
) -> None:
    """Run TOOL through every gate, without a model.

    The call is recorded in the trail. A VALUE is read as the tool's schema says: numbers, booleans and lists as JSON, the
    rest as text.
    """
    settings = settings_of(common, catalogs=catalogs, database_url=database_url)
    given = _arguments(arguments)
    result = asyncio.run(_call(settings, tool, given, pairs))
    if as_json:
        print_json(
            {
                "tool": tool,
                "success": result.success,
                "content": result.content,
                "structured": result.structured,
                "error": result.error,
            }
        )
    else:
        click.echo(result.content, err=result.is_error)
    if result.is_error:
        raise click.exceptions.Exit(WRONG_USE if result.error in _CALLERS_FAULT else FAILED)


async def _call(settings: Settings, name: str, given: Mapping[str, Any], pairs: Sequence[str]) -> ToolResult:
    async with assembled(settings, needs_catalog=True) as parts:
        tool = parts.runtime.source.snapshot().get(name)
        schema: JsonObject = {} if tool is None else tool.input_schema
        return await parts.runtime.call(name, {**given, **_pairs(pairs, schema)})


def _arguments(text: str | None) -> dict[str, Any]:
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
    """`key=value` words as arguments; what the schema does not take as text is read as JSON."""
    properties = schema.get("properties") or {}
    read: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{pair!r} is no argument; write KEY=VALUE, or all of them with --args JSON")
        read[key] = _value(text, properties.get(key))
    return read


def _value(text: str, schema: Any) -> Any:
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    if kinds == "string" or (isinstance(kinds, list) and "string" in kinds):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text  # the tool's schema says what it should have been
