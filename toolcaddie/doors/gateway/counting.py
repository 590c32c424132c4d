"""Counts the tokens of a request before it is sent (`/v1/messages/count_tokens`).

The tools are selected first, as they are for the request itself, because only the selected tools are sent. An upstream of the
same API counts them; in front of any other upstream the number is an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.message import message_tokens
from toolcaddie.core.schema.encoding import BYTES_PER_TOKEN
from toolcaddie.core.wire import DoorRequest, Envelope
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.handler import ModelHandler, Serving
from toolcaddie.doors.gateway.tool_lists import ClientTools
from toolcaddie.ports.wires import DoorWire
from toolcaddie.wires.bodies import ENCODER
from toolcaddie.wires.messages.tools import WireTools

_PATH = "/count_tokens"


class CountHandler(ModelHandler):
    """Answers requests to count tokens. A request without tools is passed on unchanged, as on the door itself."""

    def __init__(self, wire: DoorWire, serving: Serving) -> None:
        super().__init__(wire, serving)
        self._forward_path += _PATH
        self._forms = WireTools()

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
    ) -> None:
        request, _ = await self._run_request(
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
            forms = [self._forms.of(definition).plain for definition in definitions]
            body = msgspec.json.encode({**envelope.fields, "tools": forms})
            await self._forward(self._forwarder, exchange, body, headers, envelope)
            return
        size = sum(len(_encoded(definition)) for definition in definitions)
        tokens = message_tokens(request.messages) + int(size / BYTES_PER_TOKEN)
        await exchange.answer(200, ENCODER.encode({"input_tokens": tokens}), {})


def _encoded(definition: Any) -> bytes:
    return bytes(definition) if isinstance(definition, msgspec.Raw) else ENCODER.encode(definition)
