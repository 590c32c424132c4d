"""Helpers: a service over a folder and a store, and tools to put into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolcaddie.core.control import Principal
from toolcaddie.ports import Sandbox, Store
from toolcaddie.sandbox.plain import Plain
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.tools.authored import Authorship
from toolcaddie.tools.authored.values import Author, AuthoredLimits, AuthoredTool, Definition, ToolType

ANN = Author(principal=Principal(id="ann", bot="helper"), run_id="run_1", taint=("web_fetch",))
BEN = Principal(id="ben")
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
COUNT = "def run(text):\n    return len(text.split())\n"


class Contained(Plain):
    """A sandbox that says of itself that it holds, for tests of what follows from that."""

    name = "contained"
    holds = True


def service(
    folder: Path, store: Store | None = None, *, sandbox: Sandbox | None = None, limits: AuthoredLimits | None = None
) -> Authorship:
    """A service; several over one folder and store are several processes."""
    box = sandbox or Contained()
    return Authorship(folder, store or MemoryStore(), sandbox=lambda: box, limits=limits)


def a_tool(
    name: str = "count_words",
    source: str = COUNT,
    *,
    of: ToolType = "python",
    parameters: dict[str, Any] | None = None,
    scope: str = "all",
    description: str = "Counts the words of a text.",
) -> Definition:
    return Definition(
        name=name, description=description, type=of, source=source, parameters=parameters or TEXT, scope=scope
    )


async def approved(authorship: Authorship, definition: Definition | None = None, author: Author = ANN) -> AuthoredTool:
    """A tool that was written and approved."""
    tool = await authorship.create(definition or a_tool(), author)
    return await authorship.approve(tool.tenant, tool.id, digest=tool.digest, by=BEN)
