"""The layers together, in the order their docstrings ask for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial

import pytest

from toolcaddie.control.results.cache import Cache
from toolcaddie.control.results.held import HeldResults
from toolcaddie.control.results.result_check import ResultCheck
from toolcaddie.control.results.retry import Retry
from toolcaddie.control.results.timeout import Timeout
from toolcaddie.control.results.truncate import Truncate
from toolcaddie.core.control import Principal
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult
from toolcaddie.ports import CallNext, Invocation
from toolcaddie.storage.cache import MemoryCache

pytestmark = pytest.mark.anyio

TOOL = Tool(
    name="find",
    cache_ttl=60,
    annotations=ToolAnnotations(read_only=True),
    output_schema={"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]},
)
ROWS = {"rows": list(range(2_000))}


class Moody:
    """Hangs at first, answers nonsense then, and is fine in the end."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, _: Invocation) -> ToolResult:
        self.calls += 1
        if self.calls == 1:
            await asyncio.Event().wait()
        return ToolResult(content=json.dumps(ROWS if self.calls > 2 else {"row": 1}))


@pytest.fixture
def held() -> HeldResults:
    return HeldResults(MemoryCache())


@pytest.fixture
def call(held: HeldResults) -> CallNext:
    """From the outermost to the innermost, around one tool."""
    layers = [
        Truncate(1_000, held=held),
        Cache(MemoryCache()),
        Retry(sleep=lambda _: asyncio.sleep(0)),
        ResultCheck(),
        Timeout(most=0.01),
    ]
    stack: CallNext = Moody()
    for layer in reversed(layers):
        stack = partial(layer, call_next=stack)
    return stack


async def test_each_try_has_its_own_time_and_a_broken_promise_is_tried_again(
    call: CallNext, invocation: Callable[..., Invocation]
) -> None:
    result = await call(invocation(tool=TOOL))
    assert (result.is_error, result.cached) == (False, False)
    assert result.content.startswith('{"rows": [0, 1, 2')


async def test_a_cached_result_is_whole_and_is_cut_for_each_caller_with_a_handle_of_their_own(
    call: CallNext, held: HeldResults, invocation: Callable[..., Invocation]
) -> None:
    ada, eve = Principal(id="ada"), Principal(id="eve")
    first, second = [await call(invocation(tool=TOOL, principal=who)) for who in (ada, eve)]
    assert (first.cached, second.cached) == (False, True)
    handles = [result.content.rpartition("handle '")[2].partition("'")[0] for result in (first, second)]
    assert handles[0] != handles[1]
    assert not (await held.page(handles[1], 0, 10, eve)).is_error
    assert (await held.page(handles[0], 0, 10, eve)).is_error
