"""Calling a function with what a model wrote, and what the model reads of the outcome."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import datetime
import enum
import functools
import logging
import subprocess
import sys
import threading
import uuid
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Annotated, Any

import pytest
import structlog
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import TzInfo
from structlog.testing import capture_logs

from toolcaddie.core.errors import RunTakenError
from toolcaddie.core.fencing import set_fence
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Finish, ToolResult, failed
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.sources.functions.threads import MAX_ABANDONED


def positive(value: int) -> int:
    if value < 0:
        raise ValueError("must not be negative")
    return value


pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[ToolResult]]


class Plan(enum.Enum):
    BASIC = "basic"
    GOLD = "gold"


class Address(BaseModel):
    street: str
    since: datetime.date


@dataclasses.dataclass
class Period:
    days: int
    plan: Plan = Plan.BASIC


async def test_sync_and_async_functions_answer_alike(call: Call) -> None:
    def plain(a: int, b: int = 2) -> int:
        return a + b

    async def waiting(a: int, b: int = 2) -> int:
        await asyncio.sleep(0)
        return a + b

    for function in (plain, waiting):
        result = await call(function, {"a": 1})
        assert (result.success, result.content, result.structured) == (True, "3", 3)


async def test_a_function_whose_own_run_was_taken_over_has_been_called_and_one_behind_a_closed_fence_has_not(
    call: Call,
) -> None:
    def refuse() -> None:
        raise RunTakenError("another process goes on with it")

    called = list[str]()

    def begins_a_run() -> None:
        called.append("it")
        refuse()

    assert (await call(begins_a_run)).error == "failed"
    set_fence(refuse)
    assert (await call(begins_a_run)).error == "not_run"
    assert called == ["it"]


async def test_arguments_arrive_as_the_python_types_that_were_asked_for(call: Call) -> None:
    async def show(
        plan: Plan,
        at: Address,
        period: Period,
        id: uuid.UUID,  # noqa: A002
        when: datetime.datetime,
        price: Decimal,
        tags: set[str],
        pair: tuple[int, str],
        raw: bytes,
        ratio: float,
        start: Annotated[str, Field(alias="from")],
    ) -> str:
        return repr((plan, at, period, id, when, price, tags, pair, raw, ratio, start))

    result = await call(
        show,
        {
            "plan": "gold",
            "at": {"street": "High", "since": "2026-01-31"},
            "period": {"days": 3, "plan": "gold"},
            "id": "12345678-1234-5678-1234-567812345678",
            "when": "2026-01-31T10:00:00+00:00",
            "price": "1.50",
            "tags": ["a"],
            "pair": [1, "x"],
            "raw": "abc",
            "ratio": 2,
            "from": "here",
        },
    )
    assert result.content == repr(
        (
            Plan.GOLD,
            Address(street="High", since=datetime.date(2026, 1, 31)),
            Period(3, Plan.GOLD),
            uuid.UUID("12345678-1234-5678-1234-567812345678"),
            datetime.datetime(2026, 1, 31, 10, tzinfo=TzInfo(0)),
            Decimal("1.50"),
            {"a"},
            (1, "x"),
            b"abc",
            2.0,
            "here",
        )
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"days": "5"}, "days: Input should be a valid integer"),
        ({"days": True}, "days: Input should be a valid integer"),
        ({"days": 5.5}, "days: Input should be a valid integer"),
        ({}, "freeze: days: this argument is required"),
        ({"days": 5, "zzz": 1}, "zzz: Extra inputs are not permitted"),
        ({"days": 5, "_hidden": 1}, "_hidden: Extra inputs are not permitted"),
        ({"days": 5, "at": {"street": "x", "since": "soon"}}, "at.since: Input should be a valid date"),
        ({"days": 5, "loud": 1}, "loud: Input should be a valid boolean"),
        ({"days": -1}, "days: Value error, must not be negative"),
    ],
)
async def test_nothing_runs_with_wrong_arguments_and_the_field_is_named(
    call: Call, arguments: dict[str, Any], words: str
) -> None:
    ran = []

    async def freeze(
        days: Annotated[int, AfterValidator(positive)], at: Address | None = None, loud: bool = False
    ) -> None:
        ran.append(days)

    result = await call(freeze, arguments)
    assert (result.is_error, result.error) == (True, "invalid_arguments")
    assert words in result.content
    assert ran == []


async def test_a_complaint_never_repeats_megabytes(call: Call) -> None:
    async def show(numbers: list[int]) -> None: ...

    result = await call(show, {"numbers": ["x" * 1_000_000] * 5})
    assert len(result.content) < 500
    assert "and 2 more" in result.content


async def test_a_whole_float_is_an_integer_as_in_json_schema(call: Call) -> None:
    async def show(days: int, rows: list[int]) -> str:
        return repr((days, rows))

    assert (await call(show, {"days": 5.0, "rows": [1.0, 2]})).content == "(5, [1, 2])"


async def test_what_the_model_leaves_out_is_pythons_own_default(call: Call) -> None:
    missing = object()

    async def update(
        name: Any = missing,
        row: int = Field(7, ge=1),
        items: list[int] = Field(default_factory=list),  # noqa: B008
    ) -> str:
        return f"{name is missing} {row} {items}"

    assert (await call(update)).content == "True 7 []"


async def test_positional_only_and_keyword_only_parameters_are_filled(call: Call) -> None:
    async def mixed(a: int, b: int = 2, /, c: int = 3, *, d: int) -> str:
        return f"{a} {b} {c} {d}"

    assert (await call(mixed, {"a": 1, "c": 5, "d": 4})).content == "1 2 5 4"


@pytest.mark.proves("R002-10", "R002-11")
async def test_injected_values_reach_the_function_and_win_over_the_models(call: Call) -> None:
    async def save(fact: str, _chatId: str, _botId: str = "none", **more: Any) -> dict[str, Any]:
        return {"fact": fact, "chat": _chatId, "bot": _botId, "more": more}

    result = await call(save, {"fact": "f", "_chatId": "forged"}, _chatId="c1", _botId="b1", _tenant="t1")
    assert result.structured == {"fact": "f", "chat": "c1", "bot": "b1", "more": {"_tenant": "t1"}}

    async def plain(fact: str) -> str:
        return fact

    assert (await call(plain, {"fact": "model's"}, fact="ours", _chatId="c1")).content == "ours"


async def test_a_value_the_application_forgot_to_inject_is_named(call: Call) -> None:
    async def save(fact: str, _chatId: str) -> None: ...

    result = await call(save, {"fact": "f"})
    assert result.error == "failed"
    assert result.content == "save: the application has to inject _chatId and did not"


@pytest.mark.proves("R002-4")
async def test_a_tool_is_a_definition_and_a_function_of_arguments_and_a_logger(call: Call) -> None:
    def note(text: str, logger) -> str:  # type: ignore[no-untyped-def]
        logger.info("noted", text=text)
        return "ok"

    with capture_logs() as logs:
        assert (await call(note, {"text": "hello"})).content == "ok"
    assert logs == [{"event": "noted", "text": "hello", "tool": "note", "run_id": "r1", "log_level": "info"}]


async def test_loggers_and_the_context_are_handed_in_by_annotation(call: Call) -> None:
    async def who(std: logging.Logger, bound: structlog.stdlib.BoundLogger, run: RunContext | None = None) -> str:
        bound.debug("x")
        return f"{std.name} {run.run_id if run else None}"

    assert (await call(who)).content == "toolcaddie.tools.who r1"


@pytest.mark.proves("R002-3")
async def test_a_result_has_success_and_content(call: Call) -> None:
    good = await call(lambda_named("good", lambda: "fine"))
    assert (good.success, good.content) == (True, "fine")

    def bad() -> None:
        raise LookupError("no such member")

    result = await call(bad)
    assert (result.success, result.content) == (False, "LookupError: no such member")


def lambda_named(name: str, function: Callable[[], Any]) -> Any:
    return tool(function, name=name)


@pytest.mark.parametrize(
    ("value", "content", "structured"),
    [
        ("text", "text", None),
        ("", "", None),
        (None, "Done. There is no output.", None),
        (True, "true", True),
        (1.5, "1.5", 1.5),
        (10**30, str(10**30), 10**30),
        ([1, {"a": None}], '[1,{"a":null}]', [1, {"a": None}]),
        ({"x": {1}}, '{"x":[1]}', {"x": [1]}),
        (Plan.GOLD, "gold", None),
        (Period(3), '{"days":3,"plan":"basic"}', {"days": 3, "plan": "basic"}),
        (
            [Address(street="High", since=datetime.date(2026, 1, 31))],
            '[{"street":"High","since":"2026-01-31"}]',
            [{"street": "High", "since": "2026-01-31"}],
        ),
        (datetime.date(2026, 1, 31), "2026-01-31", None),
        (b"bytes \xc3\xa9", "bytes é", None),
        ({"a": "\ud83d"}, '{"a": "\\ud83d"}', None),
    ],
)
async def test_what_a_function_returns_is_text_and_where_it_can_be_structured(
    call: Call, value: Any, content: str, structured: Any
) -> None:
    result = await call(lambda_named("give", lambda: value))
    assert (result.is_error, result.content, result.structured) == (False, content, structured)


async def test_bytes_that_are_no_text_are_shown_with_a_note(call: Call) -> None:
    result = await call(lambda_named("read", lambda: b"ab\xff\xfecd"))
    assert result.content.startswith("ab\ufffd\ufffdcd\n[6 bytes that are not valid UTF-8 from byte 2 on")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ((number for number in [1]), "returned a generator, which can be read only once; it must return a list"),
        (map(str, [1]), "returned a map"),
        (object(), "returned a object that cannot be written as JSON: Unable to serialize unknown type"),
        ({"a": threading.Lock()}, "returned a dict that cannot be written as JSON"),
        (ToolResult(content=5), "content is a int; it must be text"),  # type: ignore[arg-type]
        (ToolResult(content="", structured=object()), "structured result cannot be written as JSON"),
    ],
)
async def test_values_that_cannot_be_shown_are_failed_results(call: Call, value: Any, words: str) -> None:
    result = await call(lambda_named("give", lambda: value))
    assert (result.is_error, result.error) == (True, "failed")
    assert words in result.content


async def test_a_list_that_holds_itself_is_a_failed_result(call: Call) -> None:
    loop: list[Any] = []
    loop.append(loop)
    result = await call(lambda_named("give", lambda: loop))
    assert "cannot be written as JSON: Circular reference" in result.content


async def test_a_tool_result_goes_through_without_its_effect(call: Call) -> None:
    given = ToolResult(content="x", structured={"day": datetime.date(2026, 1, 31)}, effect=Finish(text="the end"))
    result = await call(lambda_named("give", lambda: given))
    assert result == ToolResult(content="x", structured={"day": "2026-01-31"})
    assert await call(lambda_named("refuse", lambda: failed("no", "denied"))) == failed("no", "denied")


async def test_a_promised_object_wraps_what_is_none(call: Call) -> None:
    @tool(output_schema=True)
    def names() -> list[str]:
        return ["a"]

    @tool(output_schema=True)
    def maybe() -> str | None:
        return None

    assert (await call(names)).structured == {"result": ["a"]}
    result = await call(maybe)
    assert (result.content, result.structured) == ("null", {"result": None})


async def test_a_tool_that_raises_is_logged_with_its_traceback_and_answers_in_words(call: Call) -> None:
    def broken(name: str) -> None:
        raise KeyError(name)

    with capture_logs() as logs:
        result = await call(broken, {"name": "john"})
    assert (result.error, result.content) == ("failed", "KeyError: 'john'")
    (entry,) = logs
    assert entry["event"] == "tool_raised"
    assert entry["tool"] == "broken"
    assert entry["exception"].startswith("Traceback (most recent call last)")
    assert "raise KeyError(name)" in entry["exception"]
    assert "test_calls.py" in entry["place"]


async def test_odd_exceptions_are_results_too(call: Call) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def exits() -> None:
        sys.exit(3)

    def stops() -> None:
        raise StopIteration

    async def stops_waiting() -> None:
        raise StopAsyncIteration

    def mute() -> None:
        raise Mute

    def long() -> None:
        raise ValueError("x" * 1_000_000)

    async def given_up() -> None:
        raise asyncio.CancelledError

    assert (await call(exits)).content == "exits tried to end the process with exit code 3"
    assert "StopIteration" in (await call(stops)).content
    assert "StopAsyncIteration" in (await call(stops_waiting)).content
    assert (await call(mute)).content == "Mute: (its message cannot be shown)"
    assert len((await call(long)).content) < 3_000
    assert "was cancelled from inside" in (await call(given_up)).content


async def test_interrupts_and_cancellation_pass(call: Call) -> None:
    class Stop(BaseException):
        pass

    def interrupted() -> None:
        raise Stop

    with pytest.raises(Stop):
        await call(interrupted)

    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(call(wait))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_loop_is_free_while_a_sync_function_runs(call: Call) -> None:
    """The function waits for something that only the loop can do."""
    free = threading.Event()

    def wait() -> bool:
        return free.wait(10)

    asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(free.set))
    assert (await call(wait)).structured is True


async def test_sync_functions_see_the_callers_context_variables(call: Call) -> None:
    who = contextvars.ContextVar("who", default="nobody")
    who.set("ada")

    def look() -> str:
        return who.get()

    assert (await call(look)).content == "ada"


async def test_a_sync_function_may_hand_back_a_coroutine(call: Call) -> None:
    async def inner(a: int) -> int:
        return a + 1

    @functools.wraps(inner)
    def wrapper(a: int) -> Any:
        return inner(a)

    assert (await call(wrapper, {"a": 1})).content == "2"
    assert (await call(functools.partial(inner, a=4))).content == "5"


async def test_methods_share_the_state_of_their_object(call: Call) -> None:
    class Counter:
        count = 0

        def up(self, by: int = 1) -> int:
            self.count += by
            return self.count

    counter = Counter()
    await call(counter.up, {"by": 2})
    assert (await call(counter.up)).content == "3"


async def test_hanging_calls_of_one_tool_stop_neither_others_nor_the_loop(call_context: Any) -> None:
    release = threading.Event()

    def hang() -> None:
        release.wait()

    def quick() -> str:
        return "here"

    source = FunctionSource("s", [hang, quick])
    hanging, fast = source.tools()
    context = call_context(source)
    tasks = [asyncio.ensure_future(source.call_tool(hanging, {}, context)) for _ in range(MAX_ABANDONED)]
    await asyncio.sleep(0)  # each has started its thread and waits
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (await source.call_tool(fast, {}, context)).content == "here"
    refused = await source.call_tool(hanging, {}, context)
    assert refused.content == "hang is not started: 32 earlier calls of it timed out and are still running"
    release.set()
    while (await source.call_tool(hanging, {}, context)).is_error:  # noqa: ASYNC110 - they come back one by one
        await asyncio.sleep(0)


async def test_calls_after_each_other_share_a_thread_and_calls_at_once_do_not(call: Call) -> None:
    both = threading.Barrier(2)

    def meet() -> int:
        both.wait(10)
        return threading.get_ident()

    one, other = await asyncio.gather(call(meet), call(meet))
    assert one.structured != other.structured
    idents = {(await call(lambda_named("who", lambda: threading.get_ident()))).structured for _ in range(20)}
    assert len(idents) < 10  # threads of tests before this one may still come in


async def test_a_forked_process_starts_threads_of_its_own() -> None:
    code = """
import asyncio, os
from toolcaddie.sources.functions.threads import Threads

threads = Threads()
assert asyncio.run(threads.run(os.getpid)) == os.getpid()
child = os.fork()
if not child:
    os._exit(0 if asyncio.run(asyncio.wait_for(threads.run(os.getpid), 20)) == os.getpid() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


async def test_a_hanging_function_does_not_keep_the_process_from_ending() -> None:
    code = """
import asyncio, threading
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.core.run import Principal, RunContext

def hang() -> None:
    started.set()
    threading.Event().wait()

async def main():
    source = FunctionSource("s", [hang])
    view = View(catalog=Catalog.of(source.tools()))
    context = RunContext(run_id="r", principal=Principal(), view=view, model="m")
    task = asyncio.ensure_future(source.call_tool(source.tools()[0], {}, context))
    while not started.is_set():
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    print("left")

started = threading.Event()
asyncio.run(main())
"""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")
