"""A person is told if the parameters of `run` are not those of the schema."""

from __future__ import annotations

import pytest

from tests.tools.authored.service import a_tool
from toolcaddie.tools.authored.checks import findings_of


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        ("x", "run takes x; the schema has text."),
        ("text, more", "run takes text, more; the schema has text."),
        ("text, *, more", "run takes text, more; the schema has text."),
        ("", "run takes nothing by name; the schema has text."),
        ("text, /", "run takes nothing by name; the schema has text."),
    ],
)
def test_other_parameters_than_those_of_the_schema_are_a_finding(signature: str, text: str) -> None:
    found = findings_of(a_tool(source=f"def run({signature}):\n    return 1\n"))
    assert [each.text for each in found if each.text.startswith("run takes")] == [text]


@pytest.mark.parametrize("signature", ["text", "text=''", "text, more=1", "**rest", "text, *more, **rest"])
def test_parameters_that_take_the_schema_are_no_finding(signature: str) -> None:
    found = findings_of(a_tool(source=f"async def run({signature}):\n    return 1\n"))
    assert not [each.text for each in found if each.text.startswith("run takes")]
