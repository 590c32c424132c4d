"""Written tools behind the wall: they run, and reach nothing but their arguments."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.authored.service import a_tool
from toolcaddie.core.errors import ConfigError, SandboxError
from toolcaddie.core.tool import ToolResult
from toolcaddie.ports import Sandbox
from toolcaddie.sandbox.wall import Wall
from toolcaddie.tools.authored import running
from toolcaddie.tools.authored.values import AuthoredLimits, ToolType

pytestmark = pytest.mark.anyio
ANY = {"type": "object", "properties": {}}


@pytest.fixture
def wall() -> Iterator[Sandbox]:
    try:
        yield Wall()
    except (ConfigError, SandboxError) as error:
        pytest.skip(f"this machine has no wall: {error}")


async def ran(
    wall: Sandbox, source: str, *, of: ToolType = "python", seconds: float = 10.0, **arguments: Any
) -> ToolResult:
    tool = a_tool(source=source, of=of, parameters=ANY)
    try:
        return await running.run(tool, arguments, sandbox=wall, limits=AuthoredLimits(seconds=seconds))
    finally:
        await wall.close()


async def test_python_runs_with_the_standard_library(wall: Sandbox) -> None:
    result = await ran(
        wall, "import statistics\ndef run(values):\n    return statistics.mean(values)\n", values=[1, 2, 6]
    )
    assert (result.text, result.is_error) == ("3", False)


async def test_a_command_runs(wall: Sandbox) -> None:
    tool = a_tool(source="printf %s -- {{text}}", of="command")
    result = await running.run(tool, {"text": "$(id) `id`"}, sandbox=wall, limits=AuthoredLimits())
    await wall.close()
    assert result.text == "--$(id) `id`"


@pytest.mark.skipif(running.missing("typescript") != "", reason=running.missing("typescript") or "node is there")
async def test_typescript_runs(wall: Sandbox) -> None:
    result = await ran(wall, "export const run = ({ n }: { n: number }): number => n * 2\n", of="typescript", n=21)
    assert (result.text, result.is_error) == ("42", False)


async def test_the_folder_of_a_tool_is_empty_and_gone_afterwards(wall: Sandbox) -> None:
    source = "import os\ndef run():\n    names = os.listdir('.')\n    open('a', 'w').write('a')\n    return names, os.getcwd()\n"
    assert (await ran(wall, source)).text == '[[], "/work"]'


async def test_a_file_of_the_host_is_not_there(wall: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret-value")
    result = await ran(wall, f"def run():\n    return open({str(secret)!r}).read()\n")
    assert result.is_error
    assert "secret-value" not in result.text


async def test_a_server_of_the_host_is_not_there(wall: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        source = f"import socket\ndef run():\n    socket.create_connection(('127.0.0.1', {port}), 2)\n"
        assert (await ran(wall, source)).is_error
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_what_a_tool_starts_ends_with_its_call(wall: Sandbox) -> None:
    source = "import subprocess\ndef run():\n    subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
    assert (await ran(wall, source, seconds=5.0)).text == "null"


async def test_a_tool_without_an_end_is_ended(wall: Sandbox) -> None:
    assert (await ran(wall, "def run():\n    while True:\n        pass\n", seconds=0.5)).error == "timeout"
