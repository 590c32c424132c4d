"""Calls a function with a model's arguments: converts them, adds injected values, runs it, and makes a result of the outcome."""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import structlog
from pydantic import ValidationError

from toolcaddie.core.client import AnswerPending, ClientError
from toolcaddie.core.errors import HostError, RequestError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import ErrorKind, ToolResult, failed
from toolcaddie.sources.functions.results import to_result
from toolcaddie.sources.functions.signature import Definition, Parameter
from toolcaddie.sources.functions.threads import NotStartedError, Threads, TooManyHangingError
from toolcaddie.util.log import Logger

log = Logger(__name__)

_SHOWN_ERRORS = 3
"""Largest number of wrong arguments that a result names."""
_SHOWN_MESSAGE = 2_000
"""Largest number of characters of an exception's message in a result."""
_LOGGED_TRACEBACK = 20_000
"""Largest number of characters of a traceback in the log."""

Outcome = ToolResult | Awaitable[Any]
"""Outcome of a function in a thread: a result, or an awaitable that the event loop has to await."""


async def call(
    definition: Definition, threads: Threads[Outcome], arguments: Mapping[str, Any], context: RunContext
) -> ToolResult:
    """Runs the function. Any error in it gives a failed result; only an interrupt or a cancellation is raised."""
    name = definition.tool.name
    try:
        args, kwargs = _placed(definition, _converted(definition, arguments, context), context)
        return await _run(definition, threads, lambda: definition.function(*args, **kwargs))
    except asyncio.CancelledError:
        if _is_cancelled():
            raise
        return failed(f"{name} was cancelled from inside: something that it waited for was cancelled")
    except _RefusedError as refused:
        return failed(f"{name}: {refused}", refused.kind)
    except (AnswerPending, ClientError, HostError) as error:
        return failed(str(error))
    except RequestError as error:
        return failed(str(error), "invalid_arguments")
    except TooManyHangingError as error:
        return failed(f"{name} is not started: {error}")
    except NotStartedError as error:
        return failed(f"{name} is not started: {error}", "not_run")
    except SystemExit as error:  # a wrapped command line that calls sys.exit() must not take the server with it
        return failed(f"{name} tried to end the process with exit code {error.code!r}")
    except Exception as error:  # noqa: BLE001 - the outermost frame of somebody's code
        log.warning(
            "tool_raised", tool=name, place=definition.place, run_id=context.run_id, exception=_traceback_of(error)
        )
        return failed(_described(error))


class _RefusedError(Exception):
    """The function is not called; the message says why."""

    def __init__(self, message: str, kind: ErrorKind) -> None:
        super().__init__(message)
        self.kind = kind


def _converted(definition: Definition, arguments: Mapping[str, Any], context: RunContext) -> dict[str, Any]:
    """Returns the model's values as Python values, by parameter name; injected ones may be missing."""
    injected = context.injected
    missing = [p.name for p in definition.parameters if p.role == "injected" and p.required and p.name not in injected]
    if missing:
        raise _RefusedError(f"the application has to inject {', '.join(missing)} and did not", "failed")
    own = {name: value for name, value in arguments.items() if name not in injected}
    lacking = [
        p.wire
        for p in definition.parameters
        if p.role == "argument" and p.required and p.wire not in {**own, **injected}
    ]
    if lacking:
        raise _RefusedError("; ".join(f"{name}: this argument is required" for name in lacking), "invalid_arguments")
    try:
        # Through JSON, because only there does pydantic's strict mode accept a text as a date or an enum, and a list as a set.
        return _validated(definition, own)
    except ValidationError as error:
        raise _RefusedError(_complaints(error), "invalid_arguments") from error
    except (msgspec.EncodeError, UnicodeEncodeError, RecursionError) as error:
        raise _RefusedError(f"the arguments are not JSON: {error}", "invalid_arguments") from error


