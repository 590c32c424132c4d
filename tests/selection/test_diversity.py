"""Tools for all that a request names, and few of those that are the same tool twice."""

from __future__ import annotations

import numpy as np
import pytest

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import QueryWords
from toolcaddie.core.tool import Tool
from toolcaddie.selection.diversity import KEPT, REORDERED, TWINS, spread, worth_of
from toolcaddie.selection.index.postings import postings_of

WEATHER = (
    "today",
    "tomorrow",
    "hourly",
    "coast",
    "marine",
    "ski",
    "pollen",
    "storm",
    "uv",
    "rain",
    "wind",
    "snow",
    "city",
)


def order(tools: list[Tool], text: str, scores: list[float] | None = None) -> list[str]:
    """The names in the order they are served; they score as they stand, one hardly less than the other, unless said."""
    postings = postings_of(Catalog.of(tools))
    asked = postings.query_terms(QueryWords(messages=((text, 1.0),)))
    falling = np.array(scores or np.linspace(0.9, 0.8, len(tools)), dtype=np.float32)
    found = spread(falling, postings.terms_of(range(len(tools))), asked.ids, worth_of(asked, postings.scope(None)))
    assert sorted(found.tolist()) == list(range(len(tools)))
    return [tools[place].name for place in found.tolist()]


def weather(count: int) -> list[Tool]:
    """Tools that serve the same wish and say so in different words."""
    return [
        Tool(name=f"weather_{word}", description=" ".join(f"{word}{letter}" for letter in "abcdefgh"))
        for word in WEATHER[:count]
    ]


def test_a_request_for_two_things_has_tools_for_both_among_the_first() -> None:
    tools = [*weather(13), Tool(name="convert_currency", description="Convert an amount from EUR to USD.")]
    scores = [*np.linspace(0.9, 0.85, 13).tolist(), 0.5]
    served = order(tools, "weather in Paris and convert 100 EUR to USD", scores)
    assert served[:KEPT] == [tool.name for tool in tools[:KEPT]]
    assert "convert_currency" in served[:REORDERED]


def test_words_that_only_hidden_tools_have_do_not_change_the_order() -> None:
    tools = [*weather(13), Tool(name="convert_currency", description="Convert an amount from EUR to USD.")]
    secret = Tool(name="secret", description="zebra quokka flamingo ocelot wombat lemur tapir okapi")
    scores = np.array([*np.linspace(0.9, 0.85, 13), 0.5], dtype=np.float32)
    postings = postings_of(Catalog.of([*tools, secret]))
    mask = np.arange(len(tools) + 1) < len(tools)
    text = "weather in Paris and convert zebra quokka flamingo ocelot wombat lemur tapir okapi"
    asked = postings.query_terms(QueryWords(messages=((text, 1.0),)), mask)
    found = spread(scores, postings.terms_of(range(len(tools))), asked.ids, worth_of(asked, postings.scope(mask)))
    assert [tools[place].name for place in found.tolist()] == order(tools, text, scores.tolist())


def test_a_request_for_one_thing_is_served_as_ranked() -> None:
    tools = [*weather(13), Tool(name="convert_currency", description="Convert an amount from EUR to USD.")]
    assert order(tools, "weather in Paris") == [tool.name for tool in tools]


def test_a_tool_that_hardly_fits_is_not_raised_for_a_word_it_happens_to_have() -> None:
    tools = [*weather(13), Tool(name="convert_currency", description="Convert an amount from EUR to USD.")]
    scores = [*np.linspace(0.9, 0.85, 13).tolist(), 0.1]
    assert order(tools, "weather in Paris, convert", scores) == [tool.name for tool in tools]


def test_one_server_mounted_many_times_leaves_room_for_the_others() -> None:
    same = "Send a message to a channel of the team, with text, attachments, mentions and a time to deliver it."
    twins = [Tool(name=f"send_message_{number}", description=same) for number in range(12)]
    tools = [*twins, *weather(6)]
    served = order(tools, "send a message", [*np.linspace(0.9, 0.8, 12).tolist(), *np.linspace(0.5, 0.4, 6).tolist()])
    first = served[:REORDERED]
    assert sum(name.startswith("send_message") for name in first) == REORDERED - 6 >= TWINS
    assert served[:TWINS] == [tool.name for tool in twins[:TWINS]]
    assert {tool.name for tool in weather(6)} <= set(first)


def test_twins_stay_where_nothing_else_fits() -> None:
    same = "Send a message to a channel of the team, with text, attachments, mentions and a time to deliver it."
    tools = [Tool(name=f"send_message_{number}", description=same) for number in range(12)]
    assert order([*tools, *weather(3)], "send", [*np.linspace(0.9, 0.8, 12).tolist(), 0.05, 0.04, 0.03]) == [
        tool.name for tool in [*tools, *weather(3)]
    ]


def test_a_twin_that_the_request_tells_apart_is_none() -> None:
    same = "Send a message to a channel of the team, with text, attachments, mentions and a time to deliver it."
    tools = [
        Tool(name=f"send_{place}", description=same) for place in ("north", "south", "east", "west", "middle", "top")
    ]
    served = order([*tools, *weather(6)], "send to north south east west middle top")
    assert served[:6] == [tool.name for tool in tools]


@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_any_number_of_tools_keeps_every_one(count: int) -> None:
    order([Tool(name=f"tool_{number}", description="") for number in range(count)], "nothing of it")
