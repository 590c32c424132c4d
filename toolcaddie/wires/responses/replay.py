"""Writes a whole response as the events of a stream: for an upstream that answers a request for a stream with a whole response,
and for clients that ask for the events of a stored response."""

from __future__ import annotations

from typing import Any

import msgspec

from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import AnswerHead
from toolcaddie.wires.bodies import decoded
from toolcaddie.wires.responses.messages import REASONING
from toolcaddie.wires.responses.own_calls import CUSTOM_CALL, FUNCTION_CALL, is_call
from toolcaddie.wires.responses.replies import read_item, shaped
from toolcaddie.wires.responses.stream import ResponsesWriter

_UNFINISHED: JsonObject = {
    "status": "in_progress",
    "output": [],
    "error": None,
    "incomplete_details": None,
    "usage": None,
}
"""Fields of a response in the events before the last one."""
_CALL_TEXTS = {FUNCTION_CALL: "arguments", CUSTOM_CALL: "input"}
"""Fields of calls that are streamed in pieces, by the types of the calls."""
_LAST_EVENTS = ("completed", "incomplete", "failed", "in_progress", "queued")
"""Statuses of a response that are also the names of events."""


_RESPONSE = msgspec.json.Decoder(dict[str, Any])


def replayed(body: bytes, *, who: str) -> bytes:
    """Returns the events of a response: its beginning, its items, and the response itself, unchanged. `who` names its author in
    errors. Raises `ProviderProtocolError` if it is not a response."""
    response = shaped(body, _RESPONSE, who)
    output = response.get("output")
    if not isinstance(output, list):
        decoded(body, who=who)  # an error object
        raise ProviderProtocolError(f"{who} answered in an unknown shape: there is no output")
    return _Replay().all(response, [_item(item, place, who) for place, item in enumerate(output)])


class _Replay(ResponsesWriter):
    """Writes the events of one response."""

    def __init__(self) -> None:
        super().__init__(AnswerHead(id="", created=0, model=""))

    def all(self, response: JsonObject, items: list[JsonObject]) -> bytes:
        begun = {**response, **_UNFINISHED}
        out = self._event("response.created", response=begun) + self._event("response.in_progress", response=begun)
        out += b"".join(map(self.item, items))
        return out + self._event(f"response.{_ending(response, items)}", response=response)


def _ending(response: JsonObject, items: list[JsonObject]) -> str:
    """Returns the name of the last event. A response without a status has failed if it has an error and nothing else."""
    status = response.get("status")
    if status is None:
        return "failed" if response.get("error") and not items else "completed"
    return str(status) if status in _LAST_EVENTS else "failed"


def _item(item: Any, place: int, who: str) -> JsonObject:
    """Returns an item with the fields that its events need. Items that are not streamed in pieces stay as they are."""
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        raise ProviderProtocolError(f"{who} answered in an unknown shape: an item of the output has no type")
    read_item(item, who)
    whole: dict[str, Any] = {"id": f"item_{place}", **item}
    if is_call(whole):
        whole["call_id"] = str(whole.get("call_id") or whole["id"])
    if whole["type"] in _CALL_TEXTS:
        text = _CALL_TEXTS[whole["type"]]
        whole |= {text: str(whole.get(text) or ""), "name": str(whole.get("name") or "")}
    if whole["type"] == REASONING and not _are_parts(whole.get("summary")):
        raise ProviderProtocolError(f"{who} answered in an unknown shape: the summary of its reasoning is not a list")
    return whole


def _are_parts(parts: Any) -> bool:
    return parts is None or (isinstance(parts, list) and all(isinstance(part, dict) for part in parts))
