"""The elements that the contract suites of `part_contracts` share: the part under test, and values that the checks pass to it.

A part is an implementation of one interface of `toolcaddie/ports`, such as a source or a cache. A contract suite is a list of
checks for one interface: each calls the part and raises an error if the part breaks a promise.
"""

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
"""The catalog in all checks: two tools, without categories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject(Generic[T]):
    """The part under test."""

    name: str
    """The part's name in error messages."""
    make: Callable[[], T]
    """Makes a new part. Each check calls it, so that no check sees what another one did."""

    def __str__(self) -> str:
        return self.name


def context(principal: Principal | None = None) -> RunContext:
    """Returns the context of a run whose caller sees all of `CATALOG`. None: the default principal."""
    return RunContext(
        run_id="contract", principal=principal or Principal(), view=View(catalog=CATALOG), model="contract-model"
    )
