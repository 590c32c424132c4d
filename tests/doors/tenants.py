"""A gateway whose tenants have catalogs of their own, in a folder."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.doors.serving import Gateway, gateway
from toolcaddie.app.settings import Settings
from toolcaddie.app.settings.tenants import TenantSettings
from toolcaddie.app.tenants import tenants_of
from toolcaddie.core.control import Principal
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.sources.tenant_parts import Tenants
from toolcaddie.testing import Reply, ScriptedUpstream, call, say

CHAT = "/v1/chat/completions"


def write_module(folder: Path, module: str, **answers: str) -> None:
    """Writes a Python module with a tool for each name, which answers with a text."""
    functions = [
        f'@tool(read_only=True)\ndef {name}() -> str:\n    """Says {name}."""\n    return {answer!r}\n'
        for name, answer in answers.items()
    ]
    (folder / f"{module}.py").write_text("from toolcaddie import tool\n\n" + "\n".join(functions))


def write_definitions(path: Path, *names: str) -> None:
    """Writes a file with a definition for each name."""
    schema = {"type": "object", "properties": {}}
    lines = [json.dumps({"name": name, "description": f"Says {name}.", "parameters": schema}) for name in names]
    path.write_text("\n".join(lines) + "\n")


def write_tenant(folder: Path, tenant: str, *catalogs: str) -> None:
    """Writes the file of a tenant."""
    folder.mkdir(exist_ok=True)
    (folder / f"{tenant}.toml").write_text(f"catalogs = {json.dumps(catalogs)}\n")


def answered(body: Mapping[str, Any]) -> Reply:
    """A model that calls the tool that it is asked for, and tells the result; asked for nothing, it names its tools."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return say(str(last["content"]))
    if last["content"].startswith("call "):
        return call(last["content"].removeprefix("call "), {})
    return say(" ".join(sorted(tool["function"]["name"] for tool in body.get("tools", ()))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A gateway of several tenants, with a key for each."""

    gateway: Gateway
    session: aiohttp.ClientSession

    async def key(self, tenant: str) -> str:
        name = f"key-{len(await self.gateway.database.keys.list())}"
        _, secret = await self.gateway.database.keys.add(name, Principal(id=name, tenant=tenant))
        return secret

    async def asked(
        self, secret: str, text: str, path: str = CHAT, headers: Mapping[str, str] | None = None, **more: Any
    ) -> tuple[int, Any]:
        """Returns the status and the answer of a request."""
        body = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
        headers = {"authorization": f"Bearer {secret}", **(headers or {})}
        async with self.session.post(f"{self.gateway.base_url}{path}", json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def said(self, secret: str, text: str) -> str:
        """Returns what the model says."""
        status, answer = await self.asked(secret, text)
        assert status == 200, answer
        return str(answer["choices"][0]["message"]["content"])

    async def tools(self, secret: str) -> Sequence[str]:
        """Returns the names of the tools that the model is sent."""
        return (await self.said(secret, "which tools are there?")).split()


@asynccontextmanager
async def shared(
    folder: Path, *, most: int = 100, tenants: Tenants | None = None, parts: Parts | None = None, **options: Any
) -> AsyncIterator[Shared]:
    """A gateway with the catalogs in `folder / "tenants"`, or those of `tenants`."""
    settings = Settings(tenants=TenantSettings(folder=str(folder / "tenants"), open=most))
    tenants = tenants or tenants_of(settings, Registry(), parts or Parts())
    async with (
        ScriptedUpstream(answered) as upstream,
        gateway(folder, upstream.base_url, tenants=tenants, **options) as server,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
    ):
        yield Shared(gateway=server, session=session)
