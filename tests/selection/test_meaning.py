"""Ranking by meaning: the table of words that comes with every install, and vectors of an embedder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import Message
from toolcaddie.core.presets import LEXICAL, SelectionSettings
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.core.tool import Tool
from toolcaddie.ports import Ranking
from toolcaddie.selection.rankers import embedding
from toolcaddie.selection.selector import Selector
from toolcaddie.selection.word_table import word_table

TOOLS = (
    Tool(name="change_theme", description="Switch the look of the app between light and dark."),
    Tool(name="get_weather", description="Weather forecast for a place."),
    Tool(name="book_flight", description="Book an airline ticket."),
    Tool(name="send_invoice", description="Send a bill to a customer."),
    Tool(name="find_doctor", description="Find a physician nearby."),
    Tool(name="play_music", description="Play a song or an album."),
)


def _view(*tools: Tool) -> View:
    return View(catalog=Catalog.of(tools or TOOLS))


def _asked(text: str) -> SelectionQuery:
    return SelectionQuery(messages=(Message(role="user", content=text),))


def _best(text: str, selector: Selector | None = None) -> str | None:
    found = (selector or Selector()).ranked(_view(), _asked(text), 1).tools
    return found[0].tool.name if found else None


@pytest.mark.proves("R000-46")
@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("will it rain tomorrow", "get_weather"),
        ("I must travel by plane to Boston", "book_flight"),
        ("charge the client", "send_invoice"),
        ("I need medical help for my leg", "find_doctor"),
        ("put on some jazz", "play_music"),
    ],
)
def test_a_request_that_shares_no_word_finds_its_tool(text: str, tool: str) -> None:
    assert _best(text) == tool
    assert _best(text, Selector(SelectionSettings(rankers=LEXICAL))) != tool, "words alone do not find it"


def test_the_reason_says_so() -> None:
    (found,) = Selector().ranked(_view(), _asked("will it rain tomorrow"), 1).tools
    assert any(reason.startswith("near in meaning: 0.") for reason in found.reasons)


_NOUNS = """anchor basket candle drawer engine feather garden hammer island jacket kettle ladder mirror needle orange pencil
quarry rabbit saddle temple uncle valley window yacht zebra barrel cotton donkey"""


def test_the_table_weighs_half_in_a_message_of_twice_fourteen_content_words() -> None:
    nouns = _NOUNS.split()

    def weight(count: int) -> float:
        return Selector().signals(_view(), _asked(" ".join(nouns[:count]))).own_weights["static"]

    assert weight(14) == pytest.approx(weight(7), rel=1e-6)
    assert weight(28) == pytest.approx(weight(14) / 2, rel=1e-6)


@pytest.mark.parametrize("text", ["yes, do it", "zzqx", "", "   ", "!!!", "0x3f zq", "你好吗", "\ud800"])
def test_what_says_nothing_is_near_to_nothing(text: str) -> None:
    selector = Selector(SelectionSettings(rankers=("static",)))
    assert selector.ranked(_view(), _asked(text), 5).tools == ()


def test_a_text_in_a_language_without_a_table_is_left_to_the_words() -> None:
    selector = Selector(SelectionSettings(rankers=("static",)))
    assert selector.ranked(_view(), _asked("ертең қалада ауа райы қандай болады"), 5).tools == ()


def test_a_hidden_tool_changes_nothing_that_is_said_of_others() -> None:
    hidden = [Tool(name=f"rain_{i}", description="rain tomorrow") for i in range(30)]
    masked = View(catalog=Catalog.of([*TOOLS, *hidden]), mask=np.array([True] * 6 + [False] * 30))
    for text in ("will it rain tomorrow", "rain", "book a doctor"):
        one, other = (Selector().ranked(view, _asked(text), 50) for view in (_view(), masked))
        assert [(hit.tool.name, hit.score, hit.reasons) for hit in one.tools] == [
            (hit.tool.name, hit.score, hit.reasons) for hit in other.tools
        ]


def test_a_tool_more_or_less_gives_what_a_catalog_made_anew_gives() -> None:
    selector = Selector()
    before = Catalog.of(TOOLS)
    selector.ranked(View(catalog=before), _asked("rain"), 3)
    after = before.with_tools([Tool(name="umbrella_shop", description="Buy an umbrella.")], removed=["play_music"])
    followed = selector.ranked(View(catalog=after), _asked("rain tomorrow"), 9)
    anew = Selector().ranked(View(catalog=Catalog.of(after.tools)), _asked("rain tomorrow"), 9)
    assert [(hit.tool.name, hit.score) for hit in followed.tools] == [(hit.tool.name, hit.score) for hit in anew.tools]


def test_vectors_have_length_one_and_do_not_depend_on_their_neighbours() -> None:
    texts = ["freeze a membership", "weather", "freeze a membership", "zzqx"]
    vectors = word_table().embed(texts)
    assert vectors.shape == (4, 256)
    assert np.allclose(np.linalg.norm(vectors[:3], axis=1), 1, atol=1e-5)
    assert (vectors[0] == vectors[2]).all()
    assert (word_table().embed([texts[1]])[0] == vectors[1]).all()


@pytest.mark.proves("A-4")
def test_an_embedder_of_ones_own_takes_part() -> None:
    class Letters:
        """Near is what begins alike."""

        name = "letters"
        dimensions = 26
        languages = None

        def embed(self, texts):
            rows = np.zeros((len(texts), 26), dtype=np.float32)
            for row, text in zip(rows, texts, strict=True):
                row[(ord(text.strip().lower()[:1] or "a") - 97) % 26] = 1.0
            return rows

    selector = Selector(SelectionSettings(rankers=("embedding",)), {"embedding": embedding.factory(Letters())})
    found = selector.ranked(_view(), _asked("parrots"), 5).tools
    assert [hit.tool.name for hit in found] == ["play_music"]


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 half of it", b"no table at all"])
def test_a_damaged_table_is_named(content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "words.npz"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setattr("toolcaddie.selection.word_table._FILE", file)
    word_table.cache_clear()
    try:
        with pytest.raises(ConfigError, match=r"words\.npz cannot be read .* install toolcaddie again"):
            _best("will it rain tomorrow")
    finally:
        word_table.cache_clear()


def test_a_ranker_by_words_brings_its_tool_in_against_weak_meaning() -> None:
    class Sure:
        """Knows one tool and says so."""

        name = "sure"

        def rank(self, words, visible):
            scores = np.array([float(tool.name == "send_invoice") for tool in TOOLS], dtype=np.float32)
            return Ranking(scores=scores, explain=lambda positions: [("sure of it",)] * len(positions))

    selector = Selector(
        SelectionSettings(rankers=(*LEXICAL, "static", "sure")), {"sure": lambda catalog, previous=None: Sure()}
    )
    found = selector.ranked(_view(), _asked("he is 12 kilos now"), 5).tools
    assert "send_invoice" in [hit.tool.name for hit in found]


def test_the_name_of_a_catalog_file_is_no_word_of_its_tools() -> None:
    tools = [Tool(name=tool.name, description=tool.description, source="vet.jsonl") for tool in TOOLS]
    selector = Selector(SelectionSettings(rankers=LEXICAL))
    assert selector.ranked(_view(*tools), _asked("the vet sneezes"), 5).tools == ()
