"""A server with tools that bots wrote: the product's own app with the source `authored`, its paths and its console."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from tests.databases import database_url
from tests.doors.serving import Parts as ServedParts
from tests.doors.serving import served
from toolcaddie.audit.trail import Trail
from toolcaddie.core.control import Principal
from toolcaddie.core.key_limits import NO_LIMITS
from toolcaddie.doors.console.app import Console
from toolcaddie.doors.console.authored import authored_section
from toolcaddie.doors.gateway.app import create_app
from toolcaddie.doors.reviewing import Reviews
from toolcaddie.parts import Parts
from toolcaddie.ports import Provider
from toolcaddie.runtime import Runtime
from toolcaddie.sandbox.plain import Plain
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, say
from toolcaddie.tools.authored import Authorship, authored, authorship
from toolcaddie.tools.authored.values import Author, AuthoredTool, Definition

ANN = Principal(id="ann", bot="assistant", channel="gateway")
BOSS = Principal(id="boss")
COUNTS = "def run(text):\n    return len(text.split())\n"
TEXT = {"type": "object", "properties": {"text": {"type": "string", "description": "The text."}}, "required": ["text"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Server that a test talks to, with the parts that it looks at afterwards."""

    url: str
    database: Database
    runtime: Runtime
    service: Authorship

    async def key(self, person: Principal) -> str:
        """The API key of a person."""
        return (await self.database.keys.add(f"{person.id} of {person.tenant}", person))[1]


@contextlib.asynccontextmanager
async def reviewing(
    folder: Path,
    *,
    provider: Provider | None = None,
    clock: Callable[[], float] = time.time,
    source: Mapping[str, Any] | None = None,
    **runtime: Any,
) -> AsyncIterator[Server]:
    """A server over `folder`, which outlives it. `source`: settings of the source `authored`."""
    async with Database(database_url(folder / "gateway.sqlite"), clock=clock) as database:
        options: Any = {
            "store_path": str(folder / "tools"),
            "parts": Parts(store=database.store, sandbox=Plain, clock=clock),
            **(source or {}),
        }
        service = authorship(**options)
        made = Runtime(
            provider=provider or ScriptedProvider([say("hello")]),
            sources=[authored(**options)],
            trail=Trail(database.events),
            documents=database.store,
            **runtime,
        )
        await made.open()
        parts = ServedParts(
            runtime=made,
            documents=database.store,
            event_log=database.events,
            keys=database.keys,
            meter=database.meter,
            key_limits=lambda: NO_LIMITS,
            registry=CollectorRegistry(),
            own_upstream_key=True,
        )
        reviews = Reviews(service, made.approvals)
        console = Console(
            [authored_section(reviews)],
            database.store,
            database.keys,
            database.events,
            identified=made.identified,
            clock=clock,
        )
        app = create_app(parts, reviews=reviews, mounts=dict.fromkeys(console.paths, console))
        async with served(app) as url:
            try:
                yield Server(url=url, database=database, runtime=made, service=service)
            finally:
                await app.close()
                await made.close()


async def written(
    service: Authorship,
    name: str = "count_words",
    *,
    source: str = COUNTS,
    description: str = "Counts the words of a text.",
    parameters: Any = TEXT,
    scope: str = "all",
    author: Principal = ANN,
    taint: tuple[str, ...] = (),
) -> AuthoredTool:
    """A tool that a bot has written, and that waits."""
    definition = Definition(
        name=name, description=description, type="python", source=source, parameters=parameters, scope=scope
    )
    return await service.create(definition, Author(principal=author, run_id="run_1", taint=taint))


def changed_by_hand(folder: Path, tool: AuthoredTool, source: str) -> None:
    """Writes another source into the folder of a tool, as somebody with access to the disk might."""
    (folder / "tools" / tool.id / "tool.py").write_text(source)
