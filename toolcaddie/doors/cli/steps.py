"""Shows a run of `toolcaddie run` or `chat` while it is in progress: its steps on stderr, the answer on stdout.

The runtime emits an event for each step of a run, such as the selection of tools or a call. `Steps` prints the events, and
`Progress` collects the facts that the command prints at the end.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import msgspec
from rich.console import Console
from rich.status import Status
from rich.text import Text

from toolcaddie.core.approval import Approval
from toolcaddie.core.content import shown_text
from toolcaddie.core.delivery import Delivery
from toolcaddie.core.events import (
    ApprovalApplied,
    ApprovalClosed,
    CallDecided,
    CallFinished,
    CallIntended,
    CallProgressed,
    LimitReached,
    MetaCalled,
    ModelAnswered,
    ModelAsked,
    RequestClassified,
    RunEvent,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    TextDelta,
    ToolsDelivered,
    ToolsSelected,
)
from toolcaddie.core.message import Attempt
from toolcaddie.core.run import RunResult
from toolcaddie.core.selection import Classification, Selection
from toolcaddie.core.tool import ToolCall
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import note
from toolcaddie.doors.event_sentences import attempt_text
from toolcaddie.doors.texts import shortened
from toolcaddie.util.text import visible_line
from toolcaddie.util.user import user_name

_ARGUMENTS_SHOWN = 80
_RESULT_SHOWN = 100


@dataclass(slots=True, kw_only=True)
class Progress:
    """The results of a run so far, collected from its events."""

    run_id: str = ""
    selection: Selection | None = None
    delivery: Delivery | None = None
    """The tools of the first request to the model."""
    calls: list[CallFinished] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    """The requests to models, for those answers that needed more than one request."""
    result: RunResult | None = None
    """The result of the run; None: the run has not ended, or it waits for a person's approval."""
    under_way: dict[str, str] = field(default_factory=dict)
    """Names of the tools of calls that may change something and have not ended, by call id."""
    waiting: tuple[str, ...] = ()
    """The approvals that the run waits for."""

    def take(self, event: RunEvent) -> None:
        """Stores the facts of an event."""
        match event:
            case RunStarted() | RunResumed():
                self.run_id = event.run_id
            case ToolsSelected():
                self.selection = event.selection
            case ToolsDelivered() if self.delivery is None:
                self.delivery = event.delivery
            case ModelAnswered():
                self.attempts += event.attempts
            case CallIntended():
                self.under_way[event.call.id] = event.call.name
            case CallFinished():
                self.calls.append(event)
                self.under_way.pop(event.call.id, None)
            case RunFinished():
                self.result = event.result
            case RunPaused():
                self.waiting = tuple(item.approval for item in event.state.pending if item.waiting == "approval")


