"""A server with the whole console: the product's own parts, from settings, in this process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.databases import database_url
from tests.doors.serving import served
from toolcaddie.app.build import Assembled, assembled
from toolcaddie.app.settings import Settings
from toolcaddie.app.settings.model import Upstream
from toolcaddie.core.control import Principal
from toolcaddie.doors.console.complete import console_of
from toolcaddie.doors.gateway.app import create_app
from toolcaddie.doors.gateway.traffic import Traffic
from toolcaddie.testing import ScriptedUpstream
from toolcaddie.util.replacing import replace

VIEWER = Principal(id="vera", role="viewer")
OPERATOR = Principal(id="otto", role="operator")
ADMIN = Principal(id="ada", role="admin")
NOBODY = Principal(id="nina")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Server that a test talks to, with the parts that it looks at afterwards."""

    url: str
    parts: Assembled

    async def key(self, person: Principal) -> str:
        """The API key of a person."""
        return (await self.parts.keys.add(f"{person.id} of {person.tenant}", person))[1]

    async def counts(self) -> None:
        """Counts the whole trail, which a server does all the time."""
        await self.parts.event_log.flush()
        while (await self.parts.database.figures.advance(self.parts.runtime.prices_of)).behind:
            pass


@contextlib.asynccontextmanager
async def console(
    folder: Path, *, upstream: ScriptedUpstream | None = None, catalog: str = "gym", **settings: Any
) -> AsyncIterator[Server]:
    """A server with the tools of `catalog` over the database in `folder`, in front of `upstream`; None: the practice model."""
    made = replace(Settings(catalogs=(catalog,), database_url=database_url(folder / "console.sqlite")), **settings)
    if upstream is not None:
        made = replace(made, model="gpt-test", upstream=Upstream(url=upstream.base_url))
    async with assembled(made) as parts:
        traffic = Traffic(
            made.traffic, bounds=made.bounds, registry=parts.registry, stopping=lambda: parts.runtime.stopping
        )
        whole = console_of(parts, None, traffic)
        assert whole is not None
        app = create_app(parts, mounts=dict.fromkeys(whole.paths, whole), traffic=traffic)
        async with served(app) as url:
            try:
                yield Server(url=url, parts=parts)
            finally:
                await app.close()
