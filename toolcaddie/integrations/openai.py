"""Selection for loops around the `openai` SDK, with chat completions or the Responses API.

tools = OpenAITools(definitions)
client.chat.completions.create(model=model, messages=messages, tools=tools.for_chat(messages))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import JsonObject
from toolcaddie.integrations.offering import (
    FIND_DESCRIPTION,
    FIND_SCHEMA,
    FIND_TOOLS,
    Entry,
    Offering,
    Turn,
    missing,
    query_of,
)
from toolcaddie.integrations.transcripts import chat_turns, response_turns
from toolcaddie.ports import Embedder

try:
    import openai as _openai  # noqa: F401 - refused here if it is missing, not at the first request
except ModuleNotFoundError as error:
    raise missing(error, "openai") from error


class OpenAITools:
    """Tools of an application, in OpenAI's format of chat completions or of Responses. The options are those of `Offering`."""

    find_tools = FIND_TOOLS
    """The name of the tool that `answer` serves."""

    def __init__(
        self,
        tools: Iterable[Any],
        *,
        max_tools: int = 12,
        always: Iterable[str] = (),
        provider_cap: int = 128,
        embedder: Embedder | str | None = None,
    ) -> None:
        self._functions = {function["name"]: function for function in map(_function, tools)}
        self._entries = [Entry(name, str(one.get("description") or "")) for name, one in self._functions.items()]
        self._offering = Offering(max_tools=max_tools, always=always, provider_cap=provider_cap, embedder=embedder)

    def for_chat(self, messages: Sequence[Any]) -> list[Any]:
        """Returns the tools for `client.chat.completions.create`."""
        return [{"type": "function", "function": function} for function in self._selected(chat_turns(messages))]

    def for_responses(self, input: str | Sequence[Any]) -> list[Any]:  # noqa: A002 - the SDK's name
        """Returns the tools for `client.responses.create`. `input` must be the whole conversation."""
        turns = response_turns(input)
        return [{"type": "function", "strict": False, **function} for function in self._selected(turns)]

    def answer(self, arguments: str) -> str:
        """Returns the result of a call of `find_tools`. `arguments`: the JSON text of the call."""
        return self._offering.answer(self._entries, query_of(arguments))

    def _selected(self, turns: Sequence[Turn]) -> list[JsonObject]:
        return [_FIND, *(self._functions[name] for name in self._offering.names(self._entries, turns))]


_FIND: JsonObject = {"name": FIND_TOOLS, "description": FIND_DESCRIPTION, "parameters": FIND_SCHEMA}


def _function(tool: Any) -> JsonObject:
    """Returns name, description and parameters of a definition in either format. Raises `ConfigError`."""
    inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise ConfigError(f"OpenAITools takes definitions of functions in OpenAI's format, not {str(tool)[:80]!r}")
    return {key: value for key, value in inner.items() if key != "type"}
