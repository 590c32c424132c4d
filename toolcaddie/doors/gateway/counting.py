"""Counts the tokens of a request before it is sent (`/v1/messages/count_tokens`, `/v1/responses/input_tokens`).

The tools are selected first, as they are for the request itself, because only the selected tools are sent. An upstream of the
same API counts them; in front of any other upstream the number is an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.message import ModelRequest, message_tokens
from toolcaddie.core.schema.encoding import BYTES_PER_TOKEN
from toolcaddie.core.wire import DoorRequest, Envelope
from toolcaddie.doors.gateway.background import BackgroundResponses
from toolcaddie.doors.gateway.deferring import Deferring
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.handler import ModelHandler
from toolcaddie.doors.gateway.responses import ResponsesHandler
from toolcaddie.doors.gateway.router import Caller
from toolcaddie.doors.gateway.serving import Serving
from toolcaddie.doors.gateway.stored import StoredResponses
from toolcaddie.doors.gateway.tool_lists import ClientTools
from toolcaddie.ports.wires import DoorWire
from toolcaddie.wires.bodies import ENCODER
from toolcaddie.wires.messages.tools import WireTools
from toolcaddie.wires.responses.messages import ToolForms


class Counting(ModelHandler):
    """Counts the tokens of a request after its tools were selected."""

    _spends = False

    def _forms_of(self, definitions: Sequence[Any]) -> Sequence[Any]:
        """Returns definitions of tools in the form of the door's API."""
        raise NotImplementedError

    def _count(self, tokens: int) -> Mapping[str, Any]:
        """Returns the answer with an estimated number of tokens."""
        return {"input_tokens": tokens}

    async def _run(
        self,
        exchange: Exchange,
        *,
        run_id: str,
        lease: int | None = None,
        door_request: DoorRequest,
        tools: ClientTools,
        envelope: Envelope,
        use_catalog: bool,
        principal: Principal,
        headers: Mapping[str, str],
        resumes: bool = False,
    ) -> None:
        request, _ = await self._run_requests.of(
            exchange,
            door_request,
            tools,
            principal,
            use_catalog=use_catalog,
            headers=headers,
            run_id=run_id,
            lease=lease,
        )
        definitions = self._runtime.preview(request)[1].definitions
        if self._forwarder is not None:
            fields: dict[str, Any] = {**envelope.fields, "model": request.model}
            if definitions or envelope.has_tools:
                fields["tools"] = self._forms_of(definitions)
            body = msgspec.json.encode(fields)
            await self._forward(self._forwarder, exchange, body, headers, envelope)
            return
        size = sum(len(_encoded(definition)) for definition in definitions)
        tokens = message_tokens(request.messages) + int(size / BYTES_PER_TOKEN)
        await exchange.answer(200, ENCODER.encode(self._count(tokens)), {})


class CountHandler(Counting):
    """Answers the Messages API's requests to count tokens. A request without tools is passed on unchanged, as on the door
    itself."""

    def __init__(self, wire: DoorWire, serving: Serving) -> None:
        super().__init__(wire, serving)
        self._forward_path += "/count_tokens"
        self._forms = WireTools()

    def _forms_of(self, definitions: Sequence[Any]) -> Sequence[Any]:
        return [self._forms.of(definition).plain for definition in definitions]


class InputTokensHandler(Counting, ResponsesHandler):
    """Answers the Responses API's requests to count tokens, with the input of the stored response that they continue."""

    def __init__(
        self,
        wire: DoorWire,
        serving: Serving,
        deferring: Deferring,
        stored: StoredResponses,
        background: BackgroundResponses,
    ) -> None:
        super().__init__(wire, serving, deferring, stored, background)
        self._forward_path += "/input_tokens"
        self._forms = ToolForms()

    def _forwards(self, exchange: Exchange, envelope: Envelope, caller: Caller, principal: Principal) -> bool:
        """Returns True if the request is passed on unchanged. With the server's key it is not if it refers to something that the
        key would open."""
        if self._may_know(exchange, caller):
            return super()._forwards(exchange, envelope, caller, principal)
        refers = any(bytes(envelope.fields.get(name, b"null")) != b"null" for name in ("conversation", "prompt"))
        return not self._has_choice(exchange, envelope, principal) and not refers

    def _forms_of(self, definitions: Sequence[Any]) -> Sequence[Any]:
        sent, _ = self._forms.split(ModelRequest(model="", messages=(), tools=tuple(definitions)))
        return [form for _, form in sent]

    def _count(self, tokens: int) -> Mapping[str, Any]:
        return {"object": "response.input_tokens", "input_tokens": tokens}


def _encoded(definition: Any) -> bytes:
    return bytes(definition) if isinstance(definition, msgspec.Raw) else ENCODER.encode(definition)
