"""Generated catalogs and conversations hold what the module says of them."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

from toolcaddie.core.schema import check_schema
from toolcaddie.evaluation.simulation.scripts import (
    TUNING_SEED,
    Need,
    example_arguments,
    generated_catalog,
    generated_scripts,
)

CATALOG = generated_catalog(500, TUNING_SEED)
TURNS = [turn for script in generated_scripts(CATALOG, 60, TUNING_SEED) for turn in script.turns]


def test_the_schemas_of_generated_tools_are_objects_with_their_required_parameters() -> None:
    for tool in CATALOG:
        schema = tool.input_schema
        check_schema(schema, what=tool.name)
        assert schema["type"] == "object"
        assert set(schema["required"]) <= set(schema["properties"])
        assert schema["additionalProperties"] is False


def test_people_read_words_and_never_a_placeholder_or_an_underscore() -> None:
    texts = [tool.description for tool in CATALOG]
    texts += [text for category in CATALOG.categories for text in (category.description, *category.keywords)]
    texts += [turn.text.partition("\n\n")[0] for turn in TURNS] + [turn.answer for turn in TURNS]
    for text in texts:
        assert text.strip()
        assert not re.search(r"\{\w*\}|[a-z]_[a-z]", text), text


def test_annotations_say_which_tools_read_and_which_delete() -> None:
    by_action = {tool.name.partition("_")[0]: tool.annotations for tool in CATALOG}
    assert by_action["list"].read_only
    assert by_action["list"].idempotent
    assert not by_action["list"].destructive
    assert by_action["delete"].destructive
    assert not by_action["delete"].read_only


def test_requests_are_asked_in_many_ways_and_follow_ups_are_short() -> None:
    requests = [turn.text for turn in TURNS if turn.needs]
    for words in ("Please ", "Could you ", "from last week", "for the new office", "that we spoke about", "number "):
        assert any(words in text for text in requests), words
    assert all(text[0].isupper() or not text[0].isalpha() for text in requests)
    pasted = [text for text in requests if "\n\n" in text]
    assert 0.03 < len(pasted) / len(requests) < 0.2
    assert all('"id"' in text or '"name"' in text for text in pasted)


def kept_words(need: Need) -> str:
    """The words of a tool's name that a request uses: both, one, or none."""
    verb, _, noun = need.guess.partition(" ")
    kept = need.words.startswith(f"{verb} the "), need.words.endswith(f" the {noun}")
    return ("none", "one", "both")[sum(kept)]


def test_half_of_the_requests_keep_a_tools_words_and_a_fifth_keep_none() -> None:
    needs = [need for turn in TURNS for need in turn.needs]
    shares = {kind: count / len(needs) for kind, count in Counter(map(kept_words, needs)).items()}
    assert 0.42 < shares["both"] < 0.58
    assert 0.22 < shares["one"] < 0.38
    assert 0.12 < shares["none"] < 0.28


def test_example_values_stay_within_their_limits() -> None:
    schema = {
        "type": "object",
        "properties": {
            "share": {"type": "number", "minimum": 5},
            "count": {"type": "integer", "minimum": 20_000, "maximum": 30_000},
            "sure": {"type": "boolean"},
            "day": {"type": "string", "format": "date"},
            "seldom": {"type": "string"},
        },
        "required": ["share", "count", "sure", "day"],
    }
    values = [example_arguments(schema, Random(seed)) for seed in range(200)]
    assert all(5 <= each["share"] <= 105 and each["share"] == round(each["share"], 2) for each in values)
    assert {each["count"] for each in values} == {20_000}, "a minimum above four digits leaves one value"
    assert {each["sure"] for each in values} == {True, False}
    assert all(re.fullmatch(r"2026-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])", each["day"]) for each in values)
    assert 0.2 < sum("seldom" in each for each in values) / len(values) < 0.4
