"""The source `authored`: `create_tool`, and the tools that people approved."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import RequestError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.ports import Sandbox
from toolcaddie.tools.authored import running
from toolcaddie.tools.authored.authorship import Authorship
from toolcaddie.tools.authored.files import definition_of
from toolcaddie.tools.authored.loader import CATEGORY, Loader
from toolcaddie.tools.authored.values import Definition, ToolType
from toolcaddie.tools.authored.writing import NAME, definition_of_tool, write

_CATEGORY = Category(name=CATEGORY, description="Tools that bots wrote, and the tool that writes them.")


class AuthoredSource:
    """Implements `ports.OpenableSource`. `types`: those that bots may write; empty: they may write none.

    A decision of any process about a tool counts for the next request. Each call asks the store again whether exactly the bytes
    that it is about to run are approved.
    """

    def __init__(
        self, authorship: Authorship, sandbox: Sandbox, *, types: Sequence[ToolType], name: str = "authored"
    ) -> None:
        self._name = name
        self._authorship = authorship
        self._sandbox = sandbox
        self._types = types
        self._own = (definition_of_tool(types, name),) if types else ()
        self._loader = Loader(authorship.folder, authorship.limits, label=name, is_contained=sandbox.holds)
        self.claims = frozenset({NAME})

    @property
    def name(self) -> str:
        return self._name

    @property
    def revision(self) -> int:
        return self._loader.current().revision

    def tools(self) -> Sequence[Tool]:
        return (*self._own, *self._loader.current().tools.values())

    def categories(self) -> Sequence[Category]:
        return (_CATEGORY,)

    async def open(self) -> None:
        key = await self._authorship.records.sealing_key()
        await self._authorship.repair()
        await asyncio.to_thread(self._loader.open, key)

    async def close(self) -> None:
        self._loader.close()

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        if tool.name == NAME and self._own:
            return await write(self._authorship, arguments, context, self._types)
        definition = await self._approved(tool)
        if definition is None:
            return failed(f"the tool {tool.name!r} has been withdrawn or changed; do without it", "revoked")
        passed = {name: value for name, value in arguments.items() if name not in context.injected}
        return await running.run(definition, passed, sandbox=self._sandbox, limits=self._authorship.limits)

    async def _approved(self, tool: Tool) -> Definition | None:
        """Returns what to run; None: a person has not approved exactly these bytes. What is returned is what was compared."""
        stored = await self._authorship.records.get(tool.tenant or "", tool.original)
        if stored is None or stored.record.status_of(tool.backing) != "approved":
            return None
        try:
            files = await asyncio.to_thread(self._authorship.folder.read, tool.original)
            return definition_of(files, self._authorship.limits) if files.digest == tool.backing else None
        except RequestError:
            return None
