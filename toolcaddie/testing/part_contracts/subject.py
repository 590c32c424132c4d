"""The subject of a part's contract, and the values that every suite hands to a part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool

T = TypeVar("T")

ECHO = Tool(
    name="echo",
    description="Repeat a text.",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    source="contract",
)
DELETE = Tool(name="delete_client", description="Delete a client.", source="contract")
CATALOG = Catalog.of([ECHO, DELETE])


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject(Generic[T]):
    """A part and how it is made. One is made for each check."""

    name: str
    make: Callable[[], T]

    def __str__(self) -> str:
        return self.name


def context(principal: Principal | None = None) -> RunContext:
    """Returns the context of a run over the contract's own catalog."""
    return RunContext(
        run_id="contract", principal=principal or Principal(), view=View(catalog=CATALOG), model="contract-model"
    )
