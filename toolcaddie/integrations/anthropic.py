"""Selection for loops around the `anthropic` SDK, also as the strategy of Anthropic's own tool search.

tools = AnthropicTools(definitions)
client.messages.create(model=model, max_tokens=4096, messages=messages, tools=tools.for_messages(messages))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolcaddie.core.errors import ConfigError
from toolcaddie.integrations.offering import (
    FIND_DESCRIPTION,
    FIND_SCHEMA,
    FIND_TOOLS,
    Entry,
    Offering,
    missing,
    query_of,
)
from toolcaddie.integrations.transcripts import anthropic_turns
from toolcaddie.ports import Embedder

try:
    import anthropic as _anthropic  # noqa: F401 - refused here if it is missing, not at the first request
except ModuleNotFoundError as error:
    raise missing(error, "anthropic") from error


class AnthropicTools:
    """Tools of an application, in Anthropic's format. The options are those of `Offering`.

    `deferred=True` uses the deferred loading of Anthropic's API: each request carries all tools, those that do not fit the first
    message are marked with `defer_loading`, and `find_tools` answers with references to tools. The list never changes then.
    """

    find_tools = FIND_TOOLS
    """The name of the tool that `answer` serves."""

    def __init__(
        self,
        tools: Iterable[Any],
        *,
        deferred: bool = False,
        max_tools: int = 12,
        always: Iterable[str] = (),
        provider_cap: int = 128,
        embedder: Embedder | str | None = None,
    ) -> None:
        self._tools = {tool["name"]: tool for tool in map(_checked, tools)}
        self._entries = [Entry(name, str(tool.get("description") or "")) for name, tool in self._tools.items()]
        self._deferred = deferred
        self._offering = Offering(max_tools=max_tools, always=always, provider_cap=provider_cap, embedder=embedder)

    def for_messages(self, messages: Sequence[Any]) -> list[Any]:
        """Returns the tools for `client.messages.create`."""
        turns = anthropic_turns(messages)
        names = self._offering.names(self._entries, turns[:1] if self._deferred else turns)
        selected: list[Any] = [_FIND, *(self._tools[name] for name in names)]
        if not self._deferred:
            return selected
        return selected + [{**tool, "defer_loading": True} for name, tool in self._tools.items() if name not in names]

    def answer(self, arguments: Mapping[str, Any]) -> Any:
        """Returns the content of the result of a call of `find_tools`. `arguments`: the `input` of the call."""
        query = query_of(arguments)
        names = self._offering.search(self._entries, query) if self._deferred else ()
        if names:
            return [{"type": "tool_reference", "tool_name": name} for name in names]
        return self._offering.answer(self._entries, query)


_FIND: Mapping[str, Any] = {"name": FIND_TOOLS, "description": FIND_DESCRIPTION, "input_schema": FIND_SCHEMA}


def _checked(tool: Any) -> Mapping[str, Any]:
    if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str) or "input_schema" not in tool:
        raise ConfigError(f"AnthropicTools takes definitions with name and input_schema, not {str(tool)[:80]!r}")
    return tool
