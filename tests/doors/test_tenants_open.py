"""Which catalogs of tenants are open: opened once, closed when others are used, never under a request, and read again."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import threading
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.doors.commandline import CommandLine
from tests.doors.processes import Process, serving
from tests.doors.tenants import answered, shared, write_definitions, write_tenant
from tests.doors.test_workers import asked, until
from toolcaddie import tool
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError, TenantCatalogError, ToolcaddieError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.sources.tenant_parts import OwnSources, Tenants
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, say

pytestmark = pytest.mark.anyio


@dataclass
class Connected:
    """A source that connects before it has its tool, and notes when it is open. A call waits until `go` is set."""

    tenant: str
    go: asyncio.Event
    opened: Counter[str] = field(default_factory=Counter)
    closed: Counter[str] = field(default_factory=Counter)
    in_call: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a call has begun."""
    name: str = "connected"
    revision: int = 0

    async def open(self) -> None:
        self.opened[self.tenant] += 1
        await asyncio.sleep(0)
        self.revision += 1

    async def close(self) -> None:
        self.closed[self.tenant] += 1
        self.revision += 1

    def tools(self) -> Sequence[Tool]:
        harmless = ToolAnnotations(read_only=True)
        return [Tool(name=f"of_{self.tenant}", source="connected", annotations=harmless)] if self.revision % 2 else []

    def categories(self) -> Sequence[Any]:
        return ()

    async def call_tool(self, tool: Tool, arguments: Mapping[str, Any], context: RunContext) -> ToolResult:
        self.in_call.set()
        await self.go.wait()
        return ToolResult(content=f"closed {self.closed[self.tenant]} times")


