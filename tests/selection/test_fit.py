"""The probability that nothing fits: which requests get one, and what selection makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import Message
from toolcaddie.core.presets import LEXICAL, PRESETS, SIGNALS, SelectionSettings
from toolcaddie.core.selection import Budget, Selection, SelectionQuery
from toolcaddie.core.tool import Tool
from toolcaddie.learning.experience import Experience
from toolcaddie.picker import Picker
from toolcaddie.selection.rankers import embedding, static
from toolcaddie.selection.search import Ranked
from toolcaddie.selection.selector import Selector
from toolcaddie.selection.word_table import word_table

THINGS = {
    "membership": "the contract of a member of the gym",
    "invoice": "a bill that a member has to pay",
    "class": "a course that takes place every week",
    "room": "a studio that can be booked for an hour",
    "trainer": "an employee who teaches courses",
}
VERBS = {
    "create": "Creates",
    "list": "Lists all entries of",
    "cancel": "Cancels or deletes",
    "change": "Changes the properties of",
    "export": "Writes a spreadsheet with the data of",
    "find": "Searches by name for",
}
GYM = Catalog.of(
    [
        Tool(name=f"{verb}_{thing}", description=f"{does} {said}, and returns the number and the date of the entry.")
        for verb, does in VERBS.items()
        for thing, said in THINGS.items()
    ]
)
SERVED = "cancel the membership of John"
UNSERVED = "who won the superbowl against the patriots in overtime"


def _query(*texts: str) -> SelectionQuery:
    roles = ("user", "assistant")
    return SelectionQuery(messages=[Message(role=roles[n % 2], content=text) for n, text in enumerate(texts)])


def _selection(*texts: str, catalog: Catalog = GYM, max_tools: int = 5, **settings: object) -> Selection:
    selector = Selector(SelectionSettings(**settings))
    return selector.select(View(catalog=catalog), _query(*texts), Budget(max_tools=max_tools))


def _doubt(*texts: str, catalog: Catalog = GYM, **settings: object) -> float:
    doubt = _selection(*texts, catalog=catalog, **settings).doubt
    assert doubt is not None
    return doubt


@pytest.mark.parametrize("signals", ["lexical", "plain"])
def test_a_request_for_something_else_is_doubted_more_than_one_for_a_tool(signals):
    rankers = SIGNALS[signals]
    assert 0 <= _doubt(SERVED, rankers=rankers) < 0.3 < _doubt(UNSERVED, rankers=rankers) <= 1


def test_a_request_that_is_doubted_enough_gets_no_tools_and_says_so():
    doubt = _doubt(UNSERVED)
    bold = _selection(UNSERVED, sure_nothing_fits=doubt - 0.01, on_no_match="none")
    assert bold.no_match
    assert not bold.tools
    assert not _selection(SERVED, sure_nothing_fits=doubt - 0.01).no_match


def test_at_one_no_doubt_is_enough():
    barely = "list the superbowl patriots overtime quarterbacks touchdowns"
    assert not _selection(barely, sure_nothing_fits=1).no_match
    assert _selection(barely, sure_nothing_fits=0).no_match


def test_a_keyword_ends_all_doubt():
    catalog = Catalog.of(
        [*GYM.tools, Tool(name="odd_one", description="An odd tool", category="sport")],
        [Category(name="sport", keywords=("superbowl",))],
    )
    selection = _selection(UNSERVED, catalog=catalog, sure_nothing_fits=0.01)
    assert selection.doubt == 0
    assert not selection.no_match


def test_the_least_score_of_the_settings_replaces_the_doubt():
    assert not _selection(SERVED, nothing_fits=0.0, sure_nothing_fits=0.0).no_match
    assert _selection(SERVED, nothing_fits=0.99).no_match


def test_a_request_in_another_language_is_not_judged():
    for text in (
        "quién ganó el partido de fútbol de ayer por la noche",
        "谁赢了昨天的比赛",
        "wer hat gestern das Spiel gewonnen",
    ):
        selection = _selection(text, sure_nothing_fits=0.0)
        assert selection.doubt is None


def test_with_an_embedder_and_the_table_beside_it_a_request_is_judged_too():
    table = word_table()  # an embedder like any other
    rankers = static.with_embedder(table, embedding.factory(table))
    selector = Selector(SelectionSettings(rankers=SIGNALS["embedding"], sure_nothing_fits=1), rankers)
    doubts = [
        selector.select(View(catalog=GYM), _query(text), Budget(max_tools=5)).doubt for text in (SERVED, UNSERVED)
    ]
    assert None not in doubts
    assert doubts[0] < doubts[1]


def test_rankers_for_which_no_model_was_made_judge_nothing():
    assert _selection(UNSERVED, rankers=("categories", "bm25")).doubt is None
    for name in ("keyword", "budget"):
        selector = Selector(PRESETS[name].selection)
        assert selector.select(View(catalog=GYM), _query(UNSERVED), Budget(max_tools=5)).doubt is None


def test_a_catalog_that_is_sent_whole_is_not_judged():
    assert _selection(UNSERVED, max_tools=100).doubt is None


def test_a_short_answer_in_a_conversation_is_doubted_less_than_alone():
    talk = ("cancel the membership of John", "From which date?")
    assert _doubt(*talk, "from next Monday on please") < _doubt("from next Monday on please")


def test_hidden_tools_do_not_change_the_doubt():
    secret = [
        Tool(name=f"secret_{n}", description="Tells who won the superbowl against the patriots") for n in range(3)
    ]
    both = Catalog.of([*GYM.tools, *secret])
    visible = View(catalog=both, mask=np.arange(len(both)) < len(GYM))
    selector = Selector(SelectionSettings(sure_nothing_fits=1))
    seen = selector.select(visible, _query(UNSERVED), Budget(max_tools=5))
    alone = selector.select(View(catalog=GYM), _query(UNSERVED), Budget(max_tools=5))
    assert seen.doubt == pytest.approx(alone.doubt, abs=1e-3)


def test_a_hidden_tool_at_the_beginning_does_not_cover_the_words_that_no_visible_tool_has():
    secret = Tool(name="superbowl_winners", description="Tells who won the superbowl against the patriots in overtime")
    both = Catalog.of([secret, *GYM.tools])
    visible = View(catalog=both, mask=np.arange(len(both)) > 0)
    request = _query("who won superbowl")
    selector = Selector(SelectionSettings(rankers=LEXICAL))
    assert selector.ranked(visible, request, 5).tools == ()
    seen, alone = (selector.ranked(view, request, 5).doubt for view in (visible, View(catalog=GYM)))
    assert seen is not None
    assert seen == pytest.approx(alone)


def test_a_caller_who_sees_no_tool_is_not_judged():
    nothing = View(catalog=GYM, mask=np.zeros(len(GYM), dtype=np.bool_))
    assert Selector().select(nothing, _query(UNSERVED), Budget(max_tools=5)).doubt is None


def test_a_request_like_one_after_which_a_tool_was_called_is_not_judged():
    picker = Picker.of(GYM.tools, experience=Experience())
    assert picker.pick(UNSERVED, max_tools=5).selection.doubt is not None
    picker.learn(UNSERVED, called=["find_room"])
    assert picker.pick(UNSERVED, max_tools=5).selection.doubt is None


def test_a_search_tells_its_doubt_but_still_shows_the_nearest_tools():
    ranked: Ranked = Selector(SelectionSettings(sure_nothing_fits=0.0)).ranked(View(catalog=GYM), _query(SERVED), 3)
    assert len(ranked.tools) == 3
    assert ranked.doubt is not None


def test_a_setting_that_is_no_probability_is_an_error():
    with pytest.raises(ConfigError, match="sure_nothing_fits is"):
        Selector(SelectionSettings(sure_nothing_fits=1.5))
