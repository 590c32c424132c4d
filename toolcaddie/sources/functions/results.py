"""Converts the return value of a function to the result that a model reads."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
from pydantic_core import PydanticSerializationError, to_jsonable_python

from toolcaddie.core.content import BLOCKS, Block, Text
from toolcaddie.core.tool import Finish, ToolResult, failed
from toolcaddie.util.replacing import replace

NO_OUTPUT = "Done. There is no output."
"""The text of a result whose function returned None."""


def to_result(value: Any, *, wrap: bool = False, ends_run: bool = False) -> ToolResult:
    """Returns text and blocks unchanged, and any other value as JSON text with the value beside it.

    In a list that holds a block, each other item becomes a block of text.

    `wrap`: the tool's output schema is an object around the value, so `structured` is `{"result": value}`. A value that cannot
    be written as JSON gives a failed result that names its type. `ends_run`: the tool may end the run with `Finish`.
    """
    if isinstance(value, Finish):
        if not ends_run:
            return failed("the tool returned a Finish, and only a tool marked @tool(ends_run=True) may end a run")
        value = ToolResult(content=value.text, effect=value)
    if isinstance(value, ToolResult):
        return _checked(value if ends_run else replace(value, effect=None), content=value.content)
    if isinstance(value, BLOCKS):
        return ToolResult(content=(value,))
    if isinstance(value, list | tuple) and any(isinstance(item, BLOCKS) for item in value):
        return ToolResult(content=tuple(map(_block, value)))
    if value is None and not wrap:
        return ToolResult(content=NO_OUTPUT)
    if isinstance(value, bytes | bytearray | memoryview):
        return _text_of(bytes(value))
    if isinstance(value, Iterator | AsyncIterator):
        return failed(f"the tool returned a {type(value).__name__}, which can be read only once; it must return a list")
    try:
        plain = to_jsonable_python(value)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        return failed(f"the tool returned a {type(value).__name__} that cannot be written as JSON: {error}")
    structured = {"result": plain} if wrap else None if isinstance(plain, str) else plain
    if isinstance(plain, str):
        return ToolResult(content=plain, structured=structured)
    try:
        return ToolResult(content=msgspec.json.encode(plain).decode(), structured=structured)
    except UnicodeEncodeError:  # a string has half of a surrogate pair, which `json` writes as an escape
        return ToolResult(content=json.dumps(plain))


def _block(value: Any) -> Block:
    return value if isinstance(value, BLOCKS) else Text(text=to_result(value).text)


def _checked(result: ToolResult, *, content: Any) -> ToolResult:
    """Returns a `ToolResult` that a function made, in a form that can be sent: with JSON values only. A wrong one becomes a
    failed result."""
    if not isinstance(content, str | tuple):
        return failed(
            f"the tool returned a ToolResult whose content is a {type(content).__name__}; it must be text or blocks"
        )
    if result.structured is None:
        return result
    try:
        return replace(result, structured=to_jsonable_python(result.structured))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        return failed(f"the tool's structured result cannot be written as JSON: {error}")


def _text_of(value: bytes) -> ToolResult:
    """Returns bytes as text. Invalid UTF-8 is replaced, and a note says so."""
    try:
        return ToolResult(content=value.decode())
    except UnicodeDecodeError as error:
        text = value.decode(errors="replace")
        note = f"[{len(value)} bytes that are not valid UTF-8 from byte {error.start} on; the bad ones were replaced]"
        return ToolResult(content=f"{text}\n{note}")
