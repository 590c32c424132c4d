"""Equal calls run once, and only equal ones share a result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.control.results.conftest import Clock
from toolcaddie import Runtime, tool
from toolcaddie.control.results.cache import OTHERS, Cache, CacheStatistics, ToolCacheStatistics, default_key
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, StorageError
from toolcaddie.core.events import CallFinished, RunEvent
from toolcaddie.core.run import RunContext
from toolcaddie.core.storage import CacheLevel
from toolcaddie.core.tool import Finish, Tool, ToolAnnotations, ToolCall, ToolResult, failed
from toolcaddie.ports import Invocation
from toolcaddie.storage.cache import MemoryCache, StoreCache
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

Make = Callable[..., Invocation]

CACHEABLE = Tool(name="find", cache_ttl=60.0)
BOOKS = {"books": ["Emma"]}


class Counting:
    """A tool that answers with how often it ran, or with what it was given."""

    def __init__(self, result: ToolResult | None = None) -> None:
        self.runs = 0
        self._result = result

    async def __call__(self, _: Invocation) -> ToolResult:
        self.runs += 1
        return self._result or ToolResult(content=f"run {self.runs}")


class Held:
    """A tool that answers when it is released; `begun` holds the calls under way."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[ToolResult]] = []

    async def __call__(self, _: Invocation) -> ToolResult:
        answer: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self.begun.append(answer)
        return await answer


async def settled() -> None:
    """Let every task that can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


def cache(*, clock: Callable[[], float] | None = None, **options: Any) -> Cache:
    return Cache(MemoryCache(clock=clock) if clock else MemoryCache(), **options)


# --- the source's own test -----------------------------------------------------------------------------------------------


@pytest.mark.proves("R003-22", "R003-21")
@pytest.mark.parametrize("declared", [True, False])
async def test_the_same_chat_twice_runs_the_tool_once(declared: bool) -> None:
    """R003: ttl 60000 ms; by the tool's own word, or because the agent caches all."""
    searched: list[str] = []

    @tool(read_only=True, open_world=False, **({"cache_ttl": 60} if declared else {}))
    def search_books(query: str = "") -> dict[str, Any]:
        """Search books."""
        searched.append(query)
        return BOOKS

    class Recorder:
        def __init__(self) -> None:
            self.results: list[ToolResult] = []

        async def emit(self, event: RunEvent) -> None:
            if isinstance(event, CallFinished):
                self.results.append(event.result)

    recorder = Recorder()
    provider = ScriptedProvider([call("search_books"), say("Emma")] * 2)
    kept = cache(everything=not declared, ttl=60)
    runtime = Runtime(provider=provider, sources=[search_books], middleware=[kept], sinks=[recorder])
    first, second = [await runtime.run("find books") for _ in range(2)]
    assert searched == [""]
    assert first.text == second.text == "Emma"
    assert [result.cached for result in recorder.results] == [False, True]
    assert recorder.results[0].content == recorder.results[1].content
    assert recorder.results[1].structured == BOOKS
    assert second.tool_calls == ("search_books",)
    assert second.state.calls == 1  # a hit counts as a call
    assert kept.statistics.tools["search_books"] == ToolCacheStatistics(hits=1, misses=1, stored=1)


@pytest.mark.proves("R003-21")
def test_the_default_key_is_name_colon_arguments_as_the_source_logs_it() -> None:
    assert default_key("search_books", {}) == "search_books:{}"
    assert default_key("a", {"y": {"b": 1, "a": 2}, "x": 3}) == 'a:{"x":3,"y":{"a":2,"b":1}}'


# --- what is equal -------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(max_size=2), JSON, max_size=3)


