"""Calls of MCP servers while these are killed, stalled and restarted: python -m benchmarks.mcp_chaos [--seed N]

Ten real servers, over stdio and streamable HTTP, in both generations of the protocol. Runs of a scripted model call their tools,
1,000 calls at the same time, wave after wave: one in peace, and then until each server has been killed, stalled and restarted.
The exit code is 1 if a call had no result, ended late, got the result of another call or stands in the wrong place of its run,
or if a task, descriptor or process is left at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import psutil

from benchmarks.chaos_servers import Blow, Upstream, blows
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.events import CallFinished
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.run import Limits
from toolcaddie.core.tool import ToolResult
from toolcaddie.runtime import Runtime
from toolcaddie.sources.mcp import McpSource
from toolcaddie.testing import Reply, ScriptedProvider, calls, say
from toolcaddie.util.replacing import replace

_PER_RUN = 50
"""Calls of one run, all in one answer of the model."""
_SETTLING_SECONDS = 10.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The size of the test."""

    seed: int = 1
    servers: int = 10
    calls: int = 1_000
    timeout: float = 10.0
    allowance: float = 0.5
    """Seconds that a call may take beyond its timeout, because this process is busy with a thousand others."""


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """What the process holds at one moment."""

    tasks: int
    descriptors: int
    processes: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the test."""

    calls: int
    waves: int
    blows: int
    outcomes: dict[str, int]
    calm: float
    """Seconds of the slowest call of the wave in which nothing happened to a server."""
    slowest: float
    """Seconds of the slowest call of the others."""
    before: Count
    after: Count
    complaints: list[str]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcp_chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers", type=int, default=10)
    parser.add_argument("--calls", type=int, default=1_000, help="calls at the same time")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds for a call")
    options = parser.parse_args()
    logging.getLogger("toolcaddie").setLevel(logging.ERROR)  # each disturbance would write some lines
    plan = Plan(**vars(options))
    report = asyncio.run(chaos(plan))
    _print(plan, report)
    sys.exit(1 if report.complaints else 0)


def _print(plan: Plan, report: Report) -> None:
    print(f"seed {plan.seed}: {report.calls:,} calls in {report.waves} waves, {report.blows} disturbances")
    for outcome, number in sorted(report.outcomes.items()):
        print(f"  {outcome:<18}{number:>8,}")
    print(f"slowest call without disturbances {report.calm:.2f} s")
    print(f"slowest call {report.slowest:.2f} s, timeout {plan.timeout:g} s")
    print(f"{'':<14}{'before':>8}{'after':>8}")
    for field in Count.__struct_fields__:
        print(f"{field:<14}{getattr(report.before, field):>8}{getattr(report.after, field):>8}")
    for complaint in report.complaints:
        print(f"FAILED: {complaint}")


async def chaos(plan: Plan) -> Report:
    """Runs the test."""
    chance = random.Random(plan.seed)
    upstreams = [Upstream(number, plan.timeout) for number in range(plan.servers)]
    complaints: list[str] = []
    times: list[CallFinished] = []
    try:
        await asyncio.gather(*(upstream.start() for upstream in upstreams))
        await _warmed_up(upstreams[:4])
        before = _count()
        disturbances = blows(chance, plan.servers, plan.timeout)
        waves = 0
        async with _opened(upstreams, plan, times) as runtime:
            complaints += await _wave(runtime, plan, chance)
            if unanswered := sum(each.result.is_error for each in times):
                complaints.append(f"{unanswered} calls failed before anything had happened to a server")
            calm = max(each.seconds for each in times)
            times.clear()
            trouble = asyncio.create_task(_trouble(upstreams, disturbances))
            while not trouble.done():
                waves += 1
                complaints += await _wave(runtime, plan, chance)
            await trouble
            complaints += await _recovered(runtime, plan)
        after = await _settled(before)
    finally:
        await asyncio.gather(*(upstream.stop() for upstream in upstreams))
    slowest = max(each.seconds for each in times)
    if slowest > plan.timeout + plan.allowance:
        complaints.append(f"a call took {slowest:.2f} s")
    for field in Count.__struct_fields__:
        if getattr(after, field) > getattr(before, field):
            complaints.append(f"{getattr(after, field) - getattr(before, field)} {field} are left")
    return Report(
        calls=len(times),
        waves=waves,
        blows=len(disturbances),
        outcomes=Counter(_outcome(each.result) for each in times),
        calm=calm,
        slowest=slowest,
        before=before,
        after=after,
        complaints=complaints,
    )


def _outcome(result: ToolResult) -> str:
    if not result.is_error:
        return "answered"
    known = {
        "within": "timeout",
        "in time": "timeout",
        "went away": "lost in the call",
        "is not connected": "not connected",
        "failed: ": "no connection",
    }
    return next((name for words, name in known.items() if words in result.text), f"other: {result.text:.100}")


@contextlib.asynccontextmanager
async def _opened(upstreams: Sequence[Upstream], plan: Plan, times: list[CallFinished]) -> AsyncIterator[Runtime]:
    async def listen(event: Any) -> None:
        if isinstance(event, CallFinished):
            times.append(event)

    sources = [McpSource(upstream.settings) for upstream in upstreams]
    limits = Limits(calls=None, tool_seconds=plan.timeout)
    preset = replace(PRESETS["default"], name="chaos", limits=limits, meta=())
    runtime = Runtime(provider=ScriptedProvider(_answer), sources=sources, preset=preset, policy=AllowAll())
    await runtime.open()
    try:
        with runtime.subscribe(listen):
            yield runtime
    finally:
        await runtime.close()


def _answer(request: ModelRequest) -> Reply:
    """Returns the scripted model's answer: the calls that the request spells out, and then a word."""
    last = request.messages[-1]
    if last.role != "user":
        return say("done")
    return calls(*((name, arguments) for name, arguments in msgspec.json.decode(str(last.content))))


