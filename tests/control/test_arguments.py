"""Arguments of a call: decoded, checked, and refused with a text from which a model can mend them."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from toolcaddie.control.arguments import Arguments, arguments_of
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.tool import Tool, ToolCall, ToolResult
from toolcaddie.guards.aside import aside

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"days": {"type": "integer"}}, "additionalProperties": False}


async def read(text: str, schema: Any = None, bounds: Bounds | None = None) -> Arguments | ToolResult:
    tool = Tool(name="freeze", input_schema=SCHEMA if schema is None else schema)
    return await arguments_of(ToolCall(id="c1", name="freeze", arguments=text), tool, bounds=bounds or Bounds())


async def refusal(text: str, schema: Any = None, bounds: Bounds | None = None) -> str:
    result = await read(text, schema, bounds)
    assert isinstance(result, ToolResult)
    assert result.error == "invalid_arguments"
    return result.text


@pytest.mark.parametrize("text", ["", "  \n", "{}", "null", " null "])
async def test_no_arguments_in_any_spelling_are_an_empty_object(text: str) -> None:
    assert await read(text) == Arguments(values={})


@pytest.mark.parametrize(("text", "kind"), [("[1]", "list"), ('"x"', "str"), ("3", "int"), ("false", "bool")])
async def test_arguments_that_are_no_object_are_refused_with_their_type(text: str, kind: str) -> None:
    assert f"they must be a JSON object, not {kind}." in await refusal(text)


async def test_arguments_that_are_no_json_are_refused_with_the_schema_they_must_fit() -> None:
    text = await refusal("{days")
    assert "The arguments of freeze are wrong: they are not JSON (" in text
    assert text.endswith("They must fit this schema: " + json.dumps(SCHEMA, separators=(",", ":"), sort_keys=True))


async def test_a_long_schema_is_cut_after_6000_characters() -> None:
    def schema(size: int) -> dict[str, Any]:
        return {"description": "x" * size, "type": "object"}

    around = len(json.dumps(schema(0), separators=(",", ":")))
    whole = (await refusal("[]", schema(6_000 - around))).partition("this schema: ")[2]
    assert len(whole) == 6_000
    cut = (await refusal("[]", schema(6_001 - around))).partition("this schema: ")[2]
    assert cut.endswith(" ... (cut)")
    assert len(cut) == 6_000 + len(" ... (cut)")


async def test_arguments_of_the_longest_size_are_read_and_longer_ones_name_the_limit() -> None:
    text = '{"days":3}'
    assert await read(text, bounds=Bounds(arguments=len(text))) == Arguments(values={"days": 3})
    assert "bounds.arguments" in await refusal(text, bounds=Bounds(arguments=len(text) - 1))


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {"_other": {}}}])
async def test_names_that_the_schema_does_not_declare_are_dropped(schema: Any) -> None:
    result = await read('{"days":3,"_chatId":"forged","_x":1}', schema)
    assert result == Arguments(values={"days": 3}, dropped=("_chatId", "_x"))


async def test_the_log_shows_ten_dropped_names_of_64_characters_and_counts_all() -> None:
    names = [f"_{number:02}" + "n" * 100 for number in range(12)]
    with capture_logs() as lines:
        await read(json.dumps(dict.fromkeys(names, 1)))
    (line,) = [line for line in lines if line["event"] == "arguments_dropped"]
    assert (line["tool"], line["count"]) == ("freeze", 12)
    assert line["names"] == [name[:64] for name in names[:10]]


@pytest.mark.parametrize(("size", "beside"), [(1, False), (1_000_000, True)])
async def test_only_long_arguments_are_checked_beside_the_event_loop(size: int, beside: bool) -> None:
    release = threading.Event()
    blocking = asyncio.create_task(aside(release.wait))
    await asyncio.sleep(0)
    items = {"type": "array", "items": {"type": "integer"}}
    text = json.dumps({"days": [1] * size})
    check = asyncio.create_task(
        read(text, {"type": "object", "properties": {"days": items}}, Bounds(arguments=10_000_000))
    )
    try:
        done, _ = await asyncio.wait({check}, timeout=0.3)
        assert bool(done) is not beside
    finally:
        release.set()
    assert isinstance(await check, Arguments)
    await blocking
