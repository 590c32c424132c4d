"""The cost of the gateway, compared with a proxy of twenty lines on the same libraries and with litellm's proxy.

python -m benchmarks.gateway [--quick] [--without-litellm]

One upstream that needs nearly no time answers the requests of all servers. In each repetition every server gets its turn, in a
changing order, so that other work on the machine affects all of them alike. Figures are medians over the repetitions; ratios are
taken within a repetition. "Added" is the median latency through a server minus the median latency of the upstream itself.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import aiohttp
import uvloop

from benchmarks import servers
from benchmarks.load import Load, Measured, WrongAnswerError
from benchmarks.servers import NotAvailableError, Server

DIRECT, BARE, OURS, LITELLM = "upstream", "bare proxy", "toolcaddie", "litellm"

GOAL_CPU_RATIOS: Mapping[int, float] = {0: 1.2, 24: 4.0, 300: 6.0}
"""Goals by number of tools: CPU of the gateway divided by CPU of the bare proxy."""
GOAL_ADDED_MS = 3.0
"""Goal for 300 tools and one connection: median of the added latency."""
GOAL_LITELLM = 10.0
"""Goal: added latency of litellm divided by that of the gateway."""

_DIFFERENT_REQUESTS = 40
"""Number of different requests that take turns. All have the same tools, like the requests of one client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of request."""

    connections: int
    stream: bool
    tools: int

    def __str__(self) -> str:
        kind = "stream of 20" if self.stream else "plain"
        return f"{self.connections:>2} conn, {kind:<12}, {self.tools:>3} tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The size of a measurement. A block ends after `requests` or `seconds`, whichever comes first."""

    repetitions: int
    requests: int
    seconds: float


FULL = Effort(repetitions=7, requests=400, seconds=0.5)
QUICK = Effort(repetitions=3, requests=100, seconds=0.25)

