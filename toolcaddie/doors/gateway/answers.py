"""Makes the answer to a client of the gateway from a run: a whole answer from its result, or a stream from its events.

A run asks the model in rounds: one request to the model, then the tool calls of its answer. The client sees the texts of all
rounds as one answer. `handler` uses this module; a wire then writes the answer in the format of the client's API.
"""

from __future__ import annotations

from toolcaddie.core.events import ClientCallDelta, ModelAsked, RunEvent, TextDelta
from toolcaddie.core.message import ModelDelta, ModelReply, RawBody
from toolcaddie.core.run import RunResult
from toolcaddie.core.transcript import BETWEEN_ROUNDS, approval_text, visible_answer

_RAW_WIRE = "chat"
"""The only wire (API format) whose chunks are in the field `raw` of events."""


class AnswerDeltas:
    """Converts the events of a run, in order, to pieces of one streamed answer.

    `wire`: the API format of the client. It gets the provider's own chunks (`raw`) only if they have this format.
    """

    def __init__(self, *, wire: str) -> None:
        self._takes_raw = wire == _RAW_WIRE
        self._wrote_text = False
        self._new_round = False

    def of(self, event: RunEvent) -> ModelDelta | None:
        """Returns the piece of the answer that the event carries; None: it carries none."""
        match event:
            case TextDelta():
                return self._text(event)
            case ClientCallDelta():
                return ModelDelta(calls=(event.delta,))
            case ModelAsked():
                self._new_round = self._wrote_text
        return None

    def approval_delta(self, result: RunResult) -> ModelDelta | None:
        """Returns the text that ends the answer of a run which waits for a person's approval; None: it does not wait."""
        if result.status != "pending":
            return None
        return ModelDelta(text=(BETWEEN_ROUNDS if self._wrote_text else "") + approval_text(result))

    def _text(self, event: TextDelta) -> ModelDelta:
        """Returns the event's text. An empty line precedes the first text of a later round."""
        text = event.text
        if text:
            if self._new_round:
                text = BETWEEN_ROUNDS + text
            self._new_round, self._wrote_text = False, True
        return ModelDelta(text=text, raw=event.raw if self._takes_raw else None)


def reply_of(result: RunResult) -> ModelReply:
    """Returns the whole answer to a client: the model's texts of all rounds, and the calls of the client's tools.

    Its `raw` has the other fields of the provider's answer, which are written if client and provider use the same API.
    """
    return ModelReply(
        message=visible_answer(result),
        finish_reason=_finish_reason(result),
        usage=result.usage,
        model=result.state.model,
        raw=_raw(result),
    )


def _raw(result: RunResult) -> RawBody | None:
    """Returns the body of the provider's last answer. Its usage is omitted after several model calls, because the client's answer
    reports the sum of all calls."""
    if result.raw is None or result.state.usage == result.state.last_usage:
        return result.raw
    fields = {name: value for name, value in result.raw.fields.items() if name != "usage"}
    return RawBody(wire=result.raw.wire, fields=fields)


def _finish_reason(result: RunResult) -> str:
    """Returns the provider's reason if the answer was cut short; else `tool_calls` or `stop`."""
    reason = result.state.finish_reason
    if reason not in ("", "stop", "tool_calls", "function_call"):
        return reason
    return "tool_calls" if result.client_calls else "stop"
