"""A run shown while it goes on: what happens on stderr, the answer on stdout."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import msgspec
from rich.console import Console
from rich.status import Status
from rich.text import Text

from toolcaddie.core.content import shown_text
from toolcaddie.core.delivery import Delivery
from toolcaddie.core.events import (
    CallFinished,
    CallProgressed,
    LimitReached,
    MetaCalled,
    ModelAnswered,
    ModelAsked,
    RequestClassified,
    RunEvent,
    RunFinished,
    RunPaused,
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
from toolcaddie.doors.cli.output import note, shortened
from toolcaddie.util.text import visible_line

_ARGUMENTS_SHOWN = 80
_RESULT_SHOWN = 100


@dataclass(slots=True, kw_only=True)
class Seen:
    """The run as shown so far; grows with its events."""

    run_id: str = ""
    selection: Selection | None = None
    delivery: Delivery | None = None
    """The first tool array."""
    calls: list[CallFinished] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    """The requests behind those answers that took several."""
    result: RunResult | None = None
    pending: bool = False

    def take(self, event: RunEvent) -> None:
        match event:
            case RunStarted():
                self.run_id = event.run_id
            case ToolsSelected():
                self.selection = event.selection
            case ToolsDelivered() if self.delivery is None:
                self.delivery = event.delivery
            case ModelAnswered():
                self.attempts += event.attempts
            case CallFinished():
                self.calls.append(event)
            case RunPaused():
                self.pending = True
            case RunFinished():
                self.result = event.result


class Steps:
    """Prints a run's events. `quiet`: nothing but a spinner on a terminal. `live`: the answer as it comes, else nobody
    prints it here."""

    def __init__(self, *, quiet: bool, live: bool) -> None:
        self.seen = Seen()
        self._quiet = quiet
        self._live = live
        self._shown = ""
        """The answer's text of this round that is on the screen."""
        self._spinner: Status | None = None
        if sys.stderr.isatty():
            self._spinner = Console(stderr=True).status("choosing tools")

    def __enter__(self) -> Self:
        self._wait("choosing tools")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._work()
        self._break_line()

    def show(self, event: RunEvent) -> None:
        self.seen.take(event)
        match event:
            case RequestClassified():
                self._say(classified_line(event.classification))
            case ToolsSelected():
                self._say(selected_line(event.selection))
            case ModelAsked():
                self._break_line()
                self._wait(f"asking {event.model or event.provider}")
            case TextDelta() if self._live and event.text:
                self._work()
                echo(event.text, nl=False)
                self._shown += event.text
            case ModelAnswered():
                if event.attempts or event.provider:
                    self._say(answered_line(event))
                if not event.calls:
                    return
                self._break_line()
                self._wait(f"running {', '.join(call.name for call in event.calls)}")
            case MetaCalled():
                self._say(f"{_call_text(event.call)} {_added(event)}")
            case CallProgressed():
                self._wait(progress_line(event))
            case CallFinished():
                self._say(call_line(event))
            case LimitReached():
                self._say(f"limit reached: {event.detail}")
            case RunFinished() if self._live and event.result.text != self._shown:
                # What a `respond` call or a limit puts in was never streamed.
                self._work()
                self._break_line()
                echo(event.result.text)
            case _:
                pass

    def _say(self, text: str) -> None:
        if self._quiet:
            return
        self._work()
        self._break_line()
        note(text)

    def _wait(self, doing: str) -> None:
        if self._spinner is not None:
            self._spinner.update(Text(visible_line(doing)))
            self._spinner.start()

    def _work(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()

    def _break_line(self) -> None:
        if self._shown and not self._shown.endswith("\n"):
            echo()
        self._shown = ""


def classified_line(classification: Classification) -> str:
    """The first stage's answer, in a line."""
    if classification.how == "failed":
        return f"the classifier could not say: {shortened(classification.detail, _RESULT_SHOWN)}"
    named = ", ".join(classification.categories) or "none"
    return (
        f"categories: {named} ({'as before' if classification.how == 'kept' else classification.model or 'classifier'})"
    )


def answered_line(event: ModelAnswered) -> str:
    """The provider that answered, if it differs from the one asked, and those tried before."""
    tried = [attempt_text(one.provider, one.model, one.how, one.outcome, one.detail) for one in event.attempts]
    return "; ".join(tried) or f"{event.provider}:{event.model} answered"


_OUTCOMES = {"answered": "answered", "not_called": "called no tool", "failed": "failed"}


def attempt_text(provider: str, model: str, how: str, outcome: str, detail: str) -> str:
    """One request on the way to an answer: `openai:gpt-5-mini (required) called no tool`."""
    rung = "" if how == "plain" else f" ({how})"
    why = f": {shortened(detail, _RESULT_SHOWN)}" if detail and outcome == "failed" else ""
    return f"{provider}:{model}".rstrip(":") + f"{rung} {_OUTCOMES.get(outcome, outcome)}{why}"


def selected_line(selection: Selection) -> str:
    names = f" ({', '.join(selection.categories)})" if selection.categories else ""
    none = "; nothing fitted the message" if selection.no_match else ""
    return f"{len(selection.tools)} of {selection.catalog_size} tools selected{names}{none}"


def progress_line(event: CallProgressed) -> str:
    """Returns how far a call has come: `export_clients: 3 of 8, writing`."""
    amount = f"{event.done:g}" if event.total is None else f"{event.done:g} of {event.total:g}"
    return f"{event.tool}: {amount}{f', {event.message}' if event.message else ''}"


def call_line(event: CallFinished) -> str:
    """One line: what was called, how it went, how long it took."""
    outcome = "ok" if event.result.success else f"{event.result.error}: {shown_text(event.result.content)}"
    if event.result.cached:
        outcome += ", kept from an equal call"
    return f"{_call_text(event.call)} {shortened(outcome, _RESULT_SHOWN)} ({event.seconds * 1000:.0f} ms)"


def call_json(event: CallFinished) -> dict[str, Any]:
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
    """JSON as a value; what is no JSON as the text it is."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text


def _call_text(call: ToolCall) -> str:
    return f"{call.name} {shortened(call.arguments, _ARGUMENTS_SHOWN)} →"


def _added(event: MetaCalled) -> str:
    if event.added:
        return f"added {', '.join(event.added)}"
    return shortened(shown_text(event.result.content), _RESULT_SHOWN)