CASES = tuple(
    Case(connections=connections, stream=stream, tools=tools)
    for connections, stream, tools in itertools.product((1, 32), (False, True), (0, 24, 300))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The medians of a server in a case, or a `note` with the reason why there are none."""

    case: Case
    server: str
    requests: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    added_ms: float = 0.0
    cpu_ms: float = 0.0
    per_second: float = 0.0
    cpu_ratio: float = 0.0
    """CPU divided by that of the bare proxy."""
    added_ratio: float = 0.0
    """Added latency divided by that of the gateway."""
    note: str = ""


def run(effort: Effort = FULL, *, cases: Sequence[Case] = CASES, with_litellm: bool = True) -> list[Row]:
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(servers.upstream())
        running = [upstream, *(stack.enter_context(make(upstream.base_url)) for make in _OURS_AND_BARE)]
        missing = ""
        if with_litellm:
            try:
                running.append(stack.enter_context(servers.litellm(upstream.base_url)))
            except NotAvailableError as error:
                missing = str(error)
        rows = uvloop.run(_measured(running, cases, effort))
        if missing:
            rows += [Row(case=case, server=LITELLM, note=missing) for case in cases]
        return rows


_OURS_AND_BARE: tuple[Callable[[str], contextlib.AbstractContextManager[Server]], ...] = (
    servers.bare_proxy,
    servers.toolcaddie,
)


async def _measured(running: Sequence[Server], cases: Sequence[Case], effort: Effort) -> list[Row]:
    rows: list[Row] = []
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)  # servers close theirs after five seconds
    async with aiohttp.ClientSession(connector=connector) as session:
        load = Load(session)
        for case in cases:
            _progress(str(case))
            rows += await _case(load, running, case, effort)
    _progress("")
    return rows


async def _case(load: Load, running: Sequence[Server], case: Case, effort: Effort) -> list[Row]:
    """Measures one kind of request on all servers. A server that fails once gets a note and no further requests."""
    bodies = request_bodies(case)
    notes: dict[str, str] = {}
    rounds: list[dict[str, Measured]] = []

    async def ask(server: Server, requests: int, seconds: float) -> dict[str, Measured]:
        if server.name in notes:
            return {}
        try:
            measured = await load.block(
                server, bodies, connections=case.connections, requests=requests, seconds=seconds
            )
        except (WrongAnswerError, aiohttp.ClientError, TimeoutError) as error:
            notes[server.name] = f"{type(error).__name__}: {error}"
            return {}
        return {server.name: measured}

    for server in running:  # connections, caches
        await ask(server, case.connections * 2 + 4, 5.0)
    for repetition in range(effort.repetitions):
        shift = repetition % len(running)
        measured: dict[str, Measured] = {}
        for server in [*running[shift:], *running[:shift]]:
            measured |= await ask(server, effort.requests, effort.seconds)
        rounds.append(measured)
    return [_row(case, server.name, rounds, notes.get(server.name, "")) for server in running]


def _row(case: Case, name: str, rounds: Sequence[dict[str, Measured]], note: str) -> Row:
    """Returns the row of the server `name`. `rounds` has the figures of each repetition, by server."""
    if note:
        return Row(case=case, server=name, note=note)

    def median(figure: Callable[[dict[str, Measured]], float], *beside: str) -> float:
        """Returns the median over the rounds in which the servers `beside` this one were measured too."""
        return statistics.median([figure(one) for one in rounds if all(other in one for other in beside)] or [0.0])

    def added(one: dict[str, Measured], of: str) -> float:
        return one[of].p50_ms - one[DIRECT].p50_ms

    return Row(
        case=case,
        server=name,
        requests=sum(one[name].requests for one in rounds),
        p50_ms=median(lambda one: one[name].p50_ms),
        p99_ms=median(lambda one: one[name].p99_ms),
        added_ms=median(lambda one: added(one, name), DIRECT),
        cpu_ms=median(lambda one: one[name].cpu_ms),
        per_second=median(lambda one: one[name].per_second),
        cpu_ratio=median(lambda one: one[name].cpu_ms / one[BARE].cpu_ms, BARE),
        added_ratio=median(lambda one: added(one, name) / added(one, OURS), DIRECT, OURS),
    )


# --- requests ----------------------------------------------------------------------------------------------------------


def _words(text: str) -> list[str]:
    return text.split()


_DOING = _words("create read update delete list search export import approve cancel assign archive send print count")
_THINGS = _words(
    "invoice customer order shipment ticket employee project calendar meeting document folder report campaign contract "
    "supplier vehicle room patient course device"
)


def request_bodies(case: Case) -> list[bytes]:
    """Returns bodies with different messages and the same tools."""
    tools = [_tool(doing, thing) for thing, doing in itertools.islice(itertools.product(_THINGS, _DOING), case.tools)]
    pairs = itertools.cycle(itertools.product(_DOING[::2], _THINGS[::3]))
    return [_body(case, tools, doing, thing) for doing, thing in itertools.islice(pairs, _DIFFERENT_REQUESTS)]


def _body(case: Case, tools: Sequence[object], doing: str, thing: str) -> bytes:
    messages = [
        {"role": "system", "content": "You are a helpful assistant of a small company. Answer briefly."},
        {
            "role": "user",
            "content": f"Hello! Please {doing} the {thing} of John for last month, and tell me how it went.",
        },
    ]
    fields: dict[str, object] = {"model": "bench", "messages": messages}
    if case.stream:
        fields["stream"] = True
    if tools:
        fields["tools"] = tools
    return json.dumps(fields, separators=(",", ":")).encode()


def _tool(doing: str, thing: str) -> dict[str, object]:
    properties = {
        f"{thing}_id": {"type": "string", "description": f"Identifier of the {thing}."},
        "since": {"type": "string", "description": "Only entries after this day, as YYYY-MM-DD."},
        "state": {"type": "string", "enum": ["open", "closed", "pending"]},
    }
    function = {
        "name": f"{doing}_{thing}",
        "description": f"{doing.capitalize()} a {thing}. Use this when the user asks about a single {thing}.",
        "parameters": {"type": "object", "properties": properties, "required": [f"{thing}_id"]},
    }
    return {"type": "function", "function": function}


# --- tables ------------------------------------------------------------------------------------------------------------


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def table(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        f"{'':<34}{'server':<11}{'p50 ms':>9}{'p99 ms':>9}{'added ms':>10}{'CPU ms':>9}{'CPU / bare':>12}"
        f"{'added / ours':>14}{'per second':>12}"
    )
    for row in rows:
        if row.note:
            yield f"{row.case!s:<34}{row.server:<11}{row.note}"
            continue
        bare, ours = row.server != DIRECT, row.server in (BARE, LITELLM)
        yield (
            f"{row.case!s:<34}{row.server:<11}{row.p50_ms:>9.2f}{row.p99_ms:>9.2f}"
            f"{f'{row.added_ms:.2f}' if bare else '':>10}{row.cpu_ms:>9.3f}{f'{row.cpu_ratio:.2f}' if bare else '':>12}"
            f"{f'{row.added_ratio:.1f}' if ours else '':>14}{row.per_second:>12.0f}"
        )


def goals(rows: Sequence[Row]) -> Iterator[str]:
    """Yields a line for each goal: the goal, the measurement, and `met` or `MISSED`."""
    for row in rows:
        if row.note:
            continue
        if row.server == OURS and (most := GOAL_CPU_RATIOS.get(row.case.tools)) is not None:
            yield _goal(row, "CPU / bare proxy", row.cpu_ratio, row.cpu_ratio <= most, f"<= {most}")
        if row.server == OURS and row.case.tools == 300 and row.case.connections == 1:
            yield _goal(row, "added p50 ms", row.added_ms, row.added_ms <= GOAL_ADDED_MS, f"<= {GOAL_ADDED_MS:.0f}")
        if row.server == LITELLM:
            met = row.added_ratio >= GOAL_LITELLM
            yield _goal(row, "litellm added / ours", row.added_ratio, met, f">= {GOAL_LITELLM:.0f}")


def _goal(row: Row, what: str, value: float, met: bool, goal: str) -> str:
    return f"{row.case!s:<34}{what:<22}{value:>7.2f}  goal {goal:<7} {'met' if met else 'MISSED'}"


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns the goals that the rows miss."""
    return [line for line in goals(rows) if line.endswith("MISSED")]


def main(arguments: Sequence[str] = ()) -> list[Row]:
    rows = run(QUICK if "--quick" in arguments else FULL, with_litellm="--without-litellm" not in arguments)
    print(*table(rows), "", *goals(rows), sep="\n")
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
