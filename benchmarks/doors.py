"""The cost of a request through each door of the gateway on its own wire, compared with the door of chat completions.

python -m benchmarks.doors [--quick]

One upstream that needs nearly no time answers. The three gateways take turns in each repetition; a ratio is taken within a
repetition, and the figure is the median of the ratios. "Latency" is the median of a block of requests, one after another.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import uvloop

from benchmarks import servers
from benchmarks.gateway import Case, request_bodies
from benchmarks.servers import Server
from benchmarks.upstream import Upstream

GOAL = 1.3
"""Goal: latency of a door divided by that of chat completions."""
_DOORS = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}
_MODELS = {"chat": "", "responses": "openai-responses:bench", "messages": "anthropic:bench"}
_CASES = tuple(Case(connections=1, stream=stream, tools=tools) for stream in (False, True) for tools in (0, 24, 300))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of a door in a case."""

    case: Case
    door: str
    p50_ms: float
    ratio: float


def body_of(door: str, body: bytes) -> bytes:
    """Returns a request of chat completions in the format of a door."""
    fields = json.loads(body)
    system, user = fields.pop("messages")
    functions = [tool["function"] for tool in fields.pop("tools", ())]
    made: dict[str, Any] = {**fields}
    if door == "responses":
        made |= {"instructions": system["content"], "input": [user], "store": False}
        tools: list[Any] = [{"type": "function", "strict": False, **each} for each in functions]
    else:
        made |= {"system": system["content"], "messages": [user], "max_tokens": 500}
        tools = [
            {"name": each["name"], "description": each["description"], "input_schema": each["parameters"]}
            for each in functions
        ]
    if tools:
        made["tools"] = tools
    return json.dumps(made, separators=(",", ":")).encode()


async def _block(session: aiohttp.ClientSession, url: str, bodies: Sequence[bytes], requests: int) -> float:
    times = []
    for number in range(requests):
        started = time.perf_counter()
        async with session.post(url, data=bodies[number % len(bodies)], headers=_HEADERS) as answer:
            data = await answer.read()
        times.append(time.perf_counter() - started)
        assert answer.status == 200, data[:500]
    return statistics.median(times) * 1e3


_HEADERS = {"content-type": "application/json", "x-api-key": "bench", "anthropic-version": "2023-06-01"}


async def _measured(running: dict[str, Server], repetitions: int, requests: int) -> list[Row]:
    rows: list[Row] = []
    async with aiohttp.ClientSession() as session:
        for case in _CASES:
            chat = request_bodies(case)
            bodies = {door: chat if door == "chat" else [body_of(door, body) for body in chat] for door in _DOORS}
            urls = {door: f"{server.base_url}{_DOORS[door]}" for door, server in running.items()}
            for door in _DOORS:
                await _block(session, urls[door], bodies[door], 20)
            rounds = [
                {door: await _block(session, urls[door], bodies[door], requests) for door in _DOORS}
                for _ in range(repetitions)
            ]
            for door in _DOORS:
                p50 = statistics.median(one[door] for one in rounds)
                ratio = statistics.median(one[door] / one["chat"] for one in rounds)
                rows.append(Row(case=case, door=door, p50_ms=p50, ratio=ratio))
    return rows


def run(*, quick: bool = False) -> list[Row]:
    with Upstream() as upstream, contextlib.ExitStack() as stack:
        running = {
            door: stack.enter_context(
                servers.toolcaddie(upstream.root if door == "messages" else upstream.base_url, model=model)
            )
            for door, model in _MODELS.items()
        }
        return uvloop.run(_measured(running, *((3, 60) if quick else (9, 200))))


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns the goals that the rows miss."""
    return [
        f"{row.case!s} {row.door}: {row.ratio:.2f} of chat" for row in rows if row.door != "chat" and row.ratio > GOAL
    ]


def main(arguments: Sequence[str] = ()) -> list[Row]:
    rows = run(quick="--quick" in arguments)
    for row in rows:
        goal = "" if row.door == "chat" else f"  goal <= {GOAL} {'met' if row.ratio <= GOAL else 'MISSED'}"
        print(f"{row.case!s:<34}{row.door:<11}{row.p50_ms:>8.2f} ms{row.ratio:>8.2f} of chat{goal}")
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
