"""`toolcaddie run`: answers one message."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import click
import msgspec

from toolcaddie.app.build import Assembled, assembled
from toolcaddie.app.classifying import CLASSIFY_HINT, is_never_asked
from toolcaddie.app.models import key_advice
from toolcaddie.app.settings import Log, Settings
from toolcaddie.core.approval import Approval
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ProviderAuthError, RequestError, ToolcaddieError
from toolcaddie.core.events import RunEvent
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest, RunResult
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.doors.cli.asking import Questions
from toolcaddie.doors.cli.claims import note_claims
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.endings import note_ending
from toolcaddie.doors.cli.failure import FAILED, CommandFailed, attempt_json
from toolcaddie.doors.cli.options import max_tools_option, resume_command, run_options, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.steps import Progress, Steps, call_json, interrupted_line
from toolcaddie.doors.texts import shortened
from toolcaddie.util.replacing import replace
from toolcaddie.util.user import user_name

_ARGUMENTS_SHOWN = 80


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
    request = RunRequest(
        messages=(Message(role="user", content=message),), max_tools=max_tools, principal=Principal(channel="run")
    )
    live = sys.stdout.isatty() and not as_json
    if not as_json:
        note_warnings(settings)
    with (
        waiting_printed(as_json=as_json),
        Steps(quiet=as_json, live=live) as steps,
        opened(settings) as (runner, parts),
    ):
        require_model(parts)
        request = replace(request, model=flagged_model(parts, flags["model"]))
        result = answer(runner, parts, request, steps, questions_of(as_json=as_json))
        degraded = parts.runtime.degraded
    print_result(result, steps.progress, degraded, as_json=as_json, live=live)


def print_result(result: RunResult, progress: Progress, degraded: Sequence[str], *, as_json: bool, live: bool) -> None:
    """Prints the result of a run. `degraded`: a sentence for each part that does not work. `live`: its text is printed."""
    for sentence in degraded:
        note(sentence)
    if as_json:
        print_json({**run_json(result, progress), "degraded": degraded})
        return
    if not live:
        echo(result.text)
    note_ending(result.ending)
    note_claims(claim.text for claim in result.unsupported_claims)
    note(f"{result.run_id}: `toolcaddie trail last` shows what was done")


@contextmanager
def opened(settings: Settings, *, create: bool = True) -> Iterator[tuple[asyncio.Runner, Assembled]]:
    """Yields the parts of the settings, open, and the runner of their event loop. `create`: False if a database that does not
    exist yet is a mistake."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            parts = runner.run(stack.enter_async_context(assembled(settings, create=create)))
            runner.run(stack.enter_async_context(parts.runtime.holding(Principal().tenant)))
            yield runner, parts
        finally:
            runner.run(stack.aclose())


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
    bot = parts.settings.bots.get(parts.settings.default_bot or "")
    if not parts.practice and not parts.runtime.model and not (bot is not None and bot.model):
        raise click.UsageError("name the model to ask with --model, or set model in toolcaddie.toml")


def flagged_model(parts: Assembled, model: str | None) -> str | None:
    """Returns the model of a request if `--model` (`model`) names one, also for a bot with a model of its own; None: that of the
    bot, or of the settings, answers."""
    return parts.runtime.model if model else None


def questions_of(*, as_json: bool) -> Questions | None:
    """Returns what asks the person at the terminal; None: nobody sits there."""
    return Questions() if sys.stdin.isatty() and sys.stderr.isatty() and not as_json else None


def answer(
    runner: asyncio.Runner, parts: Assembled, request: RunRequest, steps: Steps, questions: Questions | None
) -> RunResult:
    """Runs a request and shows its steps, as `finish` does."""
    return finish(runner, parts, parts.runtime.stream(request), steps, questions)


def finish(
    runner: asyncio.Runner, parts: Assembled, events: AsyncIterator[RunEvent], steps: Steps, questions: Questions | None
) -> RunResult:
    """Shows the events of a run until its end. Where calls need an approval, the run pauses, `questions` asks, and the run goes
    on. Raises `RunWaits` if nobody can be asked, and `KeyboardInterrupt` after Ctrl-C at a question, which leaves the run
    waiting."""
    runner.run(_shown(parts, events, steps))
    while steps.progress.result is None:
        run_id = steps.progress.run_id
        approvals = runner.run(_waiting(parts, steps.progress.waiting))
        if questions is None:
            raise RunWaits(run_id, approvals)
        if problems := [problem for approval in approvals if (problem := _objection(parts, approval))]:
            raise RunWaits(run_id, approvals, [*problems, *_approvers(parts.settings)])
        try:
            answers = questions.answers(approvals, run_id)
        except click.exceptions.Abort:
            note(f"not answered: {remedy(run_id, approvals)}")
            raise KeyboardInterrupt from None
        runner.run(_record(parts, approvals, answers))
        runner.run(_shown(parts, parts.runtime.resume_stream(run_id, principal=Principal()), steps))
    return steps.progress.result