def _validated(definition: Definition, values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values as Python values. A number such as 5.0 is accepted for an integer, as JSON Schema allows it."""
    try:
        return definition.arguments.validate_json(msgspec.json.encode(values), strict=True)
    except ValidationError as error:
        if not _is_about_whole_floats(error):
            raise
        # In JSON Schema 5.0 is an integer, so the call was right. In pydantic's strict mode it is not.
        return definition.arguments.validate_json(msgspec.json.encode(_whole(values)), strict=True)


def _is_about_whole_floats(error: ValidationError) -> bool:
    """Returns True if the only errors are floats without a fraction where an integer is expected."""
    return any(
        item["type"] == "int_type" and isinstance(item["input"], float) and item["input"].is_integer()
        for item in error.errors(include_url=False, include_context=False)
    )


def _whole(value: Any) -> Any:
    """Returns a JSON value with each float without a fraction as an integer, at every depth."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _whole(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return value


def _complaints(error: ValidationError) -> str:
    """Returns a sentence for each of the first errors. It names the field, but not the value, which may have megabytes."""
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [
        f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg'][:300]}" for item in errors[:_SHOWN_ERRORS]
    ]
    if len(errors) > _SHOWN_ERRORS:
        lines.append(f"and {len(errors) - _SHOWN_ERRORS} more")
    return "; ".join(lines)


def _placed(
    definition: Definition, converted: Mapping[str, Any], context: RunContext
) -> tuple[list[Any], dict[str, Any]]:
    """Returns positional and keyword arguments. Injected values win over those of the model."""
    injected = context.injected
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in definition.parameters:
        if parameter.role not in ("argument", "injected"):
            value = _supplied_value(parameter, definition, context)
        elif parameter.wire in injected:
            value = injected[parameter.wire]
        else:
            value = converted.get(parameter.name, parameter.default)
        if parameter.positional:
            args.append(value)
        elif value is not inspect.Parameter.empty:
            kwargs[parameter.name] = value
    if definition.takes_more:
        names = {name for parameter in definition.parameters for name in (parameter.name, parameter.wire)}
        kwargs.update((name, value) for name, value in injected.items() if name not in names)
    return args, kwargs


def _supplied_value(parameter: Parameter, definition: Definition, context: RunContext) -> Any:
    """Returns the value that is passed to a parameter which the model does not fill in: the run's context, a dependency, or a
    logger."""
    match parameter.role:
        case "context":
            return context
        case "dependency":
            return _dependency(parameter, context)
        case "logging":
            return logging.getLogger(f"toolcaddie.tools.{definition.tool.name}")
        case _:
            return structlog.get_logger(f"toolcaddie.tools.{definition.tool.name}").bind(
                tool=definition.tool.name, run_id=context.run_id
            )


def _dependency(parameter: Parameter, context: RunContext) -> Any:
    """Returns the dependency for a parameter. Raises `_RefusedError` if the application provides none."""
    assert parameter.dependency is not None, "a parameter of this role has a type"
    if parameter.dependency not in context.dependencies:
        raise _RefusedError(
            f"the application has to provide {parameter.dependency.__name__} for {parameter.name!r} and did not",
            "failed",
        )
    return context.dependencies[parameter.dependency]


async def _run(definition: Definition, threads: Threads[Outcome], function: Callable[[], Any]) -> ToolResult:
    if definition.is_async:
        return _result(await function(), definition)
    # The result is converted to JSON in the thread too, because a large one would block the event loop.
    outcome = await threads.run(lambda: _finished(function(), definition))
    return outcome if isinstance(outcome, ToolResult) else _result(await outcome, definition)


def _finished(value: Any, definition: Definition) -> Outcome:
    return value if inspect.isawaitable(value) else _result(value, definition)


def _result(value: Any, definition: Definition) -> ToolResult:
    return to_result(value, wrap=definition.wrap, ends_run=definition.tool.ends_run)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _described(error: Exception) -> str:
    """Returns the type and the bounded message of an exception, for the model."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - its own __str__ is broken too
        text = "(its message cannot be shown)"
    text = text if len(text) <= _SHOWN_MESSAGE else text[:_SHOWN_MESSAGE] + "…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _traceback_of(error: Exception) -> str:
    """Returns the traceback as bounded text: a renderer that colours a message of a megabyte blocks the loop for minutes."""
    text = "".join(traceback.format_exception(error))
    return text if len(text) <= _LOGGED_TRACEBACK else text[:_LOGGED_TRACEBACK] + "… (cut)"
