"""Many calls of servers that end, fall silent or send rubbish. `make mcp-chaos` does the same with ten servers of the official
package over both transports, and lasts a minute."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.durations import shortest
from tests.sources.mcp.using import GENERATIONS, called, context
from toolcaddie.sources.mcp import McpServer, McpSource

pytestmark = pytest.mark.anyio

TIMEOUT = 1.2
SLACK = 5.0
"""Seconds by which a busy machine may notice a timeout late. A call without a timeout would wait for ever."""

UNSTEADY = """
import json, os, signal, sys
def send(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", **result}}), flush=True)
INFO = {"capabilities": {"tools": {}}, "serverInfo": {"name": "c", "version": "1"}}
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        send(id, {"protocolVersion": "2025-11-25", **INFO})
    elif method == "server/discover":
        send(id, {"supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private", **INFO})
    elif method == "tools/list":
        send(id, {"tools": [{"name": "do", "inputSchema": {"type": "object"}}], "ttlMs": 0, "cacheScope": "private"})
    elif method == "tools/call":
        arguments = message["params"]["arguments"]
        if arguments["what"] == "die":
            os._exit(1)
        if arguments["what"] == "stall":
            os.kill(os.getpid(), signal.SIGSTOP)
        if arguments["what"] == "garbage":
            print("{not json", flush=True)
        elif arguments["what"] == "echo":
            send(id, {"content": [{"type": "text", "text": str(arguments["number"])}]})
"""


async def test_servers_that_are_killed_and_stalled_answer_every_call_in_time(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(UNSTEADY)
    sources = [
        McpSource(
            McpServer(
                name=f"s{n}",
                command=sys.executable,
                args=("-u", str(script)),
                timeout=TIMEOUT,
                protocol=GENERATIONS[n % 2],
            )
        )
        for n in range(4)
    ]
    this = psutil.Process()
    tasks, descriptors, processes = asyncio.all_tasks(), this.num_fds(), len(this.children(recursive=True))
    await asyncio.gather(*(source.open() for source in sources))
    chance = random.Random(5)
    fates = [chance.choices(("echo", "die", "garbage"), (100, 1, 1))[0] for _ in range(400)]

    async def one(number: int) -> str:
        source, started = sources[number % 4], time.monotonic()
        # The fourth server is stalled in its first call and never comes back; its calls all end by themselves.
        what = "stall" if number == 3 else fates[number]
        result = await source.call_tool(source.tools()[0], {"what": what, "number": number}, context())
        assert time.monotonic() - started < TIMEOUT + SLACK
        assert result.is_error or result.text == str(number)
        return result.error or "answered"

    outcomes = Counter(await asyncio.gather(*map(one, range(400))))
    assert outcomes["timeout"] >= 100
    for _ in range(20):  # on a busy machine, the servers may need all of the first second to start again
        if outcomes["answered"] >= 20:
            break
        outcomes += Counter(await asyncio.gather(*(one(number) for number in range(40, 80) if number % 4 != 3)))
    assert outcomes["answered"] >= 20
    for source in sources[:3]:
        assert (await called(source, "do", what="echo", number=1)).text == "1"
    await asyncio.gather(*(source.close() for source in sources))
    assert asyncio.all_tasks() <= tasks
    assert this.num_fds() <= descriptors
    assert len(this.children(recursive=True)) == processes


async def test_the_timeout_of_a_call_includes_its_wait_for_a_place(tmp_path: Path) -> None:
    """A stalled server delays even the news that a call is cancelled; neither that nor the queue may keep the caller."""
    script = tmp_path / "server.py"
    script.write_text(UNSTEADY)
    server = McpServer(name="s", command=sys.executable, args=("-u", str(script)), timeout=0.4, concurrency=1)
    source = McpSource(server)
    await source.open()

    async def duration() -> float:
        started = time.monotonic()
        # Each call fills the pipe of the stalled server a little more.
        calls = (called(source, "do", what="stall", number=number, filler="x" * 60_000) for number in range(6))
        results = await asyncio.gather(*calls)
        assert [result.error for result in results] == ["timeout"] * 6
        return time.monotonic() - started

    assert await shortest(duration, under=1.0) < 1.0
    await source.close()
