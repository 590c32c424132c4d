"""What policy and audit add to a read-only call, with 1,000 tools and 50 rules: python -m benchmarks.policy [--quick]

Runs with 10 calls in one answer and runs without calls take turns, with and without control. With it: Cedar rules, and the
trail in an SQLite file. Without it: a policy that allows everything, and no trail. The cost of a call is the difference of both
runs, divided by 10. The model answers at once. The figures are milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from toolcaddie import Principal, RunRequest, Runtime, tool
from toolcaddie.audit.trail import Trail
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.message import Message
from toolcaddie.core.presets import preset
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, calls, say
from toolcaddie.util.replacing import replace

TOOLS, RULES, CALLS = 1_000, 50, 10
GOAL = 0.3
"""Largest median of what control adds to a call, in milliseconds."""
_ANN = Principal(id="ann", role="staff")
_TEXT = "look up the records"


class Cost(Struct, frozen=True, kw_only=True):
    """What control adds to one call, in milliseconds."""

    looks_at_arguments: bool
    """True if one of the rules does, so that no decision can be reused."""
    without: float
    """Median cost of a call without control."""
    added: float
    """Median of what control adds."""
    runs: int


def rules(*, arguments: bool) -> str:
    """Returns 50 rules: on roles, categories, names and tags, and one on an argument of the tool that is called."""
    lines = [
        f'@id("rule-{n}") forbid (principal in Role::"guest-{n}", action, resource in Category::"group{n}");'
        for n in range(RULES // 2)
    ]
    lines += [
        f'@id("ask-{n}") forbid (principal, action == Action::"call_unasked", resource == Tool::"look_up_{n * 7}") '
        f'when {{ resource.may_destroy || principal.id == "eve-{n}" }};'
        for n in range(RULES - len(lines) - 1)
    ]
    condition = (
        "context.arguments has number && context.arguments.number > 1000000" if arguments else "resource.may_destroy"
    )
    lines.append(f'@id("last") forbid (principal, action == Action::"call_unasked", resource) when {{ {condition} }};')
    return "\n".join(lines)


def _tools() -> Sequence[Any]:
    def made(place: int) -> Any:
        def look_up(number: int) -> str:
            return f"record {number}"

        return tool(
            look_up,
            name=f"look_up_{place}",
            description=f"Look up the records of group {place}.",
            category=f"group{place % 40}",
            read_only=True,
        )

    return [made(place) for place in range(TOOLS)]


def _runtime(policy: Any, trail: Trail | None, number: int) -> Runtime:
    """Returns a runtime whose model makes `number` calls of one tool in its first answer, and then ends the run."""

    def answer(request: Any) -> Any:
        if number and request.messages[-1].role != "tool":
            return calls(*(("look_up_500", {"number": n}) for n in range(number)))
        return say("done")

    chosen = preset("default")
    chosen = replace(chosen, limits=replace(chosen.limits, calls=None))
    return Runtime(provider=ScriptedProvider(answer), sources=_tools(), policy=policy, trail=trail, preset=chosen)


async def _measured(*, arguments: bool, runs: int) -> Cost:
    request = RunRequest(messages=[Message(role="user", content=f"{_TEXT} of group 500")], principal=_ANN)
    with tempfile.TemporaryDirectory() as folder:
        async with Database(f"sqlite:///{folder}/bench.sqlite") as database:
            trail, policy = Trail(database.events), CedarPolicy(text=rules(arguments=arguments))
            ways = {
                (control, number): _runtime(policy if control else AllowAll(), trail if control else None, number)
                for control in (False, True)
                for number in (0, CALLS)
            }
            times: dict[tuple[bool, int], list[float]] = {way: [] for way in ways}
            for turn in range(runs + 20):
                for way, runtime in ways.items():
                    began = time.perf_counter()
                    result = await runtime.run(request)
                    if turn >= 20:
                        times[way].append((time.perf_counter() - began) * 1_000)
                    assert len(result.tool_calls) == way[1], result
            for runtime in ways.values():
                await runtime.close()
    each = {
        control: [(many - none) / CALLS for many, none in zip(times[control, CALLS], times[control, 0], strict=True)]
        for control in (False, True)
    }
    added = [more - less for more, less in zip(each[True], each[False], strict=True)]
    return Cost(
        looks_at_arguments=arguments,
        without=statistics.median(each[False]),
        added=statistics.median(added),
        runs=runs,
    )


def missed(costs: Sequence[Cost]) -> Sequence[str]:
    """Returns the goals that were missed."""
    return [
        f"control adds {cost.added:.3f} ms to a read-only call (rules that look at arguments: {cost.looks_at_arguments}; "
        f"goal: under {GOAL} ms)"
        for cost in costs
        if not cost.added < GOAL
    ]


def main(arguments: Sequence[str] = ()) -> Sequence[Cost]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policy", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    runs = 50 if parser.parse_args(list(arguments)).quick else 400
    costs = [asyncio.run(_measured(arguments=looks, runs=runs)) for looks in (False, True)]
    print(f"{TOOLS:,} tools, {RULES} rules, {runs} runs of {CALLS} read-only calls; milliseconds per call, p50")
    for cost in costs:
        kind = "rules that look at arguments" if cost.looks_at_arguments else "rules on callers and tools"
        print(f"{kind:<30} without control {cost.without:.3f}   control adds {cost.added:.3f} (goal: under {GOAL})")
    return costs


if __name__ == "__main__":
    sys.exit(1 if missed(main(sys.argv[1:])) else 0)