class RunWaits(CommandFailed):
    """Raised if a run waits for the answers of a person who cannot be asked here. `problems`: why the person who sits here
    cannot."""

    def __init__(self, run_id: str, approvals: Sequence[Approval], problems: Sequence[str] = ()) -> None:
        super().__init__("; ".join([*problems, remedy(run_id, approvals)]))
        self.run_id = run_id
        self.approvals = approvals


@contextmanager
def waiting_printed(*, as_json: bool) -> Iterator[None]:
    """Prints a run that waits for a person as JSON, and ends the command with exit code 1. Without `as_json`, the error of the
    command says it."""
    try:
        yield
    except RunWaits as waits:
        if not as_json:
            raise
        print_json(waiting_json(waits.run_id, waits.approvals))
        raise click.exceptions.Exit(FAILED) from None


def waiting_json(run_id: str, approvals: Sequence[Approval]) -> dict[str, Any]:
    """Returns the JSON of a run that waits for a person, with its questions."""
    return {
        "run_id": run_id,
        "status": "pending",
        "approvals": [
            {
                "id": approval.id,
                "tool": approval.tool,
                "arguments": approval.arguments,
                "reason": approval.reason,
                "rule": approval.rule,
            }
            for approval in approvals
        ],
        "resume": resume_command(run_id),
    }


def _person(approval: Approval) -> Principal:
    """Returns the person at the terminal, who sees what the asker sees."""
    return replace(approval.principal, id=user_name(), channel="terminal")


def _objection(parts: Assembled, approval: Approval) -> str:
    """Returns why the person at the terminal may not answer; empty: the person may."""
    try:
        parts.runtime.approvals.check(approval, _person(approval), approved=True)
    except RequestError as error:
        return str(error)
    return ""


def _approvers(settings: Settings) -> Sequence[str]:
    """Returns the sentence that names the approvers of the settings; none if they name nobody."""
    named = () if settings.policy is None else settings.policy.config.get("approvers", ())
    return [f"the approvers are {', '.join(named)}"] if named else []


async def _record(parts: Assembled, approvals: Sequence[Approval], answers: Mapping[str, bool]) -> None:
    """Records the answers of the person at the terminal. An answer that somebody else gave in the meantime stays."""
    for approval in approvals:
        try:
            await parts.runtime.approvals.answer(
                approval.principal.tenant,
                approval.id,
                approved=answers[approval.id],
                by=_person(approval),
                reason="answered in the terminal",
            )
        except RequestError as error:
            if error.code != "approval_closed":
                raise


async def _shown(parts: Assembled, events: AsyncIterator[RunEvent], steps: Steps) -> None:
    """Shows the events of a run until it ends or pauses. If it is interrupted, says which run, and which calls may have acted."""
    try:
        async for event in events:
            steps.show(event)
    except asyncio.CancelledError:  # Ctrl-C
        note(interrupted_line(steps.progress))
        raise
    except ToolcaddieError as error:
        if isinstance(error, ProviderAuthError):
            error.add_note(key_advice(error, parts.settings))
        if steps.progress.run_id:
            error.add_note(f"`toolcaddie trail {steps.progress.run_id}` shows how far it came")
        raise


async def _waiting(parts: Assembled, ids: Sequence[str]) -> list[Approval]:
    approvals = [await parts.runtime.approvals.get(Principal().tenant, approval_id) for approval_id in ids]
    return [approval for approval in approvals if approval is not None]


def remedy(run_id: str, approvals: Sequence[Approval]) -> str:
    """Returns the sentence for a run that waits where nobody can be asked."""
    calls = ", ".join(map(_waiting_call, approvals))
    looks = ", ".join(f"`toolcaddie approvals show {approval.id}`" for approval in approvals)
    ids = " ".join(approval.id for approval in approvals)
    return (
        f"{run_id} waits for a person's approval of {calls}; read it with {looks}, answer with `toolcaddie approvals approve "
        f"{ids}` and continue with `{resume_command(run_id)}`, or let such calls run with --approve run"
    )


def _waiting_call(approval: Approval) -> str:
    arguments = shortened(msgspec.json.encode(approval.arguments).decode(), _ARGUMENTS_SHOWN)
    return f"{approval.tool} {arguments} ({approval.reason or approval.rule})"


def run_json(result: RunResult, progress: Progress) -> dict[str, Any]:
    """Returns the JSON of `run --json`."""
    selection, delivery = progress.selection, progress.delivery
    usage = result.usage
    return {
        "run_id": result.run_id,
        "status": result.status,
        "text": result.text,
        "ending": result.ending,
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
        "unsupported_claims": result.unsupported_claims,
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
