"""`toolcaddie run`: answers one message."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import click

from toolcaddie.app.build import Assembled, assembled
from toolcaddie.app.classifying import CLASSIFY_HINT, is_never_asked
from toolcaddie.app.models import key_advice
from toolcaddie.app.settings import Log, Settings
from toolcaddie.core.errors import ProviderAuthError, ToolcaddieError
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest, RunResult
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import CommandFailed, attempt_json
from toolcaddie.doors.cli.options import max_tools_option, run_options, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.steps import Progress, Steps, call_json


@click.command(
    name="run",
    epilog="\b\nExamples:\n"
    '  toolcaddie run "freeze John\'s membership" --catalog gym\n'
    '  toolcaddie run "who came today" --catalog gym --json\n'
    '  toolcaddie run "hello" --upstream http://127.0.0.1:8000/v1 --model my-model',
)
@click.argument("message")
@run_options
@max_tools_option
@json_option
@click.pass_obj
def command(common: Common, /, message: str, as_json: bool, max_tools: int | None, **flags: Any) -> None:
    """Answer MESSAGE, calling tools as needed.

    The answer goes to stdout, the progress to stderr.
    """
    settings = settings_of(common, **flags)
    request = RunRequest(messages=(Message(role="user", content=message),), max_tools=max_tools)
    live = sys.stdout.isatty() and not as_json
    if not as_json:
        note_warnings(settings)
    with Steps(quiet=as_json, live=live) as steps:
        result, degraded = asyncio.run(_answer(settings, request, steps))
    for sentence in degraded:
        note(sentence)
    if as_json:
        print_json({**run_json(result, steps.progress), "degraded": degraded})
    elif not live:
        echo(result.text)
    if not as_json:
        note(f"{result.run_id}: `toolcaddie trail last` shows what was done")


async def _answer(settings: Settings, request: RunRequest, steps: Steps) -> tuple[RunResult, Sequence[str]]:
    """Returns the result of a run, and a sentence for each part of the runtime that does not work."""
    async with assembled(settings) as parts:
        require_model(parts)
        result = await answer(parts, request, steps)
        return result, parts.runtime.degraded


def note_warnings(settings: Settings) -> None:
    """Prints remarks about settings that are valid but probably not intended. If `log.level` is set, the log contains these
    warnings, so nothing is printed."""
    if settings.log.level != Log().level:
        return
    if is_never_asked(settings):
        note(f"the classifier is never asked by preset {settings.preset!r}; {CLASSIFY_HINT}")
    if settings.tool_config is None:
        return
    for warning in ToolConfig.of(settings.tool_config).warnings:
        note(f"tool_config: {warning}")


def require_model(parts: Assembled) -> None:
    """Raises `UsageError` if the settings name no model. The API of a provider requires a name. The gateway needs no such
    setting, because its clients name the model."""
    if not parts.practice and not parts.runtime.model:
        raise click.UsageError("name the model to ask with --model, or set model in toolcaddie.toml")


async def answer(parts: Assembled, request: RunRequest, steps: Steps) -> RunResult:
    """Runs a request and shows its steps. Raises `CommandFailed` if the run waits for a person's approval."""
    try:
        async for event in parts.runtime.stream(request):
            steps.show(event)
    except ToolcaddieError as error:
        if isinstance(error, ProviderAuthError):
            error.add_note(key_advice(error, parts.settings))
        if steps.progress.run_id:
            error.add_note(f"`toolcaddie trail {steps.progress.run_id}` shows how far it came")
        raise
    result = steps.progress.result
    if result is None:
        raise CommandFailed(
            f"run {steps.progress.run_id} waits for a person's approval; `toolcaddie trail last` shows for which call"
        )
    return result


def run_json(result: RunResult, progress: Progress) -> dict[str, Any]:
    """Returns the JSON of `run --json`."""
    selection, delivery = progress.selection, progress.delivery
    usage = result.usage
    return {
        "run_id": result.run_id,
        "status": result.status,
        "text": result.text,
        "model": result.state.model,
        "provider": result.provider,
        "rounds": result.state.rounds,
        "calls": result.state.calls,
        "tool_calls": [call_json(event) for event in progress.calls],
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "written_tokens": usage.written_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
        },
        "attempts": [attempt_json(attempt) for attempt in progress.attempts],
        "selection": {
            "categories": selection.categories if selection else (),
            "counts": {
                "catalog": selection.catalog_size if selection else 0,
                "selected": len(selection.tools) if selection else 0,
                "sent": len(delivery.definitions) if delivery else 0,
            },
        },
    }
