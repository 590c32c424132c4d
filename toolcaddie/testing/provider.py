"""A provider without a wire: a script in process, for tests of loops and selectors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.vocabulary import WireName, wire_named
from toolcaddie.testing.script import Reply, Script, completion, completion_chunks


class ScriptedProvider:
    """Answers from a script and keeps what it was asked.

    The script is a list of replies (`say`, `call`, `calls`) and exceptions, which are raised, or one function of the
    request that gives either; functions may stand in the list too, and may be async (to wait for something first).
    `wire`: the one whose means it is planned for; None: that of the provider called `name`, else chat completions.
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
        for chunk in completion_chunks(reply, answer_id=self._id(), model=request.model, include_usage=True):
            yield _delta(chunk)
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
        return f"chatcmpl-{self.name}-{len(self.requests)}"

    def _model_reply(self, request: ModelRequest, reply: Reply) -> ModelReply:
        return ModelReply(
            message=Message(role="assistant", content=reply.text, tool_calls=reply.calls, extra=reply.extra),
            finish_reason=reply.finish,
            usage=reply.usage,
            model=request.model,
            raw=completion(reply, answer_id=self._id(), model=request.model),
        )


def _delta(chunk: dict[str, Any]) -> ModelDelta:
    delta: dict[str, Any] = chunk["choices"][0]["delta"] if chunk["choices"] else {}
    return ModelDelta(
        text=delta.get("content") or "",
        calls=tuple(
            CallDelta(
                index=piece["index"],
                id=piece.get("id"),
                name=piece["function"].get("name"),
                arguments=piece["function"]["arguments"],
            )
            for piece in delta.get("tool_calls", ())
        ),
        raw=chunk,
    )
