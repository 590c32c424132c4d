"""Turns the events of a run into the state of a turn, and into the pieces that a browser shows while the answer is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolcaddie.core.content import shown_text
from toolcaddie.core.events import (
    CallDecided,
    CallFinished,
    CallProgressed,
    MetaCalled,
    ModelAnswered,
    ModelAsked,
    RunEvent,
    RunFailed,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    TextDelta,
    ToolsSelected,
)
from toolcaddie.core.tool import ToolCall, ToolResult
from toolcaddie.doors.console.playground.chats import Outcome, Status, Step, Turn
from toolcaddie.util.replacing import replace
from toolcaddie.util.text import visible

Piece = Mapping[str, Any]
"""A piece of an answer for a browser: `kind`, and texts without characters that nobody sees."""

_NAMES = 40
"""The largest number of names of tools that are shown."""
_LONGEST = 4_000
_LONGEST_ANSWER = 200_000
_REFUSED = "It was refused before anything ran, and the model was told why."
"""The text of a call that has no event of its own: its name is unknown, an argument is wrong, or a limit is reached."""


class Telling:
    """The state of a turn, which each event of its run changes."""

    def __init__(self, turn: Turn) -> None:
        self.turn = replace(turn, status="running", error="", approvals=())
        self._steps: dict[str, Step] = {step.id: step for step in turn.steps}
        self._text = ""
        self._asked_for: list[ToolCall] = []
        """The calls of the last answer of the model of which no event was heard yet."""

    def take(self, event: RunEvent) -> Iterator[Piece]:
        """Changes the state, and yields what a browser is told."""
        if isinstance(event, ModelAsked | RunFinished | RunFailed):
            yield from [self._step(call, "failed", _REFUSED) for call in self._asked_for]
            self._asked_for = []
        elif isinstance(event, CallDecided | MetaCalled | CallFinished):
            self._asked_for = [call for call in self._asked_for if not _is_same(call, event.call)]
        match event:
            case RunStarted() | RunResumed():
                self._change(run=event.run_id)
            case ToolsSelected():
                names = event.selection.names
                self._change(tools=names[:_NAMES], sent=len(names), visible=event.selection.catalog_size)
                shown = [visible(name) for name in names[:_NAMES]]
                yield {"kind": "tools", "names": shown, "sent": len(names), "visible": event.selection.catalog_size}
            case ModelAsked():
                self._change(model=event.model)
                self._text = ""
                yield {"kind": "asked", "model": visible(event.model), "tools": event.tools}
            case TextDelta() if event.text:
                self._text += event.text
                yield {"kind": "text", "text": visible(event.text)}
            case ModelAnswered():
                self._asked_for = list(event.calls)
                if event.model:
                    self._change(model=event.model)
            case CallProgressed():
                yield {"kind": "progress", "id": event.call_id, "text": visible(event.message)[:_LONGEST]}
            case CallDecided() if event.decision.verdict == "ask":
                yield self._step(event.call, "waits", event.decision.reason)
            case CallDecided() if event.decision.verdict == "deny":
                yield self._step(event.call, "failed", event.decision.reason)
            case CallDecided():
                yield self._step(event.call, "called")
            case MetaCalled():
                yield self._step(event.call, _outcome(event.result), shown_text(event.result.content))
            case CallFinished():
                text = shown_text(event.result.content)
                yield self._step(event.call, _outcome(event.result), text, seconds=event.seconds)
            case RunPaused():
                waiting = tuple(each.approval for each in event.state.pending if each.approval)
                self._end("waits", approvals=waiting)
            case RunFinished():
                usage = event.result.usage
                self._end(
                    "completed",
                    text=event.result.text[:_LONGEST_ANSWER],
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                )
            case RunFailed():
                self._end("failed", error=event.error[:_LONGEST])

    def fail(self, message: str) -> None:
        """Ends the turn with an error, unless it has ended."""
        if self.turn.status == "running":
            self._end("failed", error=message[:_LONGEST])

    def stop(self) -> None:
        """Ends the turn because nobody waits for it any more."""
        if self.turn.status == "running":
            self._end("stopped", text=self._text[:_LONGEST_ANSWER])

    def _step(self, call: ToolCall, outcome: Outcome, text: str = "", *, seconds: float = 0.0) -> Piece:
        step = Step(
            id=call.id,
            tool=call.name,
            arguments=call.arguments[:_LONGEST],
            outcome=outcome,
            text=text[:_LONGEST],
            seconds=round(seconds, 3),
        )
        self._steps[call.id] = step
        self._change(steps=tuple(self._steps.values()))
        return {
            "kind": "step",
            "id": step.id,
            "tool": visible(step.tool),
            "arguments": visible(step.arguments),
            "outcome": outcome,
            "text": visible(step.text),
        }

    def _end(self, status: Status, **changes: Any) -> None:
        self._change(status=status, **changes)

    def _change(self, **changes: Any) -> None:
        self.turn = replace(self.turn, **changes)


def _outcome(result: ToolResult) -> Outcome:
    return "failed" if result.is_error else "done"


def _is_same(call: ToolCall, other: ToolCall) -> bool:
    """Returns True for two records of one call. The engine gives a call a new id if an earlier one has it."""
    return call.id == other.id or (call.name, call.arguments) == (other.name, other.arguments)