def shuffled(value: Any) -> Any:
    """The same value with the keys of every object in the other order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


def same(one: Any, other: Any) -> bool:
    """Equal as JSON is: true is not 1."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def invoked(arguments: Mapping[str, Any]) -> Invocation:
    context = RunContext(run_id="r", principal=Principal(), view=View(catalog=Catalog.of([CACHEABLE])), model="m")
    made = ToolCall(id="c", name="find")
    return Invocation(call=made, tool=CACHEABLE, arguments=dict(arguments), context=context, seconds=30)


@pytest.mark.proves("R003-24")
@given(ARGUMENTS, ARGUMENTS)
async def test_other_arguments_at_any_depth_never_share_and_the_order_of_keys_does_not_count(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    kept, find = cache(), Counting()
    await kept(invoked(one), find)
    await kept(invoked(shuffled(one)), find)
    assert find.runs == 1
    await kept(invoked(other), find)
    assert find.runs == (1 if same(one, other) else 2)


@pytest.mark.proves("R003-24")
async def test_nested_arguments_that_differ_never_share(invocation: Make) -> None:
    """The cache key of the reproduced system drops nested keys; ours must not."""
    kept, find = cache(), Counting()
    for filters in ({"year": 1}, {"year": 2}, {"author": {"name": "A"}}, {"author": {"name": "B"}}, {}):
        await kept(invocation(tool=CACHEABLE, arguments={"filters": filters}), find)
    assert find.runs == 5


@pytest.mark.proves("X-29")
@pytest.mark.parametrize(
    ("tool", "one", "other", "runs"),
    [
        (CACHEABLE, Principal(id="a"), Principal(id="b"), 1),
        (CACHEABLE, Principal(tenant="a"), Principal(tenant="b"), 2),
        (CACHEABLE, Principal(bot="a"), Principal(bot="b"), 1),
        (replace(CACHEABLE, scope="a"), Principal(bot="a"), Principal(bot="b"), 2),
        (replace(CACHEABLE, roles=("admin", "clerk")), Principal(role="admin"), Principal(role="clerk"), 2),
        (replace(CACHEABLE, roles=("admin",)), Principal(role="admin"), Principal(role="admin", id="b"), 1),
        (Tool(name="look", annotations=ToolAnnotations(read_only=True)), Principal(id="a"), Principal(id="b"), 2),
        (Tool(name="look", annotations=ToolAnnotations(read_only=True)), Principal(id="a"), Principal(id="a"), 1),
    ],
)
async def test_tenants_never_share_and_others_only_where_the_tool_is_the_same_for_all(
    tool: Tool, one: Principal, other: Principal, runs: int, invocation: Make
) -> None:
    kept, find = cache(everything=True), Counting()
    for who in (one, other):
        await kept(invocation(tool=tool, principal=who), find)
    assert find.runs == runs


@pytest.mark.proves("X-29")
async def test_what_the_application_injects_is_part_of_the_call_whatever_the_key(invocation: Make) -> None:
    for kept in (cache(), cache(key=lambda name, params: name)):
        find = Counting()
        for injected in ({"_chatId": 1}, {"_chatId": 2}, {"_chatId": 2}):
            await kept(invocation(tool=CACHEABLE, injected=injected), find)
        assert find.runs == 2


@pytest.mark.parametrize(
    "changed",
    [
        replace(CACHEABLE, description="Finds something else."),
        replace(CACHEABLE, input_schema={"type": "object", "properties": {"q": {"type": "string"}}}),
        replace(CACHEABLE, source="elsewhere"),
        replace(CACHEABLE, name="find_all"),
    ],
)
async def test_a_tool_whose_definition_changed_shares_nothing_with_the_one_before(
    changed: Tool, invocation: Make
) -> None:
    for kept in (cache(), cache(key=lambda name, params: "always the same")):
        find = Counting()
        for made in (CACHEABLE, changed, CACHEABLE):
            await kept(invocation(tool=made), find)
        assert find.runs == 2


async def test_a_key_of_the_operators_own_decides_which_arguments_count(invocation: Make) -> None:
    kept, find = cache(key=lambda name, params: f"{name}:{params['id']}"), Counting()
    for arguments in ({"id": 1, "page": 1}, {"id": 1, "page": 2}, {"id": 2, "page": 1}):
        await kept(invocation(tool=CACHEABLE, arguments=arguments), find)
    assert find.runs == 2


async def test_a_key_that_fails_lets_the_call_run_uncached(invocation: Make) -> None:
    kept, find = cache(key=lambda name, params: params["id"]), Counting()
    with capture_logs() as logs:
        for _ in range(2):
            assert not (await kept(invocation(tool=CACHEABLE), find)).cached
    assert find.runs == 2
    assert [entry["event"] for entry in logs] == ["cache_key_failed"] * 2


async def test_an_injected_object_without_a_json_form_makes_a_call_like_no_other(invocation: Make) -> None:
    kept, find = cache(), Counting()
    for _ in range(2):
        await kept(invocation(tool=CACHEABLE, injected={"_db": object()}), find)
    assert find.runs == 2


# --- what is kept --------------------------------------------------------------------------------------------------------


@pytest.mark.proves("X-29")
@pytest.mark.parametrize(
    ("annotations", "more", "by_default", "with_everything"),
    [
        (ToolAnnotations(), {}, False, False),
        (ToolAnnotations(read_only=True), {}, False, True),
        (ToolAnnotations(destructive=False), {}, False, False),
        (ToolAnnotations(read_only=False, destructive=False), {}, False, False),
        (ToolAnnotations(destructive=True), {}, False, False),
        (ToolAnnotations(read_only=True, open_world=True), {}, False, False),
        (ToolAnnotations(read_only=True), {"polling": True}, False, False),
        (ToolAnnotations(read_only=True), {"cache_ttl": 0.0}, False, False),
        (ToolAnnotations(read_only=True, open_world=True), {"cache_ttl": 9.0}, True, True),
        (ToolAnnotations(destructive=True), {"cache_ttl": 9.0}, True, True),
    ],
)
async def test_a_tool_is_cached_on_its_own_word_and_with_everything_where_it_is_harmless(
    annotations: ToolAnnotations, more: dict[str, Any], by_default: bool, with_everything: bool, invocation: Make
) -> None:
    made = Tool(name="it", annotations=annotations, **more)
    for everything, expected in ((False, by_default), (True, with_everything)):
        kept, it = cache(everything=everything), Counting()
        for _ in range(2):
            await kept(invocation(tool=made), it)
        assert it.runs == (1 if expected else 2)


@pytest.mark.parametrize(
    ("annotations", "kept_too"),
    [
        (ToolAnnotations(destructive=False), True),
        (ToolAnnotations(), False),
        (ToolAnnotations(read_only=False, destructive=False), False),
        (ToolAnnotations(destructive=False, open_world=True), False),
    ],
)
async def test_tools_that_do_not_say_whether_they_only_read_are_cached_where_that_is_asked_for(
    annotations: ToolAnnotations, kept_too: bool, invocation: Make
) -> None:
    kept, it = cache(everything=True, unmarked=True), Counting()
    for _ in range(2):
        await kept(invocation(tool=Tool(name="it", annotations=annotations)), it)
    assert it.runs == (1 if kept_too else 2)


@pytest.mark.parametrize("failing", [False, True], ids=["done", "failed"])
async def test_results_read_before_a_write_are_read_again_after_it(failing: bool, invocation: Make) -> None:
    read = Tool(name="read", annotations=ToolAnnotations(read_only=True), source="books")
    write = Tool(name="write", annotations=ToolAnnotations(read_only=False), source="books")
    elsewhere = Tool(name="look", annotations=ToolAnnotations(read_only=True), source="weather")
    kept, find, look = cache(everything=True), Counting(), Counting()
    change = Counting(failed("no") if failing else ToolResult(content="ok"))
    for _ in range(2):
        await kept(invocation(tool=read), find)
        await kept(invocation(tool=elsewhere), look)
    assert (find.runs, look.runs) == (1, 1)
    await kept(invocation(tool=write), change)
    await kept(invocation(tool=read), find)
    await kept(invocation(tool=elsewhere), look)
    assert (find.runs, look.runs) == (2, 1), "of its own source, and of no other"


async def test_a_write_ends_nothing_for_another_tenant_and_nothing_that_its_author_called_good(
    invocation: Make,
) -> None:
    read = Tool(name="read", annotations=ToolAnnotations(read_only=True))
    declared = Tool(name="rates", cache_ttl=60.0)
    write = Tool(name="write", annotations=ToolAnnotations(read_only=False))
    kept, find, rates = cache(everything=True), Counting(), Counting()
    for tenant in ("a", "b"):
        await kept(invocation(tool=read, principal=Principal(tenant=tenant)), find)
    await kept(invocation(tool=declared, principal=Principal(tenant="a")), rates)
    await kept(invocation(tool=write, principal=Principal(tenant="a")), Counting())
    await kept(invocation(tool=read, principal=Principal(tenant="b")), find)
    await kept(invocation(tool=declared, principal=Principal(tenant="a")), rates)
    assert (find.runs, rates.runs) == (2, 1)


async def test_a_write_is_never_answered_from_the_cache_between_others(invocation: Make) -> None:
    freeze = Tool(name="freeze", annotations=ToolAnnotations(destructive=False))
    unfreeze = Tool(name="unfreeze", annotations=ToolAnnotations(destructive=False))
    kept, froze, thawed = cache(everything=True, unmarked=True), Counting(), Counting()
    for one, runs in ((freeze, froze), (unfreeze, thawed), (freeze, froze)):
        await kept(invocation(tool=one), runs)
    assert (froze.runs, thawed.runs) == (2, 1)


@pytest.mark.proves("R003-23")
async def test_a_result_is_good_for_the_tools_own_time_else_for_the_general_one(invocation: Make, clock: Clock) -> None:
    kept, find, look = cache(everything=True, clock=clock), Counting(), Counting()
    other = Tool(name="look", annotations=ToolAnnotations(read_only=True))
    for seconds, runs in ((0, (1, 1)), (59, (1, 1)), (1, (2, 1)), (239, (3, 1)), (1, (3, 2))):
        clock.now += seconds
        await kept(invocation(tool=CACHEABLE), find)
        await kept(invocation(tool=other), look)
        assert (find.runs, look.runs) == runs


@pytest.mark.proves("R003-23")
@pytest.mark.parametrize(
    "result",
    [
        ToolResult(content="null"),
        ToolResult(content="false", structured=False),
        ToolResult(content=""),
        ToolResult(content="[]", structured=[]),
        ToolResult(content="x", structured={"big": 2**70, "deep": [{"a": None}]}),
    ],
)
async def test_nothing_is_a_result_like_any_other(result: ToolResult, invocation: Make) -> None:
    kept, find = cache(), Counting(result)
    for _ in range(2):
        found = await kept(invocation(tool=CACHEABLE), find)
    assert (found, find.runs) == (replace(result, cached=True), 1)


@pytest.mark.proves("R003-23")
@pytest.mark.parametrize(
    "result",
    [
        failed("no"),
        failed("slow", "timeout"),
        ToolResult(content="bye", effect=Finish(text="bye")),
        ToolResult(content="half a pair: \ud83d"),
        ToolResult(content="", structured=object()),
    ],
)
async def test_failures_effects_and_what_cannot_be_written_down_are_not_kept(
    result: ToolResult, invocation: Make
) -> None:
    kept, find = cache(), Counting(result)
    for _ in range(2):
        assert await kept(invocation(tool=CACHEABLE), find) is result
    assert (find.runs, kept.statistics.stored) == (2, 0)


async def test_what_a_caller_does_to_a_result_does_not_reach_the_next(invocation: Make) -> None:
    kept, find = cache(), Counting(ToolResult(content="", structured={"books": ["Emma"]}))
    for _ in range(3):
        found = await kept(invocation(tool=CACHEABLE), find)
        assert found.structured == BOOKS
        if found.cached:
            found.structured["books"].clear()


async def test_results_outlive_the_process_where_the_store_does(file_url: str, invocation: Make) -> None:
    for expected in (False, True):
        async with Database(file_url) as database:
            kept = Cache(StoreCache(database.store))
            assert (await kept(invocation(tool=CACHEABLE), Counting())).cached is expected


@pytest.mark.parametrize("value", [b"garbage", b'{"content": 3}'])
async def test_a_damaged_entry_is_a_miss_and_is_replaced(value: bytes, invocation: Make) -> None:
    class Damaged(MemoryCache):
        async def get(self, key: str) -> bytes | None:
            return value

    with capture_logs() as logs:
        assert (await Cache(Damaged())(invocation(tool=CACHEABLE), Counting())).content == "run 1"
    assert "cache_not_read" in [entry["event"] for entry in logs]


async def test_a_store_that_is_down_costs_the_cache_and_not_the_call(invocation: Make) -> None:
    class Down:
        level = CacheLevel()

        async def get(self, key: str) -> bytes | None:
            raise StorageError("down")

        async def put(self, key: str, value: bytes, *, ttl: float) -> bool:
            raise StorageError("down")

    with capture_logs() as logs:
        assert (await Cache(Down())(invocation(tool=CACHEABLE), Counting())).content == "run 1"
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == [
        "cache_not_read",
        "cache_not_written",
    ]


@pytest.mark.parametrize("ttl", [0, -1, float("nan")])
def test_a_ttl_that_is_not_above_zero_is_refused(ttl: float) -> None:
    with pytest.raises(ConfigError, match="ttl"):
        cache(ttl=ttl)


# --- at the same time ----------------------------------------------------------------------------------------------------


async def test_a_thousand_equal_calls_at_once_run_once(invocation: Make) -> None:
    kept, tool = cache(), Held()
    calls = [asyncio.ensure_future(kept(invocation(tool=CACHEABLE), tool)) for _ in range(1_000)]
    await settled()
    (running,) = tool.begun
    running.set_result(ToolResult(content="found"))
    results = await asyncio.gather(*calls)
    assert len(tool.begun) == 1
    assert {result.content for result in results} == {"found"}
    assert [result.cached for result in results].count(False) == 1
    assert kept.statistics.tools["find"] == ToolCacheStatistics(misses=1, joined=999, stored=1)


async def test_a_thousand_equal_calls_at_once_run_once_over_a_database_too(file_url: str, invocation: Make) -> None:
    async with Database(file_url) as database:
        kept, find = Cache(StoreCache(database.store)), Counting()
        results = await asyncio.gather(*(kept(invocation(tool=CACHEABLE), find) for _ in range(1_000)))
    assert (find.runs, {result.content for result in results}) == (1, {"run 1"})


async def test_those_who_waited_for_a_run_that_failed_get_its_failure_and_the_next_call_runs(invocation: Make) -> None:
    kept, tool = cache(), Held()
    calls = [asyncio.ensure_future(kept(invocation(tool=CACHEABLE), tool)) for _ in range(50)]
    await settled()
    tool.begun[0].set_result(failed("no answer"))
    assert {(result.content, result.error) for result in await asyncio.gather(*calls)} == {("no answer", "failed")}
    again = asyncio.ensure_future(kept(invocation(tool=CACHEABLE), tool))
    await settled()
    tool.begun[1].set_result(ToolResult(content="found"))
    assert (await again).content == "found"


async def test_an_error_of_a_run_is_raised_for_its_waiters_too(invocation: Make) -> None:
    kept, tool = cache(), Held()
    calls = [asyncio.ensure_future(kept(invocation(tool=CACHEABLE), tool)) for _ in range(3)]
    await settled()
    tool.begun[0].set_exception(OSError("broken"))
    assert [str(error) for error in await asyncio.gather(*calls, return_exceptions=True)] == ["broken"] * 3
    assert len(tool.begun) == 1


async def test_when_the_running_call_is_cancelled_one_of_the_waiters_runs(invocation: Make) -> None:
    kept, tool = cache(), Held()
    calls = [asyncio.ensure_future(kept(invocation(tool=CACHEABLE), tool)) for _ in range(5)]
    await settled()
    calls[0].cancel()
    await settled()
    assert tool.begun[0].cancelled()
    assert len(tool.begun) == 2
    tool.begun[1].set_result(ToolResult(content="found"))
    results = await asyncio.gather(*calls[1:])
    assert [result.cached for result in results] == [False, True, True, True]


async def test_a_waiter_that_is_cancelled_does_not_affect_the_others(invocation: Make) -> None:
    kept, tool = cache(), Held()
    calls = [asyncio.ensure_future(kept(invocation(tool=CACHEABLE), tool)) for _ in range(4)]
    await settled()
    calls[2].cancel()
    await settled()
    tool.begun[0].set_result(ToolResult(content="found"))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [getattr(result, "content", None) for result in results] == ["found", "found", None, "found"]
    assert len(tool.begun) == 1


async def test_calls_that_differ_do_not_wait_for_each_other(invocation: Make) -> None:
    kept, tool = cache(), Held()
    calls = [asyncio.ensure_future(kept(invocation(tool=CACHEABLE, arguments={"a": n}), tool)) for n in range(3)]
    await settled()
    assert len(tool.begun) == 3
    for answer in tool.begun:
        answer.set_result(ToolResult(content=""))
    await asyncio.gather(*calls)


def test_one_loop_after_another_shares_the_results() -> None:
    kept, find = cache(), Counting()
    for _ in range(3):
        assert asyncio.run(kept(invoked({}), find)).content == "run 1"


# --- what it says of itself ----------------------------------------------------------------------------------------------


async def test_the_statistics_count_in_all_and_by_tool(invocation: Make, clock: Clock) -> None:
    kept = Cache(MemoryCache(max_size=2, clock=clock))
    for name in ("a", "a", "b", "c", "a"):
        await kept(invocation(tool=Tool(name=name, cache_ttl=60)), Counting())
    clock.now += 60
    await kept(invocation(tool=Tool(name="a", cache_ttl=60)), Counting())
    found = kept.statistics
    assert (found.hits, found.misses, found.joined, found.stored) == (1, 5, 0, 5)
    assert found.tools["a"] == ToolCacheStatistics(hits=1, misses=3, stored=3)
    assert (found.level.entries, found.level.evicted, found.level.expired) == (2, 2, 1)
    assert cache().statistics == CacheStatistics()


async def test_tools_without_end_are_counted_together(invocation: Make) -> None:
    kept = cache()
    for number in range(1_005):
        await kept(invocation(tool=Tool(name=f"t{number}", cache_ttl=60)), Counting())
    found = kept.statistics
    assert (len(found.tools), found.tools[OTHERS].misses, found.misses) == (1_001, 5, 1_005)


async def test_a_tool_that_takes_the_context_of_the_run_tells_one_person_nothing_of_another() -> None:
    @tool(read_only=True, cache_ttl=60)
    def my_orders(context: RunContext) -> str:
        """The orders of whoever asks."""
        return f"orders of {context.principal.id}"

    runtime = Runtime(provider=ScriptedProvider([]), sources=[my_orders])
    answers = [await runtime.call("my_orders", {}, principal=Principal(id=who)) for who in ("ann", "bob", "ann")]
    assert [answer.content for answer in answers] == ["orders of ann", "orders of bob", "orders of ann"]
    assert [answer.cached for answer in answers] == [False, False, True]
