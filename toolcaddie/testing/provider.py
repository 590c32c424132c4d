"""A provider that answers from a script in the process of the test, without a server: for tests of the loop and of selection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from toolcaddie.core.message import ModelDelta, ModelReply, ModelRequest, RawBody
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.vocabulary import WireName, wire_named
from toolcaddie.testing.chat import CHAT
from toolcaddie.testing.script import Reply, Script, model_reply
from toolcaddie.wires.chat.stream import ChatReader

_WITH_USAGE = {"stream_options": {"include_usage": True}}


class ScriptedProvider:
    """Answers from a script, and records the requests.

    The script is a list of steps, one for each request, or one function that makes the step for every request. A step is a reply
    (`say`, `call`, `calls`), an exception, which is raised, or a function of the request, sync or async, that returns either.
    `wire`: the API whose features the planner may use, such as "messages". None: the API of the shipped provider with this
    `name`, else chat completions.
    """

    def __init__(
        self,
        script: Sequence[Any] | Callable[[ModelRequest], Any],
        *,
        name: str = "scripted",
        models: Sequence[str] = ("scripted",),
        wire: WireName | None = None,
    ) -> None:
        self.name = name
        self.wire: WireName = wire or wire_named(name)
        self.requests: list[ModelRequest] = []
        self.closed = False
        self._models = models
        self._script: Script[ModelRequest, Reply | Exception] = Script(script)

    async def complete(self, request: ModelRequest) -> ModelReply:
        reply = await self._next(request)
        return self._model_reply(request, reply)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        reply = await self._next(request)
        reader = ChatReader(who=self.name, show_usage=True)
        for data in CHAT.events(reply, answer_id=self._id(), model=request.model, body=_WITH_USAGE):
            delta = reader.add(data)
            if delta is not None:
                yield delta
        yield self._model_reply(request, reply)

    async def models(self) -> Sequence[JsonObject]:
        return [{"id": model, "object": "model", "created": 0, "owned_by": self.name} for model in self._models]

    async def close(self) -> None:
        self.closed = True

    async def _next(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        step = await self._script.next(request)
        if isinstance(step, Exception):
            raise step
        return step

    def _id(self) -> str:
        return f"{self.name}-{len(self.requests)}"

    def _model_reply(self, request: ModelRequest, reply: Reply) -> ModelReply:
        raw = CHAT.whole(reply, answer_id=self._id(), model=request.model)
        return model_reply(reply, model=request.model, raw=RawBody(wire="chat", fields=raw))
