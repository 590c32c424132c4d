"""Checks of a middleware, which wraps the calls of tools: calls and results pass through it unchanged.

Part of the contract suite `MIDDLEWARE` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

import asyncio

from toolcaddie.core.tool import ToolCall, ToolResult, failed
from toolcaddie.ports import Invocation, Middleware
from toolcaddie.testing.contract import Checks, ContractError, expect, expect_equal
from toolcaddie.testing.part_contracts.subject import ECHO, Subject, context

CHECKS: Checks[Subject[Middleware]] = Checks()


def _invocation(text: str = "hello") -> Invocation:
    call = ToolCall(id="call_1", name="echo", arguments=f'{{"text": "{text}"}}')
    return Invocation(call=call, tool=ECHO, arguments={"text": text}, context=context(), seconds=5.0)


@CHECKS.add()
async def a_result_passes_through(subject: Subject[Middleware]) -> None:
    async def answer(invocation: Invocation) -> ToolResult:
        return ToolResult(content=f"echo: {invocation.arguments['text']}")

    result = await subject.make()(_invocation(), answer)
    expect(isinstance(result, ToolResult), f"it returned a {type(result).__name__}, not a ToolResult")
    expect_equal((result.text, result.error), ("echo: hello", None), "the result of the call")


@CHECKS.add()
async def the_call_reaches_the_tool_with_its_own_arguments(subject: Subject[Middleware]) -> None:
    seen: list[Invocation] = []

    async def answer(invocation: Invocation) -> ToolResult:
        seen.append(invocation)
        return ToolResult(content="done")

    await subject.make()(_invocation("mine"), answer)
    expect(len(seen) >= 1, "the call never reached the tool")
    expect_equal((seen[0].tool.name, seen[0].arguments), ("echo", {"text": "mine"}), "what reached the tool")


@CHECKS.add()
async def an_error_stays_an_error(subject: Subject[Middleware]) -> None:
    async def answer(_: Invocation) -> ToolResult:
        return failed("the disk is full", "failed")

    result = await subject.make()(_invocation(), answer)
    expect(bool(result.error), "it returned a result without an error, although the tool failed")


@CHECKS.add()
async def a_cancelled_call_is_cancelled(subject: Subject[Middleware]) -> None:
    begun = asyncio.Event()

    async def answer(_: Invocation) -> ToolResult:
        begun.set()
        await asyncio.Event().wait()
        return ToolResult(content="too late")

    task = asyncio.ensure_future(subject.make()(_invocation(), answer))
    await asyncio.wait_for(begun.wait(), 5)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=5)
    if not done or not task.cancelled():
        raise ContractError("it caught the cancellation of its caller and did not raise it again")


@CHECKS.add()
async def calls_side_by_side_keep_their_own_results(subject: Subject[Middleware]) -> None:
    middleware = subject.make()

    async def answer(invocation: Invocation) -> ToolResult:
        await asyncio.sleep(0)
        return ToolResult(content=str(invocation.arguments["text"]))

    results = await asyncio.gather(*(middleware(_invocation(text), answer) for text in "abcdef"))
    expect_equal([result.text for result in results], list("abcdef"), "the results of six calls at once")
