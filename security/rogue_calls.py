"""Calls 1,000 hostile tools of one server, while another user keeps asking it: HTTP APIs, MCP servers and web pages that answer
slowly, endlessly or with bombs (`security.rogues`), and commands that fork, fill memory or never end.

Each call must end within its timeout and half a second, the server's memory must not grow, and the other user must not wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from security.goals import Goal
from security.rogues import KINDS, document
from security.server import ROOT, Server, serving
from toolcaddie.core.bounds import MEGABYTE
from toolcaddie.testing import ScriptedUpstream, call, say

TIMEOUT = 2.0
"""Seconds that each tool may take."""
_MORE, _MORE_QUICK = 0.5, 3.0
"""Seconds beyond the timeout in which a call must end; the longer time is for busy machines."""
_RATIO = 2
"""How many times as long another user may wait, as the 99th percentile."""
_WAIT_QUICK = 1.0
"""The longest accepted 99th percentile of the waits with `--quick`, in seconds, as in `security.hostile`."""
_MOST_MEMORY = 64 * MEGABYTE
_AT_ONCE = 16
_WARM_UP = 60
_NOT_CALLED = "There is no tool"
"""The beginning of the result of a call that reached no tool."""

TOOLS = """
import asyncio
from toolcaddie import tool

@tool(read_only=True)
async def wait_politely() -> str:
    \"\"\"Wait for as long as a tool may take.\"\"\"
    await asyncio.sleep({seconds})
    return "done"
"""

_COMMANDS = {
    "forks": "python3 -c 'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass'",
    "daemons": "python3 -c 'import os,time\nfor _ in range(9):\n  if os.fork() == 0: os.setsid(); time.sleep(600)' & sleep 600",
    "memory": "python3 -c 'held = []\nwhile True: held.append(bytearray(1 << 24))'",
    "flood": "yes",
    "spin": "while true; do :; done",
    "deaf": "trap '' TERM INT HUP; sleep 600",
}
"""Commands that no shell would like to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a hostile tool."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The measurement of many calls."""

    seconds: tuple[float, ...]
    """The time of each call."""
    slowest: str
    """The tool of the longest call."""
    memory: int
    """Growth of the server's memory in bytes."""
    wait: float
    """The 99th percentile of the other user's waits, in seconds."""
    failures: int
    """Requests without an answer of status 200."""


def attacked(*, quick: bool) -> Sequence[Goal]:
    """Makes the calls and returns the goals."""
    calm, rough = asyncio.run(_attacked(100 if quick else 1_000))
    return _goals(calm, rough, quick=quick)


async def _attacked(count: int) -> tuple[Phase, Phase]:
    """Returns the measurements of polite calls and of hostile ones."""
    with _rogues() as port, ScriptedUpstream(_model) as upstream:
        async with _served(upstream, port) as server:
            calls = list(itertools.islice(itertools.cycle(_calls(port)), count))
            random.Random(7).shuffle(calls)
            polite = [Call(tool="wait_politely", arguments={})] * count
            await _phase(server, [*calls[:_WARM_UP], *polite[:_WARM_UP]])
            return await _phase(server, polite), await _phase(server, calls)


def _goals(calm: Phase, rough: Phase, *, quick: bool) -> Sequence[Goal]:
    slowest, ratio = max(rough.seconds), rough.wait / calm.wait
    more = _MORE_QUICK if quick else _MORE
    return [
        Goal(
            name="slowest of the calls of hostile tools, beyond the timeout",
            figure=f"{(slowest - TIMEOUT) * 1000:.0f} ms ({rough.slowest}) of {len(rough.seconds):,} calls",
            goal=f"at most {more * 1000:.0f} ms",
            met=slowest <= TIMEOUT + more,
        ),
        Goal(
            name="requests that failed with a hostile tool",
            figure=f"{rough.failures} of {len(rough.seconds):,}",
            goal="0",
            met=not rough.failures,
        ),
        Goal(
            name="growth of the server's memory",
            figure=f"{rough.memory / MEGABYTE:.0f} MiB",
            goal="at most 64 MiB",
            met=rough.memory <= _MOST_MEMORY,
        ),
        Goal(
            name="p99 of another user, beside hostile tools and beside as many polite ones",
            figure=f"{rough.wait * 1000:.1f} ms and {calm.wait * 1000:.1f} ms: {ratio:.2f} times",
            goal=f"at most {_WAIT_QUICK:g} s" if quick else f"at most {_RATIO} times",
            met=rough.wait <= _WAIT_QUICK if quick else ratio <= _RATIO,
        ),
    ]


