"""A result that breaks its tool's promise is a failure that names the field."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from toolcaddie import Runtime, tool
from toolcaddie.control.results.result_check import ResultCheck
from toolcaddie.control.results.retry import Retry
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult, failed
from toolcaddie.guards.aside import aside
from toolcaddie.ports import Invocation
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

Make = Callable[..., Invocation]

SCHEMA = {
    "type": "object",
    "properties": {
        "members": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}}
    },
    "required": ["members"],
}


async def checked(make: Make, result: ToolResult, *, schema: Any = None, read_only: bool = True) -> ToolResult:
    async def answer(_: Invocation) -> ToolResult:
        return result

    made = Tool(name="find", output_schema=schema, annotations=ToolAnnotations(read_only=read_only))
    return await ResultCheck()(make(tool=made), answer)


@pytest.mark.proves("R003-7")
async def test_a_tool_that_breaks_its_promise_fails_and_the_model_reads_where() -> None:
    answers = iter([{"count": "many"}, {"count": 2}])

    @tool(read_only=True, output_schema={"type": "object", "properties": {"count": {"type": "integer"}}})
    def count() -> dict[str, Any]:
        """Count."""
        return next(answers)

    provider = ScriptedProvider([call("count"), call("count"), say("done")])
    await Runtime(provider=provider, sources=[count], middleware=[ResultCheck()]).run("how many?")
    first, second = (message.content for message in provider.requests[-1].messages if message.role == "tool")
    assert 'count: "many" is not of type "integer"' in first
    assert second == '{"count":2}'


async def test_a_broken_promise_is_retried_like_a_failure_if_that_is_safe(invocation: Make) -> None:
    answers = iter([ToolResult(content="{}"), ToolResult(content='{"members":[]}')])

    async def find(_: Invocation) -> ToolResult:
        return next(answers)

    async def check(invocation: Invocation) -> ToolResult:
        return await ResultCheck()(invocation, find)

    made = Tool(name="find", output_schema=SCHEMA, annotations=ToolAnnotations(read_only=True))
    result = await Retry(sleep=lambda _: asyncio.sleep(0))(invocation(tool=made), check)
    assert result.content == '{"members":[]}'


@pytest.mark.parametrize(
    ("result", "wrong"),
    [
        (ToolResult(content="", structured={"members": [{"id": "x"}]}), 'members.0.id: "x" is not of type "integer"'),
        (ToolResult(content='{"members":3}'), "members: "),
        (ToolResult(content="{}"), 'result: "members" is a required property'),
        (ToolResult(content="[]"), "result: "),
        (ToolResult(content="Everything is fine."), "its output schema asks for JSON, and its text is not JSON"),
        (ToolResult(content="[" * 100_000), "its output schema asks for JSON, and its text is not JSON"),
        (ToolResult(content="", structured={"members": object()}), "not JSON"),
    ],
)
async def test_what_does_not_fit_is_named(result: ToolResult, wrong: str, invocation: Make) -> None:
    found = await checked(invocation, result, schema=SCHEMA)
    assert (found.is_error, found.error, found.structured) == (True, "failed", None)
    assert found.content.startswith("find answered, but not what it promises")
    assert wrong in found.content


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(content='{"members":[{"id":1}]}'),
        ToolResult(content="one member", structured={"members": [{"id": 1}]}),
        failed("no such member"),
    ],
)
async def test_what_fits_and_what_failed_anyway_is_the_same_object(result: ToolResult, invocation: Make) -> None:
    assert await checked(invocation, result, schema=SCHEMA) is result


@pytest.mark.parametrize("content", ["", "anything", "null"])
async def test_without_a_schema_any_text_will_do(content: str, invocation: Make) -> None:
    result = ToolResult(content=content)
    assert await checked(invocation, result) is result


async def test_what_is_no_text_at_all_is_refused(invocation: Make) -> None:
    nothing: Any = None
    assert "its content is a NoneType, not text" in (await checked(invocation, ToolResult(content=nothing))).content
    assert "not valid Unicode at character 2" in (await checked(invocation, ToolResult(content="ab\ud800"))).content


async def test_the_model_reads_that_the_tool_may_have_changed_something(invocation: Make) -> None:
    result = ToolResult(content="{}")
    assert "It did run" not in (await checked(invocation, result, schema=SCHEMA)).content
    assert "It did run" in (await checked(invocation, result, schema=SCHEMA, read_only=False)).content


async def test_the_failure_ends_with_advice_only_for_a_tool_that_may_have_changed_something(invocation: Make) -> None:
    reading, writing = [
        (await checked(invocation, ToolResult(content="{}"), schema=SCHEMA, read_only=read_only)).text
        for read_only in (True, False)
    ]
    assert writing == f"{reading}. It did run, so check what it did before you call it again"
    assert reading.startswith("find answered, but not what it promises, so the answer is left out: ")
    assert "members" in reading


LONG = '{"members":[' + ",".join('{"id":1}' for _ in range(200_000)) + "]}"


@pytest.mark.parametrize(
    ("result", "schema", "beside"),
    [
        pytest.param(ToolResult(content='{"members":[]}'), SCHEMA, False, id="a short text"),
        pytest.param(ToolResult(content=LONG), SCHEMA, True, id="a long text"),
        pytest.param(ToolResult(content="", structured={"members": []}), SCHEMA, True, id="a structured value"),
        pytest.param(ToolResult(content=LONG), None, False, id="a long text without a schema"),
        pytest.param(ToolResult(content="", structured={"members": []}), None, False, id="a value without a schema"),
    ],
)
async def test_only_a_check_that_may_take_long_is_made_beside_the_event_loop(
    invocation: Make, result: ToolResult, schema: Any, beside: bool
) -> None:
    release = threading.Event()
    blocking = asyncio.create_task(aside(release.wait))
    await asyncio.sleep(0)
    check = asyncio.create_task(checked(invocation, result, schema=schema))
    try:
        done, _ = await asyncio.wait({check}, timeout=0.3)
        assert bool(done) is not beside
    finally:
        release.set()
    assert (await check) is result
    await blocking
