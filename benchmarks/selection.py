"""The time from a query to the finished `Selection`, in catalogs of 137, 1,000 and 10,000 tools, on one core.

python -m benchmarks.selection
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.message import Message
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.selection import Budget, SelectionQuery
from toolcaddie.core.tool import Tool
from toolcaddie.selection.selector import Selector

SIZES = (137, 1_000, 10_000)
GOALS_MS = {137: 1.0, 1_000: 1.0, 10_000: 3.0}
REQUESTS = 1_000


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_AREAS = _words(
    "customer invoice payment order product shipment ticket employee project task calendar meeting document folder "
    "report campaign lead contract supplier warehouse vehicle booking room patient course student grade device "
    "sensor server database backup deployment repository branch release incident alert dashboard survey review "
    "subscription coupon refund account budget expense salary shift vacation applicant interview newsletter recipe "
    "ingredient playlist photo"
)
_VERBS = _words("get list create update delete search export import approve cancel assign archive")
_DETAILS = _words("history status summary details statistics owner comment attachment reminder label template rule")
_PHRASES = (
    "Returns the matching entries, newest first.",
    "Needs the identifier; look it up first if you only know the name.",
    "Use this when the user asks about a single entry.",
    "The result holds totals per month and a comparison with the year before.",
    "Only entries that the caller may see are returned.",
)
_REQUESTS = (
    "show me the {detail} of every {area} from last week",
    "Can you please {verb} the {area} for John and then tell me whether it worked?",
    "what is the {detail} of {area} 4711?",
    "I need a list of all {area}s that have no {detail} yet, sorted by date",
    "yes, do it",
    "{verb} {area}",
    "Hi! We talked about the {area} yesterday. Could you {verb} its {detail} and send me a summary of what changed?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Figures in milliseconds. `cpu_p99_ms` is the thread's own time, which other work on the machine does not affect."""

    tools: int
    preset: str
    index_ms: float
    p50_ms: float
    p99_ms: float
    cpu_p99_ms: float
    goal_ms: float


def run(sizes: tuple[int, ...] = SIZES, requests: int = REQUESTS) -> list[Row]:
    """Returns a row per size and preset. Every request is timed by itself, after the index is built."""
    return [_measured(size, preset, requests) for size in sizes for preset in ("default", "keyword")]


def catalog(size: int) -> Catalog:
    """Returns a catalog of `size` different tools in categories of about twelve, the same in every process."""
    dice = random.Random(size)
    names = [(area, verb, detail) for area in _AREAS for detail in ("", *_DETAILS) for verb in _VERBS]
    numbered = [names[i % len(names)] + (i // len(names),) for i in range(size)]
    tools = [_tool(*parts, dice) for parts in numbered]
    groups = dict.fromkeys(tool.category or "" for tool in tools)
    return Catalog.of(tools, [Category(name=name, keywords=(name,)) for name in groups])


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns the goals that the rows miss."""
    return [f"{row.tools:,} tools, {row.preset}: {row.p99_ms:.3f} ms p99" for row in rows if row.p99_ms > row.goal_ms]


def main(arguments: Sequence[str] = ()) -> list[Row]:
    rows = run(requests=200) if "--quick" in arguments else run()
    print(f"{'tools':>7} {'preset':<8} {'index ms':>9} {'p50 ms':>8} {'p99 ms':>8} {'CPU p99':>8} {'goal p99':>9}")
    for row in rows:
        print(
            f"{row.tools:>7,} {row.preset:<8} {row.index_ms:>9.0f} {row.p50_ms:>8.3f} {row.p99_ms:>8.3f} "
            f"{row.cpu_p99_ms:>8.3f} {row.goal_ms:>9.1f}"
        )
    return rows


def _measured(size: int, preset: str, requests: int) -> Row:
    """Times the first selection, which builds the index, and then each request by itself."""
    settings = PRESETS[preset]
    view = View(catalog=catalog(size))
    selector = Selector(settings.selection, core=settings.core_first)
    dice = random.Random(1)
    queries = [_query(dice) for _ in range(requests)]
    started = time.perf_counter()
    selector.select(view, queries[0], settings.budget)
    index_ms = (time.perf_counter() - started) * 1e3
    timed = [_timed(selector, view, query, settings.budget) for query in queries]
    wall, cpu = sorted(wall for wall, _ in timed), sorted(cpu for _, cpu in timed)
    return Row(
        tools=size,
        preset=preset,
        index_ms=index_ms,
        p50_ms=wall[len(wall) // 2] * 1e3,
        p99_ms=wall[int(len(wall) * 0.99)] * 1e3,
        cpu_p99_ms=cpu[int(len(cpu) * 0.99)] * 1e3,
        goal_ms=GOALS_MS[size],
    )


def _timed(selector: Selector, view: View, query: SelectionQuery, budget: Budget) -> tuple[float, float]:
    """Returns the seconds of the wall clock and of the thread's own time."""
    wall, cpu = time.perf_counter(), time.thread_time()
    selector.select(view, query, budget)
    return time.perf_counter() - wall, time.thread_time() - cpu


def _tool(area: str, verb: str, detail: str, copy: int, dice: random.Random) -> Tool:
    """Returns a made-up tool. `copy`: 0, or a number that tells tools with the same words apart."""
    subject = f"{area} {detail}".strip()
    suffix = f"_v{copy}" if copy else ""
    properties = {
        f"{area}_id": {"type": "string", "description": f"Identifier of the {area}."},
        "since": {"type": "string", "description": "Only entries after this day, as YYYY-MM-DD."},
        "state": {"type": "string", "enum": dice.sample(["open", "closed", "pending", "failed", "draft"], 3)},
    }
    return Tool(
        name=f"{verb}_{subject.replace(' ', '_')}{suffix}",
        description=f"{verb.capitalize()} the {subject}. {' '.join(dice.sample(_PHRASES, 2))}",
        input_schema={"type": "object", "properties": properties, "required": [f"{area}_id"]},
        category=f"{area}_{detail}" if detail else area,
    )


def request(dice: random.Random) -> str:
    """Returns a request that a user of the tools of `catalog` may write."""
    pattern = dice.choice(_REQUESTS)
    return pattern.format(area=dice.choice(_AREAS), verb=dice.choice(_VERBS), detail=dice.choice(_DETAILS))


def _query(dice: random.Random) -> SelectionQuery:
    messages = [
        Message(role=role, content=request(dice)) for _ in range(dice.randrange(3)) for role in ("user", "assistant")
    ]
    return SelectionQuery(messages=(*messages, Message(role="user", content=request(dice))), expandable=True)


if __name__ == "__main__":
    main(sys.argv[1:])
