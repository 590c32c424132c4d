"""Generated calls of a document with many features: each request is valid by the document and carries the values of the call."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.sources.openapi.bed import drawn, serving
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.sources.openapi import OpenApi, OpenApiSource

pytestmark = pytest.mark.anyio

FEATURES = Path(__file__).parent / "features.yaml"
CALLS = 200
CONTEXT = RunContext(run_id="r1", view=View(catalog=Catalog.of(())), model="m", principal=Principal())


def leaves(value: Any) -> Iterator[str]:
    """Yields the single values inside a value, as JSON."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from leaves(each)
    else:
        yield json.dumps(value)


async def test_each_generated_request_is_valid_and_carries_the_values_of_its_call() -> None:
    chance = random.Random(11)
    faults: list[str] = []
    async with serving(yaml.safe_load(FEATURES.read_text())) as bed:
        source = OpenApiSource(OpenApi(name="features", document=str(FEATURES), servers=(bed.url,)))
        await source.open()
        tools = source.tools()
        assert len(tools) == sum(len(item.keys() - {"parameters"}) for item in bed.document["paths"].values())
        for number in range(CALLS):
            tool = tools[number % len(tools)]
            arguments = drawn(tool.input_schema, tool.input_schema, chance)
            assert Draft202012Validator(tool.input_schema).is_valid(arguments), (tool.name, arguments)
            result = await source.call_tool(tool, arguments, CONTEXT)
            if result.is_error:
                faults.append(f"{tool.name}: {arguments}: {result.text}")
            elif Counter(leaves(bed.arrived[-1][1])) != Counter(leaves(arguments)):
                faults.append(f"{tool.name}: sent {arguments}, arrived {bed.arrived[-1]}")
        await source.close()
    assert not faults, "\n".join(faults[:20])


@pytest.mark.parametrize(("name", "text"), [("spaced", "a b"), ("piped", "a|b")], ids=["space", "pipe"])
async def test_a_value_that_contains_the_separator_of_its_style_is_refused_and_not_sent(name: str, text: str) -> None:
    document = yaml.safe_load(FEATURES.read_text())
    async with serving(document) as bed:
        source = OpenApiSource(OpenApi(name="features", document=str(FEATURES), servers=(bed.url,)))
        await source.open()
        tool = next(tool for tool in source.tools() if name in tool.input_schema["properties"])
        result = await source.call_tool(tool, {"overridden": 1, name: [text]}, CONTEXT)
        await source.close()
    assert result.error == "invalid_arguments"
    assert "separates its values" in result.text
    assert bed.arrived == []