class Steps:
    """Prints the events of a run as lines, with a spinner if stderr is a terminal. `quiet`: True for the spinner alone. `live`:
    True if the answer is printed while it arrives; otherwise the caller prints it."""

    def __init__(self, *, quiet: bool, live: bool) -> None:
        self.progress = Progress()
        self._quiet = quiet
        self._live = live
        self._screen_text = ""
        """The printed part of the model's current answer."""
        self._line_is_open = False
        """True if the last printed text did not end its line."""
        self._spinner: Status | None = None
        if sys.stderr.isatty():
            self._spinner = Console(stderr=True).status("choosing tools")

    def __enter__(self) -> Self:
        self._spin("choosing tools")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_spinner()
        self._break_line()

    def show(self, event: RunEvent) -> None:
        """Prints one event, and adds it to `progress`."""
        self.progress.take(event)
        match event:
            case RequestClassified():
                self._note(classified_line(event.classification))
            case ToolsSelected():
                self._note(selected_line(event.selection))
            case ModelAsked():
                self._break_line()
                self._screen_text = ""
                self._spin(f"asking {event.model or event.provider}")
            case TextDelta() if self._live and event.text:
                self._stop_spinner()
                echo(event.text, nl=False)
                self._screen_text += event.text
                self._line_is_open = not event.text.endswith("\n")
            case ModelAnswered():
                if event.attempts or event.provider:
                    self._note(answered_line(event))
                if not event.calls:
                    return
                self._break_line()
                self._spin(f"running {', '.join(call.name for call in event.calls)}")
            case MetaCalled():
                self._note(f"{_call_text(event.call)} {_meta_outcome(event)}")
            case CallDecided() if event.decision.verdict == "deny":
                self._note(denied_line(event))
            case ApprovalApplied() | ApprovalClosed() if event.approval.status == "refused":
                self._note(unapproved_line(event.approval))
            case CallProgressed():
                self._spin(progress_line(event))
            case CallFinished():
                self._note(call_line(event))
            case LimitReached():
                self._note(f"limit reached: {event.detail}")
            case RunFinished() if self._live and event.result.text != self._screen_text:
                # A text from the arguments of a `respond` call, or from a limit, was never streamed.
                self._stop_spinner()
                self._break_line()
                echo(event.result.text)
            case RunPaused():
                self._stop_spinner()
                self._break_line()
            case _:
                pass

    def _note(self, text: str) -> None:
        if self._quiet:
            return
        self._stop_spinner()
        self._break_line()
        note(text)

    def _spin(self, activity: str) -> None:
        if self._spinner is not None:
            self._spinner.update(Text(visible_line(activity)))
            self._spinner.start()

    def _stop_spinner(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()

    def _break_line(self) -> None:
        if self._line_is_open:
            echo()
        self._line_is_open = False


def interrupted_line(progress: Progress) -> str:
    """Returns the sentence for a run that Ctrl-C broke off. A tool that was called may have acted."""
    if not progress.run_id:
        return "interrupted before a run began"
    names = ", ".join(progress.under_way.values())
    if not names:
        return f"{progress.run_id} was interrupted; `toolcaddie trail {progress.run_id}` shows how far it came"
    return (
        f"{progress.run_id} was interrupted during {names}: whether it took effect is not known. "
        f"`toolcaddie runs {progress.run_id}` shows the call, and `toolcaddie runs settle` records what you find out"
    )


def classified_line(classification: Classification) -> str:
    """Returns the answer of the classifier, a model that names the categories of a request, as one line."""
    if classification.how == "failed":
        return f"the classifier could not say: {shortened(classification.detail, _RESULT_SHOWN)}"
    names = ", ".join(classification.categories) or "none"
    return (
        f"categories: {names} ({'as before' if classification.how == 'kept' else classification.model or 'classifier'})"
    )


def answered_line(event: ModelAnswered) -> str:
    """Returns the attempts behind an answer, or the provider that answered if there was one attempt."""
    attempts = [
        attempt_text(attempt.provider, attempt.model, attempt.how, attempt.outcome, attempt.detail)
        for attempt in event.attempts
    ]
    return "; ".join(attempts) or f"{event.provider}:{event.model} answered"


def selected_line(selection: Selection) -> str:
    """Returns a selection as one line: the number of tools and their categories."""
    names = f" ({', '.join(selection.categories)})" if selection.categories else ""
    none = "; nothing fitted the message" if selection.no_match else ""
    return f"{len(selection.tools)} of {selection.catalog_size} tools selected{names}{none}"


def progress_line(event: CallProgressed) -> str:
    """Returns how far a call has come: `export_clients: 3 of 8, writing`."""
    amount = f"{event.done:g}" if event.total is None else f"{event.done:g} of {event.total:g}"
    return f"{event.tool}: {amount}{f', {event.message}' if event.message else ''}"


def denied_line(event: CallDecided) -> str:
    """Returns a call that the policy or the tool's source refused, with the reason, as one line."""
    reason = event.decision.reason or f"the rule {event.decision.rule}"
    return f"{_call_text(event.call)} refused: {shortened(reason, _RESULT_SHOWN)}"


def unapproved_line(approval: Approval) -> str:
    """Returns a call that was not approved as one line: refused by the person at this terminal, by somebody else, or by the
    answer that the settings give."""
    arguments = msgspec.json.encode(approval.arguments).decode()
    call = _call_text(ToolCall(id=approval.call_id, name=approval.tool, arguments=arguments))
    by = approval.answered_by
    if by is None:
        return f"{call} not approved"
    return f"{call} refused by {'you' if (by.id, by.channel) == (user_name(), 'terminal') else by.id}"


def call_line(event: CallFinished) -> str:
    """Returns a call's name, outcome and duration as one line."""
    outcome = "ok" if event.result.success else f"{event.result.error}: {shown_text(event.result.content)}"
    if event.result.cached:
        outcome += ", kept from an equal call"
    return f"{_call_text(event.call)} {shortened(outcome, _RESULT_SHOWN)} ({event.seconds * 1000:.0f} ms)"


def call_json(event: CallFinished) -> dict[str, Any]:
    """Returns the JSON of a finished call, an entry of `tool_calls` in the output of `run --json`."""
    result = event.result
    value: dict[str, Any] = {
        "id": event.call.id,
        "name": event.call.name,
        "arguments": decoded(event.call.arguments),
        "success": result.success,
        "content": shown_text(result.content),
        "seconds": round(event.seconds, 6),
        "cached": result.cached,
    }
    return value if result.success else {**value, "error": result.error}


def decoded(text: str) -> Any:
    """Returns the value of a JSON text, or the text itself if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text


def _call_text(call: ToolCall) -> str:
    """Returns the first half of a line about a call: the name of the tool and the shortened arguments."""
    return f"{call.name} {shortened(call.arguments, _ARGUMENTS_SHOWN)} →"


def _meta_outcome(event: MetaCalled) -> str:
    """Returns what a call of a meta tool (one of Toolcaddie's own, such as `request_more_tools`) did: the tools that it added,
    otherwise its shortened result."""
    if event.added:
        return f"added {', '.join(event.added)}"
    return shortened(shown_text(event.result.content), _RESULT_SHOWN)
