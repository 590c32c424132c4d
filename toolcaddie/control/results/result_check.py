"""Middleware that checks a tool's result against its output schema and limits, because a model believes every result."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from toolcaddie.control.results.held import HELD_BYTES
from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.content import media_of
from toolcaddie.core.schema import argument_errors, takes_long
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.guards.aside import aside
from toolcaddie.ports import CallNext, Invocation
from toolcaddie.util.log import Logger

log = Logger(__name__)


class ResultCheck:
    """Turns a successful result that is wrong into a failed result that names the problem.

    A result may have at most `max_bytes`, counting text in UTF-8 and media in base64: the model could not read the end of a
    longer one. If the tool has an output schema, `structured` must fit it; without `structured`, the text must be JSON that
    fits it. If the tool has none, any text passes that can be written as UTF-8, also the empty text.

    Runs inside `Truncate`, which may cut JSON anywhere, and inside `Retry`.
    """

    def __init__(self, bounds: Bounds = DEFAULT, *, max_bytes: int = HELD_BYTES) -> None:
        self._bounds = bounds
        self._max_bytes = max_bytes

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult:
        result = await call_next(invocation)
        if result.is_error:
            return result
        tool, content = invocation.tool, result.content
        size = len(result.text) if isinstance(content, str | tuple) else 0
        # `structured` may be of any size, and measuring it takes as long as checking it.
        heavy = tool.output_schema is not None and (
            result.structured is not None or takes_long(tool.output_schema, size)
        )
        check = partial(_problems, result, tool, self._bounds, self._max_bytes)
        problems = await aside(check) if heavy else check()
        if not problems:
            return result
        log.warning("result_refused", tool=invocation.tool.name, run_id=invocation.context.run_id, wrong=problems)
        return failed(
            f"{invocation.tool.name} answered, but not what it promises, so the answer is left out: {'; '.join(problems)}"
            f"{_aftermath(invocation.tool)}"
        )


def _problems(result: ToolResult, tool: Tool, bounds: Bounds, max_bytes: int) -> list[str]:
    """Returns a sentence for each problem."""
    content: Any = result.content  # a source may put anything here, whatever the type says
    if not isinstance(content, str | tuple):
        return [f"its content is a {type(content).__name__}, not text"]
    if isinstance(content, tuple) and len(content) > bounds.parts:
        return [f"it has {len(content):,} blocks, and results have at most {bounds.parts:,}"]
    try:
        encoded = result.text.encode()
    except UnicodeEncodeError as error:
        return [f"its text is not valid Unicode at character {error.start}"]
    size = len(encoded) + sum(len(block.data) for block in media_of(content))
    if size > max_bytes:
        return [f"it has {size:,} bytes, and results have at most {max_bytes:,}"]
    if tool.output_schema is None:
        return []
    value = result.structured
    if value is None:
        try:
            value = msgspec.json.decode(encoded)
        except (msgspec.DecodeError, RecursionError) as error:
            return [f"its output schema asks for JSON, and its text is not JSON ({error})"]
    # `argument_errors` names the whole value "arguments".
    return [
        f"result: {line.removeprefix('arguments: ')}" if line.startswith("arguments: ") else line
        for line in argument_errors(tool.output_schema, value, bounds=bounds)
    ]


def _aftermath(tool: Tool) -> str:
    return "" if tool.annotations.read_only else ". It did run, so check what it did before you call it again"
