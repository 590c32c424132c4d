"""The group `response`: tools with which a model ends its work, with an answer, a question or a refusal."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from toolcaddie.core.catalog import Category
from toolcaddie.core.tool import Ending, Finish, ToolResult
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.tools.host.groups import Group

Text = Annotated[str, Field(min_length=1, max_length=100_000)]


async def respond_to_user(message: Text) -> ToolResult:
    """Give the user the final answer. This ends the task."""
    return _ended(message, "answer")


async def cannot_perform(reason: Text) -> ToolResult:
    """Say that the task cannot be done, and why. This ends the task."""
    return _ended(reason, "refusal")


async def request_clarification(question: Text) -> ToolResult:
    """Ask the user a question without whose answer the task cannot be done. This ends the task."""
    return _ended(question, "question")


_FUNCTIONS = (respond_to_user, cannot_perform, request_clarification)


def response() -> Group:
    """Returns the group."""
    category = Category(name="response", description="End the task.", keywords=("answer", "question", "cannot"))
    functions = [
        tool(function, category="response", read_only=True, idempotent=True, ends_run=True) for function in _FUNCTIONS
    ]
    names = [function.__name__ for function in _FUNCTIONS]
    return Group(name="response", source=FunctionSource("host-response", functions, [category], claims=names))


def _ended(text: str, ending: Ending) -> ToolResult:
    return ToolResult(content=text, effect=Finish(text=text, ending=ending), own_words=True)
