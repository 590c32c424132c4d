"""The sample gym as a source of tools: 137 operations in 30 categories, run on one small database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import anyio.to_thread

from toolcaddie.core.catalog import Category
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.samples.gym.categories import read_categories
from toolcaddie.samples.gym.database import Database, Refused
from toolcaddie.samples.gym.operations import SOURCE, Operation
from toolcaddie.samples.gym.sample_data import fill
from toolcaddie.samples.gym.tools import care, house, loyalty, people, sales


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person in the gym's data. `kind` is client, staff or lead; `role` is a staff member's job."""

    kind: str
    id: int
    name: str
    role: str = ""


_BY_CATEGORY: Mapping[str, tuple[Operation, ...]] = {
    **people.TOOLS,
    **house.TOOLS,
    **sales.TOOLS,
    **care.TOOLS,
    **loyalty.TOOLS,
}


class Gym:
    """The gym as a `ports.ToolSource`. The list of its tools never changes. Only calls of the tools change its data."""

    name = SOURCE
    revision = 1

    def __init__(self, database: Database, categories: Sequence[Category]) -> None:
        self._database = database
        self._categories = tuple(categories)
        # Core tools come first, then one category after the other. A selection that is too long is cut in this order.
        pairs: list[tuple[str | None, Operation]] = [(None, operation) for operation in house.CORE]
        pairs += [(category.name, operation) for category in categories for operation in _BY_CATEGORY[category.name]]
        self._tools = tuple(operation.tool(category) for category, operation in pairs)
        self._operations = {operation.name: operation for _, operation in pairs}

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def categories(self) -> Sequence[Category]:
        return self._categories

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        """Runs the call in a worker thread. It runs to its end even if the caller is cancelled, so that a write is complete or
        not made."""
        operation = self._operations.get(tool.name)
        if operation is None:
            return failed(f"the gym has no tool {tool.name!r}", "revoked")
        try:
            answer = await anyio.to_thread.run_sync(self._database.run, operation, arguments)
        except Refused as refused:
            return failed(str(refused))
        return ToolResult(content=json.dumps(answer, ensure_ascii=False), structured=answer)

    def people(self) -> tuple[Person, ...]:
        """Returns all persons, clients first, by id."""
        with self._database.transaction(writes=False) as connection:
            rows = connection.execute(
                "SELECT 'client' AS kind, id, name, '' AS role FROM clients UNION ALL SELECT 'staff', id, name, role FROM staff"
                " UNION ALL SELECT 'lead', id, name, '' FROM leads"
            ).fetchall()
        return tuple(Person(**dict(row)) for row in rows)

    def close(self) -> None:
        """Closes the database. The gym answers no calls after that."""
        self._database.close()


def source(database: str = ":memory:", *, language: str = "en", today: date | None = None, seed: int = 0) -> Gym:
    """Makes a gym as a source of tools.

    `database`: a path, or in memory; a file that contains a gym is used as it is. `language`: language of the categories'
    keywords, 'en', 'es', 'pt', or 'all'. `today`: the gym's date; None: the real date at every call. `seed`: other people with
    other ids; seed 0 has John Smith. Raises `ConfigError` for a file or language that cannot be used.
    """
    categories = read_categories(language)
    gym_database = Database(database, lambda: today or date.today())
    gym_database.prepare(database, lambda connection: fill(connection, today or date.today(), seed))
    return Gym(gym_database, categories)
