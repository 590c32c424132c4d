"""Decodes the arguments that a model wrote for a call, and checks them against the tool's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from toolcaddie.control.idempotency import with_key
from toolcaddie.core.bounds import DEFAULT, Bounds, beyond
from toolcaddie.core.schema import argument_errors, canonical_json, takes_long
from toolcaddie.core.tool import Tool, ToolCall, ToolResult, failed
from toolcaddie.guards.aside import aside
from toolcaddie.util.log import Logger

log = Logger(__name__)

_SHOWN_NAMES = 10
"""Largest number of dropped names in a log line."""
_MAX_SCHEMA_SHOWN = 6_000
"""Largest number of characters of a schema shown to the model."""


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments that fit the tool's schema."""

    values: dict[str, Any]
    dropped: tuple[str, ...] = ()
    """Names that the model sent although only the application may inject them."""


async def arguments_of(call: ToolCall, tool: Tool, *, bounds: Bounds = DEFAULT) -> Arguments | ToolResult:
    """Returns the same as `checked_arguments`, but runs it outside of the event loop if it takes long."""
    if takes_long(tool.input_schema, len(call.arguments)):
        return await aside(partial(checked_arguments, call, tool, bounds=bounds))
    return checked_arguments(call, tool, bounds=bounds)


def checked_arguments(call: ToolCall, tool: Tool, *, bounds: Bounds = DEFAULT) -> Arguments | ToolResult:
    """Returns the decoded arguments, or a result that names the field at fault and shows the schema.

    A missing idempotency key is no mistake, because it is added before the call. Names that begin with `_` belong to the
    application (`_chatId`). If a model sends such an argument, it is dropped, unless the schema declares it. A key of such a name
    is not in the schema, so that the model neither sees nor chooses it.
    """
    if len(call.arguments) > bounds.arguments:
        problem = beyond(
            f"The arguments of {tool.name} have {len(call.arguments):,} characters", bounds.arguments, "arguments"
        )
        return failed(f"{problem}.", "invalid_arguments")
    try:
        arguments = msgspec.json.decode(call.arguments.strip() or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _failure(tool, [f"they are not JSON ({error})"])
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return _failure(tool, [f"they must be a JSON object, not {type(arguments).__name__}"])
    dropped = _injected_names(arguments, tool)
    if dropped:
        arguments = {name: value for name, value in arguments.items() if name not in dropped}
        short_names = [name[:64] for name in dropped[:_SHOWN_NAMES]]
        log.info("arguments_dropped", tool=tool.name, names=short_names, count=len(dropped))
    # A key is added after the approval, which is bound to the model's own arguments; until then any key stands for it.
    complete = arguments if _has_hidden_key(tool) else with_key(tool, arguments, run_id="", call_id="")
    errors = argument_errors(tool.input_schema, complete, bounds=bounds)
    return _failure(tool, errors) if errors else Arguments(values=arguments, dropped=dropped)


def _injected_names(arguments: dict[str, Any], tool: Tool) -> tuple[str, ...]:
    names = tuple(name for name in arguments if name.startswith("_"))
    declared = tool.input_schema.get("properties") if names else None
    return tuple(name for name in names if not isinstance(declared, Mapping) or name not in declared)


def _has_hidden_key(tool: Tool) -> bool:
    return tool.idempotency_key is not None and tool.idempotency_key.startswith("_")


def _failure(tool: Tool, errors: Sequence[str]) -> ToolResult:
    """Returns the result that tells the model what is wrong with its arguments, with the schema."""
    schema = canonical_json(tool.input_schema).decode()
    if len(schema) > _MAX_SCHEMA_SHOWN:
        schema = schema[:_MAX_SCHEMA_SHOWN] + " ... (cut)"
    return failed(
        f"The arguments of {tool.name} are wrong: {'; '.join(errors)}. They must fit this schema: {schema}",
        "invalid_arguments",
    )
