"""Makes the answer to a client of the gateway from a run: a whole answer from its result, or a stream from its events.

A run asks the model in rounds: one request to the model, then the tool calls of its answer. The client sees the texts of all
rounds as one answer. `handler` uses this module; a wire then writes the answer in the format of the client's API.
"""

from __future__ import annotations

from toolcaddie.core.events import ClientCallDelta, ModelAsked, RunEvent, TextDelta
from toolcaddie.core.message import ModelDelta, ModelReply, RawBody
from toolcaddie.core.run import RunResult
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.transcript import BETWEEN_ROUNDS, approval_text, visible_answer
from toolcaddie.ports.wires import DoorWire

_RAW_WIRE = "chat"
"""The only wire (API format) whose chunks are in the field `raw` of events."""


class AnswerDeltas:
    """Converts the events of a run, in order, to pieces of one streamed answer.

    `wire`: the API format of the client. It gets the provider's own chunks and events only if they have this format.
    """

    def __init__(self, *, wire: str) -> None:
        self._wire = wire
        self._takes_raw = wire == _RAW_WIRE
        self._wrote_text = False
        self._new_round = False
        self.passed_events = False
        """True if the client has received events of the provider, and so all of its blocks."""

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
        text, before = event.text, ""
        if text:
            before = BETWEEN_ROUNDS if self._new_round else ""
            self._new_round, self._wrote_text = False, True
        if event.event and event.wire == self._wire:
            self.passed_events = True
            return ModelDelta(text=before, event=event.event)
        raw = event.raw if self._takes_raw else None
        return ModelDelta(text=before + text, raw=raw)


def reply_of(result: RunResult, wire: DoorWire) -> ModelReply:
    """Returns the whole answer to a client of `wire`: the model's texts of all rounds, and the calls of the client's tools. If
    the provider uses the same wire, the answer also has the provider's own blocks.

    Its `raw` has the other fields of the provider's answer, which are written if client and provider use the same API.
    """
    return ModelReply(
        message=visible_answer(result, native=_own_blocks(result, wire), author=wire.name),
        finish_reason=_finish_reason(result),
        usage=result.usage,
        model=result.state.model,
        raw=_raw(result),
    )


def _own_blocks(result: RunResult, wire: DoorWire) -> tuple[JsonObject, ...]:
    """Returns the provider's own blocks; none if the last answer came over another wire."""
    if result.raw is None or result.raw.wire != wire.name:
        return ()
    ending = approval_text(result) if result.status == "pending" else ""
    return tuple(wire.own_blocks(result.messages, result.client_calls, ending))


def _raw(result: RunResult) -> RawBody | None:
    """Returns the body of the provider's last answer. Its usage is omitted after several model calls, because the client's answer
    reports the sum of all calls."""
    if result.raw is None or result.state.usage == result.state.last_usage:
        return result.raw
    fields = {name: value for name, value in result.raw.fields.items() if name != "usage"}
    return RawBody(wire=result.raw.wire, fields=fields)


def _finish_reason(result: RunResult) -> str:
    """Returns `content_filter` if a tool ended the run with a refusal, the provider's reason if the answer was cut short, else
    `tool_calls` or `stop`."""
    if result.ending == "refusal":
        return "content_filter"
    reason = result.state.finish_reason
    if reason not in ("", "stop", "tool_calls", "function_call"):
        return reason
    return "tool_calls" if result.client_calls else "stop"
