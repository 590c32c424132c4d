"""Generated calls of a document with many features: another validator finds each request valid and reads each value from it."""

from __future__ import annotations

import copy

import pytest

from tests.sources.openapi.judge import everything, verdict_on

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
async def test_another_validator_finds_each_generated_request_valid_and_reads_each_value(version: str) -> None:
    verdict = await verdict_on(everything(version), 240)
    assert verdict.faults == []
    assert (verdict.left_out.total(), verdict.undecided) == (0, 0)
    assert (verdict.calls, verdict.valid) == (240, 240)
    assert verdict.called == verdict.operations == 12


@pytest.mark.parametrize("place", ["path", "query", "body"])
async def test_the_validator_objects_to_a_value_that_does_not_fit_its_document(place: str) -> None:
    document, other = everything("3.1.0"), everything("3.1.0")
    document["paths"] = other["paths"] = {"/same/{value}": document["paths"]["/same/{value}"]}
    other = copy.deepcopy(other)
    if place == "body":
        other["components"]["schemas"]["Node"]["required"].append("missing")
    else:
        parameters = other["paths"]["/same/{value}"]["post"]["parameters"]
        next(each for each in parameters if each["in"] == place)["schema"] = {"type": "string", "enum": ["never drawn"]}
    verdict = await verdict_on(document, 5, judged=other)
    assert (verdict.calls, verdict.valid, len(verdict.faults)) == (5, 0, 5)