# ---------------------------------------------------------------- calls


def _calls(port: int) -> list[Call]:
    """Returns one call of each hostile tool."""
    calls = [Call(tool=f"api_{kind}", arguments={}) for kind in KINDS]
    calls += [Call(tool=f"strangers__mcp_{kind}", arguments={}) for kind in KINDS]
    calls += [Call(tool="web_fetch", arguments={"url": f"http://127.0.0.1:{port}/{kind}"}) for kind in KINDS]
    return calls + [Call(tool="exec", arguments={"command": command}) for command in _COMMANDS.values()]


def _model(body: Any) -> Any:
    """Returns the answer of a model that makes exactly the call in the request."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return say(last["content"][:200])
    if not last["content"].startswith("{"):
        return say("hello")
    wanted = json.loads(last["content"])
    return call(wanted["tool"], wanted["arguments"])


async def _phase(server: Server, calls: Sequence[Call]) -> Phase:
    """Makes the calls, some at a time."""
    before, started = server.resident, time.monotonic()
    server.forget_peak()
    gate = asyncio.Semaphore(_AT_ONCE)
    outcomes = await asyncio.gather(*(_made(server, each, gate) for each in calls))
    waits = [seconds if status == 200 else 1e9 for at, seconds, status in server.waits if at >= started]
    return Phase(
        seconds=tuple(seconds for seconds, _ in outcomes),
        slowest=max(zip(outcomes, calls, strict=True), key=lambda each: each[0])[1].tool,
        memory=server.peak - before,
        wait=statistics.quantiles(waits, n=100)[98],
        failures=sum(status != 200 for _, status in outcomes),
    )


async def _made(server: Server, wanted: Call, gate: asyncio.Semaphore) -> tuple[float, int]:
    """Returns the seconds that a request with this call took, and the status of its answer; 0: the tool was not called."""
    content = json.dumps({"tool": wanted.tool, "arguments": wanted.arguments})
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode()
    async with gate:
        started = time.monotonic()
        answer = await server.post(body, seconds=60)
        called = not answer.sentence.startswith(_NOT_CALLED)
        return time.monotonic() - started, answer.status if called else 0


# ---------------------------------------------------------------- servers


@contextlib.contextmanager
def _rogues() -> Iterator[int]:
    """Starts the hostile server and yields its port. It has a low priority, because it stands for machines elsewhere, which take
    no computing time from this one."""
    command = ["nice", sys.executable, "-m", "security.rogues"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


@contextlib.asynccontextmanager
async def _served(upstream: ScriptedUpstream, port: int) -> AsyncIterator[Server]:
    words = ("--upstream", upstream.base_url, "--catalog", "python:hostile_tools", "--model", "m")
    tools = TOOLS.format(seconds=TIMEOUT * 0.9)
    async with serving(
        *words,
        quiet=("/healthz", "chat"),
        settings=_settings(port),
        tools=tools,
        files={"rogues.json": json.dumps(document(port))},
        environ={"OPENAI_API_KEY": "test-key"},
    ) as server:
        yield server


def _settings(port: int) -> str:
    return f"""
[limits]
tool_seconds = {TIMEOUT}
calls = 4
[[source]]
type = "openapi"
name = "rogues"
document = "rogues.json"
servers = ["http://127.0.0.1:{port}"]
timeout = {TIMEOUT}
[[source]]
type = "mcp"
name = "strangers"
url = "http://127.0.0.1:{port}/mcp"
timeout = {TIMEOUT}
[[source]]
type = "web"
[source.fetch]
private_hosts = ["127.0.0.1:{port}"]
cache_ttl = 0
timeout = {TIMEOUT}
[[source]]
type = "exec"
timeout = {TIMEOUT}
[log]
level = "error"
"""
