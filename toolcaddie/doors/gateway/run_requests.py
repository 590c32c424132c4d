"""Makes the request of a run from the request of a client."""

from __future__ import annotations

from collections.abc import Mapping

from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunRequest, Transcript
from toolcaddie.core.wire import DoorRequest
from toolcaddie.doors.gateway.essential import PIN_HEADER, Pins, pins_of
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.hidden import Restored
from toolcaddie.doors.gateway.serving import Serving
from toolcaddie.doors.gateway.tool_lists import ClientTools
from toolcaddie.ports.wires import DoorWire
from toolcaddie.util.replacing import replace


class RunRequests:
    """Makes the requests of the runs of one door, whose clients use `wire`."""

    def __init__(self, wire: DoorWire, serving: Serving) -> None:
        self._wire = wire
        self._runtime = serving.runtime
        self._hidden = serving.hidden
        self._bots = serving.bots
        self._pinned = serving.pinned

    async def of(
        self,
        exchange: Exchange,
        door_request: DoorRequest,
        tools: ClientTools,
        principal: Principal,
        *,
        use_catalog: bool,
        headers: Mapping[str, str],
        run_id: str,
        lease: int | None,
    ) -> tuple[RunRequest, Restored]:
        """Returns the request of the run, with the parts of the conversation that the client never received, and with the tools
        that are always sent."""
        restored = await self._hidden.restore(door_request.messages, principal)
        request = RunRequest(
            messages=restored.messages,
            principal=principal,
            model=self._bots.model_of(door_request.model),
            client_tools=tools.tools,
            use_catalog=use_catalog,
            tool_choice=door_request.tool_choice,
            params=door_request.params,
            headers=headers,
            conversation=Transcript(
                name=_conversation_name(exchange, door_request, restored),
                digest=restored.digest,
                answered=restored.answered,
            ),
            cache_key=restored.opening,
            client_wire=self._wire.name,
            run_id=run_id,
            lease=lease,
            survives=lease is not None,
        )
        pins = self._pins(exchange, door_request, tools, request)
        if pins.tools:
            request = replace(request, essential=pins.tools)
        if pins.unknown:
            exchange.note("x-toolcaddie-unpinned", ",".join(pins.unknown))
        return request, restored

    def _pins(self, exchange: Exchange, door_request: DoorRequest, tools: ClientTools, request: RunRequest) -> Pins:
        """Returns the essential tools of the request, which are sent even if the selection gives them a low score."""
        return pins_of(
            exchange.headers.get(PIN_HEADER.encode()),
            tools.facts,
            door_request.tool_choice,
            door_request.messages,
            lambda: [tool.name for tool in self._runtime.view(request)],
            self._pinned,
        )


def _conversation_name(exchange: Exchange, door_request: DoorRequest, restored: Restored) -> str:
    """Returns the client's own name for the conversation; empty if the client sent none.

    A client may use one `prompt_cache_key` for a whole application, so the key identifies a conversation only together with the
    conversation's opening.
    """
    name = exchange.headers.get(b"x-toolcaddie-conversation")
    if name:
        return name.decode("latin-1")[:200]
    key = door_request.params.get("prompt_cache_key")
    return f"{key[:200]} {restored.opening}" if isinstance(key, str) and key else ""
