"""The number of the gym's thirty everyday requests that the practice model completes, for each seed of people and ids.

    python -m benchmarks.practice [SEED ...]

A request counts if its expected calls were made, in order and with the expected arguments, and the gym's database afterwards
equals one in which only the expected calls were made. So further calls do not matter if they only read.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tests.samples.gym_values import PracticeRequest, call, example_values, practice_requests
from toolcaddie.core.claims import Claim
from toolcaddie.core.meta_names import EXECUTE_TOOL
from toolcaddie.core.run import RunResult
from toolcaddie.runtime import Runtime
from toolcaddie.samples.gym import source
from toolcaddie.samples.practice import PracticeModel

SEEDS = (0, 1, 2, 3, 4)
DAY = date(2026, 3, 18)

_CLOCK = "checked_in_at"
"""The only column that depends on the time of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A request of the gym's list, and the calls that the practice model made for it."""

    request: PracticeRequest
    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    answer: str
    unsupported_claims: tuple[Claim, ...] = ()
    """What the answer says was done that no call did, by the check of every run."""
    wrong: str = ""
    """The reason why the request does not count as completed; empty: it was completed."""


async def attempts(seed: int, *, day: date = DAY) -> list[Attempt]:
    """Runs every request on a fresh copy of the seed's gym, through the whole runtime with preset `default`."""
    with tempfile.TemporaryDirectory() as folder:
        origin = Path(folder) / "origin.db"
        gym = source(str(origin), today=day, seed=seed)
        requests = practice_requests(await example_values(gym))
        gym.close()
        return [await _attempt(request, origin, seed, day) for request in requests]


async def _attempt(request: PracticeRequest, origin: Path, seed: int, day: date) -> Attempt:
    """Runs one request on a copy of the database `origin`, and compares the copy with the expected one."""
    database = Path(shutil.copy(origin, origin.with_name("attempt.db")))
    gym = source(str(database), today=day, seed=seed)
    runtime = Runtime(provider=PracticeModel(today=lambda: day), sources=[gym], model="practice")
    result = await runtime.run(request.request)
    await runtime.close()
    gym.close()
    calls = tuple(_calls(result))
    wrong = _missing(request.expect, calls)
    if not wrong and _content(database) != await _expected_content(request, origin, seed, day):
        wrong = "the gym is not as the expected calls leave it"
    claims = result.unsupported_claims
    return Attempt(request=request, calls=calls, answer=result.text, unsupported_claims=claims, wrong=wrong)


def _calls(result: RunResult) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for message in result.messages:
        for made in message.tool_calls:
            arguments = json.loads(made.arguments)
            if made.name == EXECUTE_TOOL:
                yield arguments["tool_name"], arguments.get("arguments", {})
            else:
                yield made.name, arguments


def _missing(expected: Sequence[tuple[str, Mapping[str, Any]]], calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Returns a text that names the first expected call that was not made in its order, or an empty text. Other calls in between
    and further arguments are allowed."""
    actual_calls = iter(calls)
    for name, arguments in expected:
        if not any(one == name and arguments.items() <= actual.items() for one, actual in actual_calls):
            return f"no call {name} {json.dumps(dict(arguments), ensure_ascii=False)}"
    return ""


async def _expected_content(request: PracticeRequest, origin: Path, seed: int, day: date) -> list[Any]:
    """Returns the content of another copy of `origin` in which only the expected calls were made."""
    twin = Path(shutil.copy(origin, origin.with_name("twin.db")))
    gym = source(str(twin), today=day, seed=seed)
    for name, arguments in request.expect:
        await call(gym, name, **arguments)
    gym.close()
    return _content(twin)


def _content(path: Path) -> list[Any]:
    """Returns every table and its rows."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    content = [
        (
            table,
            sorted(
                repr([row[key] for key in row.keys() if key != _CLOCK])  # noqa: SIM118  a row iterates over values
                for row in connection.execute(f"SELECT * FROM {table}")
            ),
        )
        for table in tables
    ]
    connection.close()
    return content


def main(arguments: Sequence[str] = ()) -> None:
    for seed in [int(argument) for argument in arguments] or SEEDS:
        made = asyncio.run(attempts(seed))
        done = sum(not attempt.wrong for attempt in made)
        rounds = sum(len(attempt.calls) for attempt in made) / len(made)
        print(f"seed {seed}: {done} of {len(made)} requests done, {rounds:.1f} calls each")
        for attempt in made:
            if attempt.wrong:
                print(f"    {attempt.request.category}: {attempt.request.request!r}: {attempt.wrong}")
                called = ", ".join(f"{name} {json.dumps(dict(arguments))}" for name, arguments in attempt.calls)
                print(f"        called {called or 'nothing'}")
                print(f"        {attempt.answer}")


if __name__ == "__main__":
    main(sys.argv[1:])
