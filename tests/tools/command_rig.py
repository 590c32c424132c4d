"""A runtime with the source `exec` under the shipped policy, and a person who answers its questions."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from toolcaddie.core.approval import Approval
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import preset
from toolcaddie.core.tool import ToolResult
from toolcaddie.parts import Parts
from toolcaddie.ports import Sandbox
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.sandbox.plain import Plain
from toolcaddie.sandbox.wall import Wall
from toolcaddie.testing import ScriptedProvider
from toolcaddie.tools.commands import Commands


def sandbox_of(kind: str) -> Sandbox:
    """Returns a sandbox; skips the test on a machine that cannot hold it."""
    try:
        return Plain() if kind == "plain" else Wall()
    except ConfigError as error:
        pytest.skip(f"this machine cannot hold the sandbox {kind}: {error}")


@dataclass
class Rig:
    """The source, its runtime, and what the person was asked."""

    folder: Path
    """The work folder."""
    source: Commands
    runtime: Runtime
    answer: bool = True
    """The person's answer to every question."""
    previews: list[str] = field(default_factory=list)

    async def approve(self, approval: Approval) -> bool:
        self.previews.append(approval.preview)
        return self.answer

    async def exec(self, command: str, *, options: Mapping[str, Any] | None = None, **arguments: Any) -> ToolResult:
        return await self.runtime.call("exec", {"command": command, **arguments}, **(options or {}))

    async def process(
        self, action: str, session_id: str = "", *, options: Mapping[str, Any] | None = None, **arguments: Any
    ) -> ToolResult:
        return await self.runtime.call(
            "process", {"action": action, "session_id": session_id, **arguments}, **(options or {})
        )

    async def start(self, command: str, **arguments: Any) -> str:
        """Starts a command in the background and returns its session id."""
        result = await self.exec(command, background=True, **arguments)
        assert result.success, result.text
        return str(result.structured["session_id"])

    async def output(self, session_id: str, ending: str, **arguments: Any) -> str:
        """Polls a session until its output ends so, and returns all of it."""
        text = ""
        async with asyncio.timeout(10):
            while not text.endswith(ending):
                text += (await self.process("poll", session_id, **arguments)).structured["output"]
        return text

    async def finished(self, session_id: str) -> Mapping[str, Any]:
        """Polls a session until it has ended, and returns its state with all output."""
        text = ""
        async with asyncio.timeout(10):
            while True:
                state = (await self.process("poll", session_id)).structured
                text += state["output"]
                if state["status"] == "finished":
                    return {**state, "output": text}


@asynccontextmanager
async def rig(
    folder: Path, kind: str = "plain", *, most_seconds: float | None = None, **settings: Any
) -> AsyncIterator[Rig]:
    """Yields a runtime with the source in a sandbox of this kind. `most_seconds`: the longest time of any call."""
    box = sandbox_of(kind)
    source = Registry().make(
        "source", "exec", {"workdir": str(folder / "work"), **settings}, Parts(sandbox=lambda: box)
    )
    rig = Rig(folder / "work", source, None)  # type: ignore[arg-type]
    always = preset("default")
    always = replace(always, limits=replace(always.limits, tool_seconds_most=most_seconds))
    rig.runtime = Runtime(provider=ScriptedProvider([]), sources=[source], approver=rig, preset=always)
    try:
        async with rig.runtime:
            yield rig
    finally:
        await box.close()


class Alive:
    """A named pipe that the processes of a command hold open, so that its reader sees when all of them are dead."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "alive"
        os.mkfifo(self.path)
        self.path.chmod(0o666)
        self._reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    async def is_gone(self, seconds: float) -> bool:
        return await asyncio.to_thread(self._ended, seconds)

    def _ended(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._reader], [], [], seconds)
        return bool(ready) and os.read(self._reader, 100) == b""
