"""Reports of failures: one line on stderr that says what to do, or with `--json` one JSON object, and an exit code.

The exit codes of all commands: 0 is success; 1 a failure of the provider, the run, the tool or the database; 2 wrong use, such as
an invalid option, setting, catalog or request; 130 an interruption with Ctrl-C.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from toolcaddie.core.errors import (
    ConfigError,
    ProviderError,
    ProviderRateLimitError,
    RequestError,
    ToolcaddieError,
    ToolNotCalledError,
)
from toolcaddie.doors.cli.echo import echo, echo_json

FAILED, WRONG_USE = 1, 2
"""Exit codes, see above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The report of a command's failure."""

    kind: str
    """The exception's class name; stable, for scripts."""
    message: str
    exit_code: int
    attempts: tuple[Any, ...] = ()
    """The requests to a model that led to the error: `message.Attempt`s. Their type is not imported, because that would slow down
    `--help`."""


class CommandFailed(click.ClickException):
    """Raised if a command could not do its work although it was used correctly."""

    exit_code = FAILED


class Reported(CommandFailed):
    """Raised for a failure that another process of this command has reported."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failure_of(error: click.ClickException | ToolcaddieError) -> Failure:
    """Returns the report of an error. The message includes the notes that were added to the error on its way, such as the command
    that shows the run."""
    if isinstance(error, Reported):
        return error.failure
    kind = type(error).__name__
    if isinstance(error, click.UsageError):
        return Failure(kind=kind, message=_usage_message(error), exit_code=WRONG_USE)
    if isinstance(error, click.ClickException):
        return Failure(kind=kind, message=error.format_message(), exit_code=error.exit_code)
    code = WRONG_USE if isinstance(error, ConfigError | RequestError) else FAILED
    lines = [str(error)]
    if isinstance(error, ProviderRateLimitError) and error.retry_after is not None:
        lines.append(
            f"the provider asks to wait {error.retry_after:g} s, and this command did not wait; try again then, or name a "
            "[[fallback]]"
        )
    lines += getattr(error, "__notes__", ())
    attempts = error.attempts if isinstance(error, ProviderError | ToolNotCalledError) else ()
    return Failure(kind=kind, message="; ".join(lines), exit_code=code, attempts=tuple(attempts))


def print_failure(failure: Failure, *, as_json: bool) -> None:
    """Prints the report, without secrets, to stderr as text or JSON. Nothing is printed to stdout, which has only results."""
    if as_json:
        error: dict[str, Any] = {"kind": failure.kind, "message": failure.message}
        if failure.attempts:
            error["attempts"] = [attempt_json(attempt) for attempt in failure.attempts]
        echo_json(_without_secrets(json.dumps({"error": error}, ensure_ascii=False)), err=True)
    else:
        echo("error: ", err=True, nl=False, fg="red", bold=True)
        echo(_without_secrets(failure.message), err=True)


@contextmanager
def hinted(code: str, hint: str) -> Iterator[None]:
    """Adds a hint to a `RequestError` of this code, such as the command that lists the ids."""
    try:
        yield
    except RequestError as error:
        if error.code == code:
            error.add_note(hint)
        raise


def _without_secrets(text: str) -> str:
    """Returns a message without secrets. The code that removes them is loaded here, because `--help` must not wait for it."""
    redact_keys: Callable[[str], str] = importlib.import_module("toolcaddie.audit.redact").redact_keys
    return redact_keys(text)


def attempt_json(attempt: Any) -> dict[str, Any]:
    """Returns the JSON of a `message.Attempt`: one request on the way to an answer or an error."""
    return {
        "provider": attempt.provider,
        "model": attempt.model,
        "how": attempt.how,
        "outcome": attempt.outcome,
        "detail": attempt.detail,
        "seconds": round(attempt.seconds, 6),
    }


def _usage_message(error: click.UsageError) -> str:
    """Returns the message of click as one line, followed by the command that prints the help."""
    message = " ".join(error.format_message().split())  # click lists choices on lines of their own
    if not message.endswith(("?", ".")):
        message += "."
    return message if error.ctx is None else f"{message} See '{error.ctx.command_path} --help'."