@dataclass
class Rig:
    """The sources of all tenants, which the catalogs are made of."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    opened: Counter[str] = field(default_factory=Counter)
    closed: Counter[str] = field(default_factory=Counter)
    in_call: asyncio.Event = field(default_factory=asyncio.Event)
    loaded: Counter[str] = field(default_factory=Counter)

    def load(self, tenant: str) -> OwnSources:
        self.loaded[tenant] += 1
        source = Connected(tenant=tenant, go=self.go, opened=self.opened, closed=self.closed, in_call=self.in_call)
        return OwnSources(sources=[source], is_current=lambda: True)


def tools_in_memory(tenant: str) -> Sequence[Tool]:
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, Tool) and each.tenant == tenant]


async def test_many_first_requests_open_a_catalog_once(tmp_path: Path) -> None:
    rig = Rig()
    async with shared(tmp_path, tenants=Tenants(load=rig.load)) as server:
        secret = await server.key("acme")
        answers = await asyncio.gather(*(server.tools(secret) for _ in range(30)))
        assert answers == [["of_acme"]] * 30
        assert rig.loaded == rig.opened == {"acme": 1}
        assert not rig.closed
    assert rig.closed == {"acme": 1}


async def test_the_catalog_that_was_not_used_for_the_longest_time_is_closed_when_too_many_are_open(
    tmp_path: Path,
) -> None:
    rig = Rig()
    async with shared(tmp_path, tenants=Tenants(load=rig.load, open=2)) as server:
        keys = {tenant: await server.key(tenant) for tenant in ("a", "b", "c")}
        for tenant in ("a", "b", "a", "c"):
            assert await server.tools(keys[tenant]) == [f"of_{tenant}"]
        assert server.gateway.runtime.catalogs.open == ["a", "c"]
        assert rig.closed == {"b": 1}
        assert await server.tools(keys["b"]) == ["of_b"]
        assert rig.opened == {"a": 1, "b": 2, "c": 1}
        assert server.gateway.runtime.catalogs.open == ["c", "b"]


async def test_a_catalog_in_use_is_not_closed_however_many_others_are_opened(tmp_path: Path) -> None:
    rig = Rig()
    async with shared(tmp_path, tenants=Tenants(load=rig.load, open=1)) as server:
        acme = asyncio.create_task(server.said(await server.key("acme"), "call of_acme"))
        await rig.in_call.wait()
        for number in range(5):
            assert await server.tools(await server.key(f"t{number}")) == [f"of_t{number}"]
        assert not rig.closed["acme"]
        rig.go.set()
        assert await acme == "closed 0 times"
        assert len(server.gateway.runtime.catalogs.open) == 1


async def test_a_flood_of_openings_answers_every_tenant_with_its_own_tools(tmp_path: Path) -> None:
    rig = Rig()
    async with shared(tmp_path, tenants=Tenants(load=rig.load, open=3)) as server:
        keys = {f"t{number}": await server.key(f"t{number}") for number in range(20)}
        answers = await asyncio.gather(*(server.tools(secret) for secret in keys.values() for _ in range(3)))
        assert answers == [[f"of_{tenant}"] for tenant in keys for _ in range(3)]
        assert len(server.gateway.runtime.catalogs.open) == 3


async def test_the_memory_of_a_closed_catalog_is_given_back(tmp_path: Path) -> None:
    (tmp_path / "tenants").mkdir()
    for tenant in ("leaving", "staying"):
        write_definitions(tmp_path / "tenants" / f"{tenant}.jsonl", *(f"{tenant}_{number}" for number in range(300)))
        write_tenant(tmp_path / "tenants", tenant, f"{tenant}.jsonl")
    async with shared(tmp_path, most=1) as server:
        leaving, staying = await server.key("leaving"), await server.key("staying")
        assert await server.tools(leaving)
        assert len(tools_in_memory("leaving")) >= 300
        assert await server.tools(staying)
        assert not tools_in_memory("leaving")


async def test_a_tenant_whose_catalog_was_closed_resumes_the_run_that_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "tenants").mkdir()

    def load(tenant: str) -> OwnSources:
        @tool(destructive=True)
        def destroy() -> str:
            """Destroys everything."""
            return f"{tenant} destroyed"

        return OwnSources(sources=[FunctionSource("own", [destroy])], is_current=lambda: True)

    async with shared(tmp_path, tenants=Tenants(load=load, open=1)) as server:
        runtime = server.gateway.runtime
        ann, bob = Principal(id="ann", tenant="acme"), Principal(id="bob", tenant="acme")
        result = await runtime.run("call destroy", principal=ann, model="m")
        assert result.status == "pending"
        assert await server.tools(await server.key("beta")) == ["destroy"]
        assert runtime.catalogs.open == ["beta"]
        [question] = await runtime.questions(result.run_id)
        for stranger in (Principal(id="eve", tenant="beta"), ann):
            with pytest.raises(RequestError):
                await runtime.approvals.answer(stranger.tenant, question.id, approved=True, by=stranger)
        await runtime.approvals.answer("acme", question.id, approved=True, by=bob)
        assert (await runtime.resume(result.run_id)).text == "acme destroyed"


async def test_a_caller_that_leaves_does_not_stop_the_opening_for_the_others() -> None:
    started, go = asyncio.Event(), asyncio.Event()

    class Slow(Connected):
        async def open(self) -> None:
            started.set()
            await go.wait()
            await super().open()

    runtime = Runtime(
        provider=ScriptedProvider([say("done")]),
        tenants=Tenants(load=lambda tenant: OwnSources(sources=[Slow(tenant=tenant, go=go)], is_current=lambda: True)),
    )
    acme = Principal(tenant="acme")
    first = asyncio.create_task(runtime.run("hello", principal=acme))
    await started.wait()
    second = asyncio.create_task(runtime.run("hello", principal=acme))
    first.cancel()
    await asyncio.wait({first})
    go.set()
    assert (await second).text == "done"
    await runtime.close()


async def test_nothing_stays_connected_if_the_runtime_is_closed_while_a_catalog_is_opened() -> None:
    rig, started = Rig(), asyncio.Event()

    class Slow(Connected):
        async def open(self) -> None:
            started.set()
            await self.go.wait()

        async def close(self) -> None:
            for _ in range(20):
                await asyncio.sleep(0)
            await super().close()

    def load(tenant: str) -> OwnSources:
        return OwnSources(sources=[Slow(tenant=tenant, go=rig.go, closed=rig.closed)], is_current=lambda: True)

    runtime = Runtime(provider=ScriptedProvider([]), tenants=Tenants(load=load))
    request = asyncio.create_task(runtime.run("hello", principal=Principal(tenant="acme")))
    await started.wait()
    await runtime.close()
    assert rig.closed == {"acme": 1}
    await asyncio.wait({request})
    assert request.cancelled()


async def test_looking_at_tools_needs_an_open_catalog() -> None:
    runtime = Runtime(provider=ScriptedProvider([]), tenants=Tenants(load=Rig().load))
    acme = Principal(tenant="acme")
    with pytest.raises(TenantCatalogError, match=r"holding\(tenant\)"):
        runtime.desk(principal=acme)
    async with runtime.holding("acme"):
        assert [tool.name for tool in runtime.desk(principal=acme).view] == ["of_acme"]
    await runtime.close()


@pytest.mark.parametrize("error", [ConfigError("broken"), TenantCatalogError("the name cannot be opened")])
async def test_a_catalog_that_cannot_be_opened_is_not_tried_again_at_once(error: ToolcaddieError) -> None:
    now, tries = [0.0], Counter[str]()

    def load(tenant: str) -> OwnSources:
        tries[tenant] += 1
        raise error

    runtime = Runtime(provider=ScriptedProvider([]), tenants=Tenants(load=load, clock=lambda: now[0]))
    for moment in (0.0, 1.0, 4.0, 6.0):
        now[0] = moment
        with pytest.raises(TenantCatalogError, match="cannot be opened"):
            async with runtime.holding("acme"):
                pass
    assert tries == {"acme": 2}


async def test_a_file_that_is_written_while_it_is_read_is_read_again_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tenants"
    for name in ("before", "after"):
        write_tenant(folder, "acme", f"{name}.jsonl")
        write_definitions(folder / f"{name}.jsonl", name)
    after = (folder / "acme.toml").read_text()
    write_tenant(folder, "acme", "before.jsonl")
    long_ago = (folder / "acme.toml").stat().st_mtime - 60
    os.utime(folder / "acme.toml", (long_ago, long_ago))
    loads = tomllib.loads

    def loads_late(text: str) -> dict[str, Any]:
        """Somebody writes the file after its text was read."""
        (folder / "acme.toml").write_text(after)
        return loads(text.replace("after", "before"))

    async with shared(tmp_path) as server:
        runtime, acme = server.gateway.runtime, await server.key("acme")
        with monkeypatch.context() as patched:
            patched.setattr(tomllib, "loads", loads_late)
            async with runtime.holding("acme"):
                pass
        assert await server.tools(acme) == ["before"]
        assert await runtime.catalogs.look_again() == ["acme"]
        assert await server.tools(acme) == ["after"]
        assert not await runtime.catalogs.look_again()


@pytest.mark.parametrize("had_tools", [True, False])
async def test_a_file_that_changes_while_its_catalog_is_opened_counts_at_the_look_that_comes_meanwhile(
    had_tools: bool,
) -> None:
    rig, reading, go = Rig(), threading.Event(), threading.Event()

    def load(tenant: str) -> OwnSources | None:
        if reading.is_set():
            return rig.load(tenant)
        reading.set()
        go.wait()
        return OwnSources(sources=(), is_current=lambda: False) if had_tools else None

    runtime = Runtime(provider=ScriptedProvider([]), tenants=Tenants(load=load))

    async def names() -> Sequence[str]:
        async with runtime.holding("acme"):
            return [each.name for each in runtime.desk(principal=Principal(tenant="acme")).view]

    first = asyncio.create_task(names())
    await asyncio.to_thread(reading.wait)
    await runtime.catalogs.look_again()
    go.set()
    await first
    assert await names() == ["of_acme"]
    await runtime.close()


async def test_a_catalog_that_is_closed_while_its_files_are_read_again_leaves_no_connection_open() -> None:
    rig, reading, go = Rig(), threading.Event(), threading.Event()

    def load(tenant: str) -> OwnSources:
        if rig.loaded["acme"] and tenant == "acme":
            reading.set()
            go.wait()
        return replace(rig.load(tenant), is_current=lambda: tenant != "acme")

    runtime = Runtime(provider=ScriptedProvider([]), tenants=Tenants(load=load, open=1))
    async with runtime.holding("beta"):
        async with runtime.holding("acme"):
            looking = asyncio.create_task(runtime.catalogs.look_again())
            await asyncio.to_thread(reading.wait)
        go.set()
        await looking
        assert runtime.catalogs.open == ["beta"]
    await runtime.close()
    assert rig.opened == rig.closed == {"acme": 2, "beta": 1}


def tools_of(server: Process) -> set[str]:
    answer = asked(server, "which tools are there?")
    return set((answer.choices[0].message.content or "").split())


@pytest.mark.parametrize("workers", [1, 2])
def test_changed_files_of_tenants_are_read_again_at_sighup_and_a_mistake_changes_nothing(
    tmp_path: Path, workers: int
) -> None:
    """Requests without a key are those of the tenant `default`."""
    folder = tmp_path / "tenants"
    folder.mkdir()
    (tmp_path / "toolcaddie.toml").write_text('[tenants]\nfolder = "tenants"\n[log]\nlevel = "debug"\n')
    with ScriptedUpstream(answered) as upstream:
        words = ("--upstream", f"{upstream.base_url}", "--workers", str(workers))
        with serving(tmp_path, *words) as server:
            assert not tools_of(server)
            write_definitions(folder / "tools.jsonl", "alpha")
            write_tenant(folder, "default", "tools.jsonl")
            server.process.send_signal(signal.SIGHUP)
            # Each worker opens the catalog when a request comes to it.
            until(lambda: tools_of(server) == {"alpha"} and server.log().count("tenant_catalog_opened") >= workers)
            write_definitions(folder / "tools.jsonl", "alpha", "beta")
            server.process.send_signal(signal.SIGHUP)
            until(lambda: all(tools_of(server) == {"alpha", "beta"} for _ in range(4)))
            (folder / "default.toml").write_text("catalogs = [")
            server.process.send_signal(signal.SIGHUP)
            until(lambda: server.log().count("tenant_catalog_not_reloaded") >= workers)
            assert tools_of(server) == {"alpha", "beta"}
            write_definitions(folder / "tools.jsonl", "gamma")
            write_tenant(folder, "default", "tools.jsonl")
            server.process.send_signal(signal.SIGHUP)
            until(lambda: all(tools_of(server) == {"gamma"} for _ in range(4)))
            (folder / "default.toml").unlink()
            server.process.send_signal(signal.SIGHUP)
            until(lambda: not any(tools_of(server) for _ in range(4)))


def test_a_folder_of_tenants_that_is_not_there_is_an_error_at_the_start(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text('[tenants]\nfolder = "tenants"\n')
    assert "there is no folder" in toolcaddie.refused("serve", "--port", "0")


def test_a_key_for_a_tenant_says_whether_it_has_tools_of_its_own(toolcaddie: CommandLine) -> None:
    folder = toolcaddie.home / "tenants"
    (toolcaddie.home / "toolcaddie.toml").write_text('[tenants]\nfolder = "tenants"\n')
    write_tenant(folder, "acme", "tools.jsonl")
    (folder / "beta.toml").write_text("catalogs = 7\n")
    assert "no file" not in toolcaddie("keys", "add", "one", "--tenant", "acme").stderr
    assert "There is no file tenants/gamma.toml" in toolcaddie("keys", "add", "two", "--tenant", "gamma").stderr
    assert "beta.toml:1: catalogs" in toolcaddie.refused("keys", "add", "three", "--tenant", "beta")
    assert "upper and lower case" in toolcaddie.refused("keys", "add", "four", "--tenant", "Acme")
    assert len(toolcaddie.json("keys", "list")["keys"]) == 2


def test_the_command_line_has_the_tools_of_the_tenant_of_this_machine(toolcaddie: CommandLine) -> None:
    """Requests of the command line belong to the tenant `default`."""
    (toolcaddie.home / "toolcaddie.toml").write_text('[tenants]\nfolder = "tenants"\n')
    write_tenant(toolcaddie.home / "tenants", "default", "gym")
    assert toolcaddie.ok("call", "get_gym_info")
    assert "get_gym_info" in str(toolcaddie.json("run", "when is the gym open?"))


def test_the_command_line_resumes_a_run_that_waits_to_call_a_tool_of_a_tenant(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text('[tenants]\nfolder = "tenants"\n')
    write_tenant(toolcaddie.home / "tenants", "default", "gym")
    waits = json.loads(toolcaddie("run", "delete client 977", "--json").stdout)
    toolcaddie.ok("approvals", "approve", waits["approvals"][0]["id"])
    assert "There is no client_id 977" in toolcaddie.ok("resume", waits["run_id"])
