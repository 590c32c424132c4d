"""Selection for people with a loop of their own: tools in OpenAI's format in, the few that fit out.

picker = Picker.of(all_my_tools)
picked = picker.pick(messages, max_tools=24)
client.chat.completions.create(model=model, messages=messages, tools=picked.definitions)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.catalog import Catalog, Category, View
from toolcaddie.errors import CatalogError, RequestError
from toolcaddie.message import Message
from toolcaddie.ports import SelectionQuery
from toolcaddie.presets import SelectionSettings
from toolcaddie.run import Budget, Selection
from toolcaddie.schema import wire_definition
from toolcaddie.selection.selector import Selector
from toolcaddie.tool_types import CLIENT_SOURCE, JsonObject, Tool, ToolCall

_ROLES = ("system", "developer", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """What fits a request. `definitions` go into the provider's `tools` as they are."""

    definitions: list[dict[str, Any]]
    selection: Selection
    """Scores, reasons, and what was left out."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.selection.names


@dataclass(frozen=True, slots=True, kw_only=True)
class Picker:
    """A catalog and a selector. Make one with `Picker.of` and keep it."""

    catalog: Catalog
    selector: Selector

    @classmethod
    def of(
        cls,
        tools: Iterable[Tool | JsonObject],
        categories: Iterable[Category] = (),
        *,
        settings: SelectionSettings | None = None,
    ) -> Picker:
        """`tools` are `Tool`s or definitions in OpenAI's function format, mixed if you like; definitions come out again
        exactly as they went in. Raises `CatalogError` for a definition without a usable name and for a name used twice."""
        read = (tool if isinstance(tool, Tool) else tool_of(tool, at=at) for at, tool in enumerate(tools))
        return cls(catalog=Catalog.of(read, categories, check_schemas=False), selector=Selector(settings))

    def pick(
        self,
        messages: str | Sequence[Message | JsonObject],
        *,
        max_tools: int | None = 24,
        max_tokens: int | None = None,
        provider_cap: int | None = 128,
        exclude: Iterable[str] = (),
    ) -> Picked:
        """The tools for a message, or for a conversation that ends with it (`Message`s or OpenAI's dicts).

        Where nothing fits (`picked.selection.no_match`) the default categories are given, and without these no tool at all:
        leave `tools` out of your request then.

        `max_tokens` bounds the definitions together, by estimate; `exclude` leaves out what was sent already.
        """
        if isinstance(exclude, str):
            raise RequestError(f"exclude takes names in a list or set, not one text: [{exclude!r}]", param="exclude")
        for name, limit in (("max_tools", max_tools), ("max_tokens", max_tokens), ("provider_cap", provider_cap)):
            if limit is not None and limit < 0:
                raise RequestError(f"{name} is {limit}; give 0 or more, or None for no limit", param=name)
        query = SelectionQuery(messages=_messages(messages), exclude=frozenset(exclude))
        budget = Budget(max_tools=max_tools, max_tokens=max_tokens, provider_cap=provider_cap)
        selection = self.selector.select(View(catalog=self.catalog), query, budget)
        definitions = [wire_definition(chosen.tool, slim=chosen.slim) for chosen in selection.tools]
        return Picked(definitions=definitions, selection=selection)


def tool_of(definition: JsonObject, *, at: int = 0) -> Tool:
    """A tool from its wire definition, which is kept to be sent unchanged. `at` is its place, for the error's sake."""
    function = definition.get("function", definition) if isinstance(definition, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise CatalogError(f"tools[{at}]: a definition is an object with a function that has a name")
    schema = function.get("parameters")
    return Tool(
        name=function["name"],
        description=str(function.get("description") or ""),
        input_schema=schema if isinstance(schema, Mapping) else {"type": "object", "properties": {}},
        source=CLIENT_SOURCE,
        definition=definition,
    )


def _messages(messages: str | Sequence[Message | JsonObject]) -> tuple[Message, ...]:
    if not isinstance(messages, Sequence):
        raise RequestError(f"messages: a text or a list of messages, not {type(messages).__name__}", param="messages")
    if isinstance(messages, str):
        return (Message(role="user", content=messages),)
    return tuple(
        message if isinstance(message, Message) else _message(message, at) for at, message in enumerate(messages)
    )


def _message(wire: JsonObject, at: int) -> Message:
    """As much of a wire message as selection reads: the role, the text, the names of the tools called."""
    role = wire.get("role")
    if role not in _ROLES:
        raise RequestError(f"messages[{at}]: role must be one of {', '.join(_ROLES)}, not {role!r}", param="messages")
    content = wire.get("content")
    called = [call.get("function", {}).get("name") for call in wire.get("tool_calls") or ()]
    return Message(
        role=role,
        content=tuple(content) if isinstance(content, list | tuple) else content,
        tool_calls=tuple(ToolCall(id="", name=name) for name in called if isinstance(name, str)),
    )
