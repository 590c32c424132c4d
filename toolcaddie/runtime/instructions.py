"""Puts the system prompt of an agent in front of the conversation."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunContext, RunRequest
from toolcaddie.util.replacing import replace

Instructions = str | Callable[[RunContext], str | Awaitable[str]]
"""The system prompt: a text, or a function that makes it from the context of a run. If the text changes from run to run, the
provider's prompt cache is of no use for what follows it."""


def check_instructions(instructions: object) -> None:
    """Raises `ConfigError` for a value that is neither a text nor a function."""
    if instructions is not None and not isinstance(instructions, str) and not callable(instructions):
        raise ConfigError(
            f"instructions must be a text or a function of RunContext, not a {type(instructions).__name__}"
        )


async def with_instructions(
    request: RunRequest, instructions: Instructions | None, context: RunContext, note: str = ""
) -> RunRequest:
    """Returns the request with the instructions and `note` as its first message. They are made once for each run, so that every
    round begins with the same bytes."""
    text = await _text(instructions, context)
    whole = "\n\n".join(part for part in (text, note) if part)
    if not whole:
        return request
    return replace(request, messages=(Message(role="system", content=whole), *request.messages))


async def _text(instructions: Instructions | None, context: RunContext) -> str:
    """Returns the instructions as a text; a function is called for it. Raises `RequestError` if it returns something else."""
    if instructions is None or isinstance(instructions, str):
        return instructions or ""
    text = instructions(context)
    if inspect.isawaitable(text):
        text = await text
    if not isinstance(text, str):
        raise RequestError(f"the function given as instructions returned {text!r:.80}; it must return a text")
    return text
