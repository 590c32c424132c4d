"""Helpers of this folder: a catalog of numbered tools, a listener, and the requests to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolcaddie.core.catalog import Category, View
from toolcaddie.core.events import RunEvent
from toolcaddie.core.message import Message
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.sources.functions import FunctionSource, tool


class Recorder:
    """A sink that keeps every event."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    async def emit(self, event: RunEvent) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def function(name: str, **options: Any) -> Callable[..., str]:
    """A tool of that name which says what it was given."""

    def run(text: str = "") -> str:
        return f"{name} ran with {text!r}"

    run.__name__ = name
    run.__doc__ = f"Does {name.replace('_', ' ')}."
    marked: Callable[..., str] = tool(**options)(run)
    return marked


def work(**sizes: int) -> FunctionSource:
    """Categories of so many tools each: notes_0, notes_1, ... A category's one keyword is its name."""
    made = [function(f"{name}_{number}", category=name) for name, size in sizes.items() for number in range(size)]
    return FunctionSource("work", made, categories=[Category(name=name, keywords=(name,)) for name in sizes])


def names(request: Any) -> list[str]:
    """The tools of a request to a scripted provider, or of a body that a scripted server received."""
    tools = request.get("tools", []) if isinstance(request, dict) else request.tools
    return [definition["function"]["name"] for definition in tools]


def catalog_names(request: Any) -> list[str]:
    return [name for name in names(request) if name != REQUEST_MORE_TOOLS]


def tool_texts(request: Any) -> list[str]:
    return [message.content for message in request.messages if message.role == "tool"]


def user_messages(*texts: str) -> list[Message]:
    return [Message(role="user", content=text) for text in texts]


def names_categories(*categories: str) -> Callable[[Sequence[Message], View], Any]:
    """A first stage that always gives the same answer."""

    async def classify(messages: Sequence[Message], view: View) -> Sequence[str]:
        return categories

    return classify
