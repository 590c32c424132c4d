"""Pieces of a stream made from a whole answer, for servers that answer a request for a stream with a whole answer."""

from __future__ import annotations

from collections.abc import Iterator

from toolcaddie.core.message import CallDelta, ModelDelta, ModelReply


def pieces_of(reply: ModelReply) -> Iterator[ModelDelta]:
    """Yields the text and the calls of an answer."""
    if reply.message.text:
        yield ModelDelta(text=reply.message.text)
    for index, call in enumerate(reply.message.tool_calls):
        if not (call.extra and "type" in call.extra):  # custom calls are not streamed
            yield ModelDelta(calls=(CallDelta(index=index, id=call.id, name=call.name, arguments=call.arguments),))