async def _wave(runtime: Runtime, plan: Plan, chance: random.Random) -> list[str]:
    """Starts all runs at once. Returns complaints about their results."""
    runs = max(1, plan.calls // _PER_RUN)
    outcomes = await asyncio.gather(
        *(_run(runtime, plan, chance, first * _PER_RUN) for first in range(runs)), return_exceptions=True
    )
    complaints: list[str] = []
    for outcome in outcomes:
        complaints += [f"a run failed: {outcome!r}"] if isinstance(outcome, BaseException) else outcome
    return complaints


async def _run(runtime: Runtime, plan: Plan, chance: random.Random, first: int) -> list[str]:
    """Makes one run of many calls. Returns complaints about results that are missing, wrong or in the wrong place."""
    numbers = range(first, first + _PER_RUN)
    wanted = [
        (f"chaos{number % plan.servers}__work", {"number": number, "seconds": round(chance.uniform(0, 1.5), 3)})
        for number in numbers
    ]
    result = await runtime.run(msgspec.json.encode(wanted).decode(), max_tools=plan.servers)
    [asking] = [message for message in result.messages if message.tool_calls]
    answers = [message for message in result.messages if message.role == "tool"]
    if [answer.tool_call_id for answer in answers] != [each.id for each in asking.tool_calls]:
        return [f"the results of a run are not in the order of its {_PER_RUN} calls"]
    return [
        f"call {number} got: {answer.content!s:.200}"
        for number, answer in zip(numbers, answers, strict=True)
        if answer.content != str(number) and f"chaos{number % plan.servers}" not in str(answer.content)
    ]


async def _trouble(upstreams: Sequence[Upstream], plan: Sequence[Blow]) -> None:
    """Carries out the plan. Blows to one server follow each other; those to different servers overlap."""
    busy = [asyncio.Lock() for _ in upstreams]

    async def suffer(blow: Blow) -> None:
        async with busy[blow.server]:
            await upstreams[blow.server].suffer(blow)

    async with asyncio.TaskGroup() as group:
        for blow in plan:
            await asyncio.sleep(blow.after)
            group.create_task(suffer(blow))


async def _recovered(runtime: Runtime, plan: Plan) -> list[str]:
    """Calls every server until it answers. Returns the names of servers that never do."""
    deadline = time.monotonic() + 60
    silent = {f"chaos{number}__work" for number in range(plan.servers)}
    while silent and time.monotonic() < deadline:
        for name in sorted(silent):
            result = await runtime.call(name, {"number": 1, "seconds": 0})
            if not result.is_error:
                silent.discard(name)
        await asyncio.sleep(0.2)
    return [f"{name} did not come back" for name in sorted(silent)]


async def _warmed_up(upstreams: Sequence[Upstream]) -> None:
    """Opens and closes a source of each kind, so that what is made once for a process is not counted as left."""
    for upstream in upstreams:
        source = McpSource(upstream.settings)
        await source.open()
        await source.close()


async def _settled(before: Count) -> Count:
    """Returns what the process holds, when that is no more than before or has had time to end."""
    deadline = time.monotonic() + _SETTLING_SECONDS
    while (after := _count()) != before and time.monotonic() < deadline:  # noqa: ASYNC110  nothing announces it
        await asyncio.sleep(0.1)
    return after


def _count() -> Count:
    process = psutil.Process()
    return Count(
        tasks=len(asyncio.all_tasks()),
        descriptors=process.num_fds(),
        processes=len(process.children(recursive=True)),
    )


if __name__ == "__main__":
    main()
