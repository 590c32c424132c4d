"""Counts how often the code of a request moves from file to file, for one library run and one gateway request. Both are measured
on their second request. `--list` prints the calls themselves, `--json` prints the figures as JSON.

python scripts/trace_walk.py
python scripts/trace_walk.py --list library

The functions of the package are listed in the order of their first calls. A change of file is a function in another file than the
function before it: a reader who follows the request turns to another file there. `moves` counts the same over all calls,
including repeated ones. A generator or coroutine counts as called once. Comprehensions and lambdas belong to the function around
them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import openai
import structlog

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the package of this checkout, and the gateway of its tests

import toolcaddie  # noqa: E402
from tests.doors.serving import gateway  # noqa: E402
from toolcaddie import Runtime, tool  # noqa: E402
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, call, say  # noqa: E402

PACKAGE = str(Path(toolcaddie.__file__).parent)
SUSPENDS = 0x20 | 0x80 | 0x200
"""Flags of generators, coroutines and asynchronous generators, whose frames are entered again."""
FUNCTIONS, CLIENT_TOOLS = 62, 201


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The functions of the package that one request called, in order, as (file, function)."""

    calls: tuple[tuple[str, str], ...]

    def figures(self) -> dict[str, int]:
        first_calls = tuple(dict.fromkeys(self.calls))
        return {
            "calls": len(self.calls),
            "functions": len(first_calls),
            "files": len({file for file, _ in self.calls}),
            "changes_of_file": _changes(first_calls),
            "moves": _changes(self.calls),
        }

    def busiest(self) -> tuple[str, int]:
        """Returns the file of `runtime/` that the walk enters most often, and how often."""
        entered = Counter(file for file, _ in self.calls[:1])
        entered.update(other[0] for one, other in pairwise(self.calls) if one[0] != other[0])
        return max(
            ((file, times) for file, times in entered.items() if file.startswith("runtime/")), key=lambda e: e[1]
        )


def _changes(calls: Sequence[tuple[str, str]]) -> int:
    """Returns the number of calls whose function is in another file than that of the call before."""
    return sum(one[0] != other[0] for one, other in pairwise(calls))


@contextmanager
def traced() -> Iterator[list[tuple[str, str]]]:
    """Collects the calls of this thread."""
    calls: list[tuple[str, str]] = []
    begun: set[int] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
            return
        if code.co_flags & SUSPENDS:
            if id(frame) in begun:
                return
            begun.add(id(frame))
            frames.append(frame)  # kept alive, so that no other frame gets its id
        calls.append((code.co_filename.removeprefix(PACKAGE + "/"), code.co_qualname))

    frames: list[FrameType] = []
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def reading(number: int) -> Callable[..., str]:
    """Returns a tool of the library run, `read_NUMBER`."""

    def read(city: str) -> str:
        return f"{city}: fine"

    return tool(read, name=f"read_{number}", description=f"Reads the weather of station {number}.", read_only=True)


async def library() -> Walk:
    """Traces the second of two equal runs of the library, each with one tool call."""
    runtime = Runtime(
        provider=ScriptedProvider(
            [call("read_7", {"city": "Turin"}), say("Fine."), call("read_7", {"city": "Turin"}), say("Fine.")]
        ),
        sources=[reading(number) for number in range(FUNCTIONS)],
    )
    async with runtime:
        await runtime.run("read station 7 in Turin")
        with traced() as calls:
            result = await runtime.run("read station 7 in Turin")
        assert result.tool_calls == ("read_7",), result.text
    return Walk(calls=tuple(calls))


async def through_gateway() -> Walk:
    """Traces the second of two equal chat requests through the gateway, with the client's own tools."""
    tools = [
        {
            "type": "function",
            "function": {
                "name": f"tool_{number}",
                "description": f"Reads number {number}.",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
        }
        for number in range(CLIENT_TOOLS)
    ]

    async def ask(client: openai.AsyncOpenAI) -> None:
        await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "read number 7"}], tools=tools
        )

    with tempfile.TemporaryDirectory() as folder:
        async with (
            ScriptedUpstream([say("Seven."), say("Seven.")]) as upstream,
            gateway(Path(folder), upstream.base_url) as served,
        ):
            await ask(served.client)
            with traced() as calls:
                await ask(served.client)
    return Walk(calls=tuple(calls))


WALKS: dict[str, Callable[[], Awaitable[Walk]]] = {"library": library, "gateway": through_gateway}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=WALKS, help="print the calls of this walk")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    if options.list:
        file = ""
        for place, name in asyncio.run(WALKS[options.list]()).calls:
            print(f"{place if place != file else '':<40} {name}")
            file = place
        return
    walks = {name: asyncio.run(walk()) for name, walk in WALKS.items()}
    if options.json:
        print(json.dumps({name: walk.figures() for name, walk in walks.items()}))
        return
    for name, walk in walks.items():
        counts = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in walk.figures().items())
        file, times = walk.busiest()
        print(f"{name:<8} {counts}; {file} entered {times} times")


if __name__ == "__main__":
    main()
