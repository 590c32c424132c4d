"""A run as one answer: its result as the reply of a model, its events as pieces of that reply."""

from __future__ import annotations

from toolcaddie.core.events import ClientCallDelta, ModelAsked, RunEvent, TextDelta
from toolcaddie.core.message import ModelDelta, ModelReply
from toolcaddie.core.run import RunResult
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.transcript import BETWEEN_ROUNDS, approval_text, visible_answer

_RAW_WIRE = "chat"
"""The wire that `raw` of results and events is in."""


class AnswerDeltas:
    """The events of a run as pieces of one answer. Feed it in order."""

    def __init__(self, *, wire: str) -> None:
        self._takes_raw = wire == _RAW_WIRE
        self._wrote_text = False
        self._new_round = False

    def of(self, event: RunEvent) -> ModelDelta | None:
        """None: the event is not for the client."""
        match event:
            case TextDelta():
                return self._text(event)
            case ClientCallDelta():
                return ModelDelta(calls=(event.delta,))
            case ModelAsked():
                self._new_round = self._wrote_text
        return None

    def waiting(self, result: RunResult) -> ModelDelta | None:
        """Returns the words with which a run ends that waits for a person; None: it does not."""
        if result.status != "pending":
            return None
        return ModelDelta(text=(BETWEEN_ROUNDS if self._wrote_text else "") + approval_text(result))

    def _text(self, event: TextDelta) -> ModelDelta:
        text = event.text
        if text:
            if self._new_round:
                text = BETWEEN_ROUNDS + text
            self._new_round, self._wrote_text = False, True
        return ModelDelta(text=text, raw=event.raw if self._takes_raw else None)


def reply_of(result: RunResult, *, wire: str) -> ModelReply:
    """Returns the answer to a client: all that the model said in its rounds, and the calls that are the client's to make."""
    return ModelReply(
        message=visible_answer(result),
        finish_reason=_finish_reason(result),
        usage=result.usage,
        model=result.state.model,
        raw=_raw(result) if wire == _RAW_WIRE else None,
    )


def _raw(result: RunResult) -> JsonObject | None:
    """Returns the provider's last body. Its figures count only where there was one model call: ours are the sum."""
    if result.raw is None or result.state.usage == result.state.last_usage:
        return result.raw
    return {name: value for name, value in result.raw.items() if name != "usage"}


def _finish_reason(result: RunResult) -> str:
    """Returns the provider's own where it says that the answer was cut short; else what the client has before it."""
    reason = result.state.finish_reason
    if reason not in ("", "stop", "tool_calls", "function_call"):
        return reason
    return "tool_calls" if result.client_calls else "stop"
