"""`toolcaddie chat`: holds a conversation with the model, from a terminal or from the lines of a pipe."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import click

from toolcaddie.app.build import Assembled
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest, RunResult
from toolcaddie.core.selection import Selection
from toolcaddie.doors.cli.claims import note_claims
from toolcaddie.doors.cli.conversations import (
    MAIN,
    Conversation,
    PassingConversation,
    StoredConversation,
    chat_option,
    new_option,
)
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.endings import note_ending
from toolcaddie.doors.cli.failure import FAILED, CommandFailed, failure_of, print_failure
from toolcaddie.doors.cli.options import run_options, settings_of
from toolcaddie.doors.cli.output import json_option, note, note_degraded, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.run import (
    RunWaits,
    answer,
    flagged_model,
    note_warnings,
    opened,
    questions_of,
    require_model,
    run_json,
    waiting_json,
)
from toolcaddie.doors.cli.steps import Steps
from toolcaddie.doors.cli.why import print_explanation
from toolcaddie.util.replacing import replace

with suppress(ImportError):  # line editing, if the platform has it
    import readline  # noqa: F401

_PROMPT = "you> "
_HELP = "/why [TOOL] reasons   /tools sent tools   /new start over   /quit"


@click.command(
    name="chat",
    epilog="\b\nExamples:\n"
    "  toolcaddie chat --catalog gym\n"
    "  toolcaddie chat --bot assistant --chat holidays\n"
    "  printf 'who is John?\\nfreeze him\\n' | toolcaddie chat --catalog gym --json\n"
    "\b\n"
    f"In a chat: {_HELP}",
)
@run_options
@chat_option
@new_option
@json_option
@click.pass_obj
def command(common: Common, /, name: str | None, is_new: bool, as_json: bool, **flags: Any) -> None:
    """Hold a conversation with the model and your tools.

    With a bot, the conversation is stored, and goes on the next time. Each line of piped input is a message; with --json, each
    answer is one line of JSON.
    """
    settings = settings_of(common, **flags)
    if name is not None and settings.default_bot is None:
        raise click.UsageError("only chats with a bot are stored; name one with --bot, or leave --chat out")
    if not as_json:
        note_warnings(settings)
    with opened(settings) as (runner, parts):
        require_model(parts)
        conversation: Conversation = PassingConversation()
        if settings.default_bot is not None:
            conversation = StoredConversation(runner, parts, bot=settings.default_bot, name=name or MAIN)
        if is_new:
            conversation.begin()
        chat = _Chat(runner, parts, conversation, model=flagged_model(parts, flags["model"]), as_json=as_json)
        chat.converse()
    if chat.failures and not sys.stdin.isatty():
        raise click.exceptions.Exit(FAILED)


class _Chat:
    """The terminal of a conversation. Its runs are executed by `runner`. Input is read between two runs, never during a run, so
    that Ctrl-C stops the current run."""

    def __init__(
        self,
        runner: asyncio.Runner,
        parts: Assembled,
        conversation: Conversation,
        *,
        model: str | None,
        as_json: bool,
    ) -> None:
        self._runner = runner
        self._model = model
        self._parts = parts
        self._conversation = conversation
        self._json = as_json
        self._questions = questions_of(as_json=as_json)
        self.failures = 0
        """Number of messages that failed."""
        self._forget()

    def converse(self) -> None:
        """Answers each line of the input, until `/quit` or the end of the input."""
        if sys.stdin.isatty() and not self._json:
            model_note = " (the practice model: rules, offline)" if self._parts.practice else ""
            tools = len(self._parts.runtime.view(RunRequest(messages=())))
            bot = self._parts.settings.default_bot
            with_bot = f"{bot}: " if bot is not None else ""
            note(f"{with_bot}{tools} tools, {self._parts.provider.name}{model_note}\n{_HELP}")
            if opening := self._conversation.opening():
                note(opening)
        for line in _lines():
            match line.split():
                case []:
                    continue
                case ["/quit" | "/exit"]:
                    return
                case ["/new"]:
                    self._conversation.begin()
                    self._forget()
                case ["/why", *names]:
                    self._print_reasons(names)
                case ["/tools"]:
                    self._print_tools()
                case [word, *_] if word.startswith("/"):
                    note(f"no command {word}; {_HELP}")
                case _:
                    self._run_turn(line)

    def _forget(self) -> None:
        """Forgets what was selected and sent."""
        self._selected_for: Sequence[Message] = ()
        """The messages for which tools were selected last; `/why` explains the selection for them."""
        self._selection: Selection | None = None
        self._sent_names: tuple[str, ...] = ()
        """Names of the tools that were sent with the last message."""

    def _run_turn(self, line: str) -> None:
        """Answers a message. A message that fails or is interrupted does not become part of the conversation."""
        steps = Steps(quiet=self._json, live=not self._json)
        try:
            request = replace(self._conversation.request(line), model=self._model)
            self._selected_for = request.messages
            with steps:
                result = answer(self._runner, self._parts, request, steps, self._questions)
        except KeyboardInterrupt:
            self._postpone(steps)
            note("stopped; the message is not part of the conversation")
        except (ToolcaddieError, CommandFailed) as error:
            self.failures += 1
            if isinstance(error, RunWaits):
                self._postpone(steps)
            if self._json and isinstance(error, RunWaits):
                print_json(waiting_json(error.run_id, error.approvals), one_line=True)
                return
            print_failure(failure_of(error), as_json=self._json)
        else:
            note_degraded(self._parts.runtime)
            if self._json:
                degraded = self._parts.runtime.degraded
                print_json({**run_json(result, steps.progress), "degraded": degraded}, one_line=True)
            else:
                note_ending(result.ending)
                note_claims(claim.text for claim in result.unsupported_claims)
            self._keep(result)
        self._selection = steps.progress.selection or self._selection
        if steps.progress.delivery is not None:
            self._sent_names = tuple(tool.name for tool in steps.progress.delivery.tools)

    def _keep(self, result: RunResult) -> None:
        """Adds the message and its answer, which is printed by now, to the conversation."""
        try:
            self._conversation.keep(result)
        except KeyboardInterrupt:
            note("stopped while the conversation was being stored")
        except ToolcaddieError as error:
            self.failures += 1
            print_failure(failure_of(error), as_json=self._json)

    def _postpone(self, steps: Steps) -> None:
        """Lets the message join the conversation later, if its run waits for a person."""
        if steps.progress.waiting and steps.progress.result is None:
            self._conversation.postpone()

    def _print_reasons(self, names: list[str]) -> None:
        """Prints the reasons for these tools, or without names those for all selected tools."""
        if not self._selected_for or self._selection is None:
            note("nothing was selected yet; write a message first")
            return
        if names:
            for name in names:
                print_explanation(self._parts.runtime.explain(name, RunRequest(messages=self._selected_for)))
            return
        rows = [(tool.tool.name, f"{tool.score:.3f}", "; ".join(tool.reasons)) for tool in self._selection.tools]
        print_table(("tool", "score", "why"), rows, right=("score",))

    def _print_tools(self) -> None:
        """Prints the names of the tools that were sent with the last message, or before the first message those of all tools that
        the bot may use."""
        names = self._sent_names or tuple(tool.name for tool in self._parts.runtime.view(RunRequest(messages=())))
        echo(", ".join(names))


def _lines() -> Iterator[str]:
    """Yields the lines of the terminal or of the pipe, until its end. At the prompt, Ctrl-C discards the line and Ctrl-D is the
    end."""
    if not sys.stdin.isatty():
        for line in sys.stdin:
            yield line.rstrip("\n")
        return
    while True:
        try:
            yield input(_PROMPT)
        except KeyboardInterrupt:
            echo()
        except EOFError:
            echo()
            return
