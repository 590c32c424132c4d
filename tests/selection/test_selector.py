"""The selector from outside: what a request gets, in which order, and why."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import Message
from toolcaddie.core.presets import LEXICAL, SelectionSettings, preset
from toolcaddie.core.selection import Budget, SelectionQuery
from toolcaddie.core.tool import Tool, ToolCall
from toolcaddie.ports import Ranking
from toolcaddie.selection.selector import DROPPED_LISTED, Selector
from toolcaddie.util.replacing import replace

VERBS = ("freeze", "list", "export", "archive", "rename")


def _flat_view(size=60):
    """Tools without categories, as a gateway's client sends them."""
    tools = [Tool(name=f"{VERBS[i % 5]}_thing_{i}", description=f"{VERBS[i % 5]} thing number{i}") for i in range(size)]
    return View(catalog=Catalog.of(tools))


@pytest.mark.proves("R001-4", "R001-5", "R001-22")
def test_only_what_fits_the_message_is_sent(select, view_of):
    view = view_of({"clients": 5, "diets": 5})
    assert set(select(view, "diets", using="keyword").categories) == {"diets"}


@pytest.mark.proves("R001-6")
def test_a_hundred_more_tools_are_only_data(select, view_of):
    view = view_of({f"area{chr(97 + i)}": 20 for i in range(12)})
    assert len(select(view, "areaa", using="keyword").tools) == 20


def test_without_categories_the_best_scored_fill_the_budget(select):
    selection = select(_flat_view(), "freeze number5, please", max_tools=12, whole_if_it_fits=False)
    assert len(selection.tools) == 12
    assert all(name.startswith("freeze") for name in selection.names)
    assert selection.matched == ()
    assert not selection.no_match


def test_hits_by_words_count_as_a_match_though_no_keyword_hit(select, view_of):
    view = view_of({"a": 20, "b": 20}, keywords={"a": [], "b": ["zzz"]}, default=["b"])
    selection = select(view, "a 7")
    assert "a_7" in selection.names
    assert not selection.no_match


def test_a_small_catalog_goes_through_whole_and_in_its_order(select, view_of):
    view = view_of({"b": 12, "a": 12}, core=2)
    selection = select(view, "hello")
    assert selection.names == tuple(tool.name for tool in view)
    assert not selection.no_match
    assert len(select(view, "zzqx", max_tools=23).tools) == 2
    assert len(select(view, "zzqx", whole_if_it_fits=False).tools) == 2


def test_a_small_catalog_over_the_tokens_is_selected_from(select, view_of):
    view = view_of({"apples": 10, "pears": 10})
    whole = select(view, "apples")
    assert whole.tokens_selected == whole.tokens_all
    assert set(select(view, "apples", max_tokens=whole.tokens_all - 1).categories) == {"apples"}


def test_selected_tools_come_in_catalog_order_whatever_they_score(select):
    view = _flat_view()
    names = select(view, "freeze export number7", max_tools=9, whole_if_it_fits=False).names
    assert list(names) == sorted(names, key=lambda name: view.catalog.position(name))


def test_earlier_messages_say_what_a_short_answer_is_about(select):
    """R001-E6 in small: 'the first one' is about what was listed before."""
    names = select(_flat_view(), "freeze number5", ("assistant", "Really?"), "yes, do it", max_tools=3).names
    assert "freeze_thing_5" in names
    assert all(name.startswith("freeze") for name in names)


def test_a_tool_called_lately_stays_likely(select):
    called = Message(role="assistant", tool_calls=(ToolCall(id="1", name="archive_thing_3"),))
    messages = [Message(role="user", content="go"), called, Message(role="user", content="once more, please")]
    assert (
        "archive_thing_3"
        in select(_flat_view(), query=SelectionQuery(messages=messages), max_tools=5, rankers=LEXICAL).names
    )


def test_what_was_sent_before_is_not_chosen_again(select, view_of, asked):
    view = view_of({"a": 40}, core=1)
    first = select(view, "a", max_tools=10)
    more = select(view, query=asked("a", exclude=frozenset(first.names)), max_tools=10)
    assert len(more.tools) == 10
    assert not set(first.names) & set(more.names)


def test_when_something_was_sent_before_nothing_matching_adds_nothing(select, view_of, asked):
    view = view_of({"a": 40}, default=["a"])
    assert select(view, query=asked("zzqx", exclude=frozenset({"a_0"}))).tools == ()


def test_named_categories_are_taken_without_matching_and_ranked_by_the_words(select):
    tools = [Tool(name=f"{verb}_{i}", category="things") for i in range(20) for verb in ("freeze", "list")]
    view = View(catalog=Catalog.of(tools, [Category(name="things"), Category(name="other", keywords=("freeze",))]))
    query = SelectionQuery(text="freeze", categories=["things"])
    selection = select(view, query=query, max_tools=20)
    assert selection.matched == ("things",)
    assert all(name.startswith("freeze") for name in selection.names)


def test_hidden_tools_show_nowhere(select, asked):
    tools = [Tool(name=f"freeze_{i}", description="freeze", category="open") for i in range(40)]
    tools += [Tool(name=f"secret_{i}", description="freeze secret", category="vault") for i in range(40)]
    tools += [Tool(name="secret_core", core=True, category="vault")]
    categories = [Category(name="open", related=("vault",)), Category(name="vault", keywords=("freeze", "secret"))]
    mask = np.array([not tool.name.startswith("secret") for tool in tools])
    view = View(catalog=Catalog.of(tools, categories), mask=mask)
    alone = View(catalog=Catalog.of(tools[:40], categories[:1]))
    for text in ("freeze open", "secret", "vault"):
        query = asked(text, pinned=["secret_3"], categories=None)
        seen, expected = select(view, query=query), select(alone, query=asked(text))
        assert replace(seen, seconds=0.0) == replace(expected, seconds=0.0)
        assert "secret" not in repr(seen)
        assert "vault" not in repr(seen)
        selector, budget = Selector(), Budget()
        assert "secret" not in repr(selector.dropped(view, query, budget))
        assert "vault" not in repr(selector.search(view, text, 50))
    assert select(view, query=asked(categories=["vault"])).tools == ()


def test_every_visible_tool_is_chosen_or_listed_as_dropped_with_its_stage(view_of, asked):
    view = view_of({"a": 200, "b": 20}, keywords={"a": ["apples"], "b": ["pears"]}, core=2)
    selector, budget, query = Selector(), Budget(max_tools=10), asked("apples")
    selection = selector.select(view, query, budget)
    dropped = selector.dropped(view, query, budget)
    assert sorted([*selection.names, *(drop.name for drop in dropped)]) == sorted(tool.name for tool in view)
    stages = {drop.name: drop.stage for drop in dropped}
    assert stages["a_199"] == "max_tools"
    assert stages["b_0"] == "no_match"
    assert selection.dropped == dropped[:DROPPED_LISTED]


def test_why_says_where_a_tool_stands_and_what_it_lost_by(view_of, asked):
    view = view_of({"a": 30, "b": 3}, core=1, keywords={"a": ["apples"], "b": ["pears"]})
    hidden = view.narrowed(np.array([tool.name != "a_1" for tool in view.catalog]))
    selector = Selector(SelectionSettings(rankers=LEXICAL))
    budget, query = Budget(max_tools=5), asked("apples")

    def why(name, view=view, query=query):
        return selector.explain(view, query, budget, name)

    assert (why("a_0").stage, why("a_0").chosen, why("a_0").rank, why("a_0").candidates) == ("selected", True, 1, 30)
    assert why("a_0").reasons[0] == "category a: 'apples'"
    assert why("a_0").signals == {"categories": 1.0, "bm25": 1.0, "characters": 1.0, "mentions": 0.0}
    assert (why("a_29").stage, why("a_29").detail, why("a_29").rank) == ("max_tools", "max_tools is 5", 30)
    assert why("b_0").stage == "no_match"
    assert why("core_0").stage == "core"
    assert why("nowhere").stage == "unknown"
    assert why("a_1", view=hidden).stage == "hidden"
    assert why("b_1", query=asked("apples", pinned=["b_1"])).stage == "pinned"
    assert why("a_0", query=asked("apples", exclude=frozenset({"a_0"}))).stage == "sent"


def test_a_common_word_alone_does_not_pass_the_floor(asked):
    tools = [Tool(name=f"get_{i}", description="get " + "entry " * 60) for i in range(60)]
    view = View(catalog=Catalog.of([*tools, Tool(name="zebra_crossing", description="zebra")]))
    explained = Selector(SelectionSettings(rankers=LEXICAL)).explain(
        view, asked("zebra crossing entry"), Budget(), "get_1"
    )
    assert explained.stage == "floor"
    assert "under the floor" in explained.detail


def test_core_flags_can_be_ignored(select, view_of):
    view = view_of({"a": 30}, core=3)
    assert not any(name.startswith("core") for name in select(view, "a", core=False).names)


def test_without_rankers_everything_is_a_candidate_in_catalog_order(select, view_of):
    view = view_of({"a": 90, "b": 90}, core=1)
    selection = select(view, "hello", rankers=(), max_tools=None, policy="ranked")
    assert selection.names == tuple(tool.name for tool in view)[:128]


def test_a_ranker_from_outside_takes_part_and_cannot_reveal_what_is_hidden(view_of, asked):
    class LastLetter:
        name = "last_letter"

        def __init__(self, catalog, previous=None):
            self.catalog = catalog

        def rank(self, words, visible):
            scores = np.array([tool.name.endswith("7") for tool in self.catalog], dtype=np.float32)
            return Ranking(scores=scores, explain=lambda positions: [("it ends in 7",)] * len(positions))

    view = view_of({"a": 100})
    view = view.narrowed(np.array([tool.name != "a_17" for tool in view.catalog]))
    selector = Selector(SelectionSettings(rankers=("last_letter",)), {"last_letter": LastLetter})
    selection = selector.select(view, asked("anything"), Budget())
    assert selection.names == tuple(f"a_{i}7" if i else "a_7" for i in (0, 2, 3, 4, 5, 6, 7, 8, 9))
    assert selection.tools[0].reasons == ("it ends in 7",)


def test_reasons_and_dropped_tools_are_made_only_if_somebody_reads_them(view_of, asked):
    explained: list[list[int]] = []

    class Alike:
        name = "alike"

        def __init__(self, catalog, previous=None):
            self.scores = np.linspace(1, 0.5, len(catalog), dtype=np.float32)

        def rank(self, words, visible):
            def explain(positions):
                explained.append(list(positions))
                return [(f"place {position}",) for position in positions]

            return Ranking(scores=self.scores, explain=explain)

    selector = Selector(SelectionSettings(rankers=("alike",)), {"alike": Alike})
    selection = selector.select(view_of({"a": 100}), asked("anything"), Budget(max_tools=3))
    assert [chosen.tool.name for chosen in selection.tools] == ["a_0", "a_1", "a_2"]
    assert explained == []
    assert [chosen.reasons for chosen in selection.tools] == [("place 0",), ("place 1",), ("place 2",)]
    assert explained == [[0, 1, 2]]
    assert [lost.name for lost in selection.dropped[:2]] == ["a_3", "a_4"]


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_weight_that_weighs_nothing_sensible_is_refused_at_once(weight):
    with pytest.raises(ConfigError, match="bm25 is"):
        Selector(SelectionSettings(weights={"bm25": weight}))


@pytest.mark.parametrize("floor", [-0.1, 1.1, float("nan")])
def test_a_floor_that_nothing_or_everything_is_under_is_refused_at_once(floor):
    with pytest.raises(ConfigError, match="nothing_fits is"):
        Selector(SelectionSettings(nothing_fits=floor))


def test_a_ranker_nobody_brought_is_refused_at_once():
    with pytest.raises(ConfigError, match=r"no ranker 'tarot'.*bm25, categories"):
        Selector(SelectionSettings(rankers=("categories", "tarot")))


def test_an_empty_catalog_gives_an_empty_selection(select):
    for using in ("default", "keyword", "budget"):
        assert select(View(catalog=Catalog.of([])), "anything", using=using).tools == ()
    assert Selector().search(View(catalog=Catalog.of([])), "anything", 5) == ()


def test_hostile_text_is_answered_in_time(select, view_of):
    view = view_of({"a": 50})
    for text in ("a" * 1_000_000, "\ufdfa" * 200_000, "_-" * 500_000, "aB" * 500_000, "\x00\ud800 a"):
        assert select(view, text).seconds < 1.0


def test_counts_and_tokens_are_those_of_the_visible_tools(select, view_of):
    view = view_of({"a": 30, "b": 30})
    part = view.narrowed(np.array([tool.category == "a" for tool in view.catalog]))
    assert select(part, "a").catalog_size == 30
    assert select(part, "a").tokens_all * 2 == pytest.approx(select(view, "a").tokens_all, abs=2)
    assert select(part, "a").tokens_selected < select(part, "a").tokens_all


def test_many_threads_may_ask_one_selector_about_many_catalogs():
    selector = Selector()
    views = [_flat_view(30 + size) for size in range(8)]
    query = SelectionQuery(messages=[Message(role="user", content="freeze number5")])
    expected = [Selector().select(view, query, Budget()).names for view in views]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: selector.select(views[i % 8], query, Budget()).names, range(400)))
    assert all(names == expected[i % 8] for i, names in enumerate(found))


_CUT = """
import hashlib
from toolcaddie.core.catalog import Catalog, Category, View
from toolcaddie.core.message import Message
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.core.presets import preset
from toolcaddie.selection.selector import Selector
from toolcaddie.core.tool import Tool
names = [f"area{i}" for i in range(30)]
tools = [Tool(name=f"{name}_{i}", description=f"{name} thing", category=name) for name in names for i in range(6)]
categories = [Category(name=n, keywords=(n,), related=tuple(names[i + 1 : i + 3])) for i, n in enumerate(names)]
view = View(catalog=Catalog.of(tools, categories))
query = SelectionQuery(messages=[Message(role="user", content=" ".join(reversed(names)) + " thing")])
for using in ("keyword", "default", "budget"):
    chosen = preset(using)
    selection = Selector(chosen.selection).select(view, query, chosen.budget)
    print([(tool.tool.name, tool.score, tool.reasons) for tool in selection.tools], selection.dropped, selection.categories)
"""


@pytest.mark.proves("R001-5")
def test_the_cut_is_the_same_in_twenty_processes_with_different_hash_seeds():
    """Source 001's first implementation iterated a set: which tools were lost changed from process to process."""

    def output(seed):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        root = Path(__file__).parents[2]
        done = subprocess.run(
            [sys.executable, "-c", _CUT], env=environment, cwd=root, capture_output=True, check=True, timeout=60
        )
        return done.stdout

    with ThreadPoolExecutor(4) as pool:
        outputs = set(pool.map(output, range(20)))
    assert len(outputs) == 1
    assert b"area29" in outputs.pop()


def test_presets_name_rankers_that_exist():
    for using in ("default", "budget", "keyword", "multibot", "forced", "compact"):
        Selector(preset(using).selection)


@pytest.mark.parametrize("said", [[float("nan"), -3.0, 1.0], [float("inf"), float("nan"), 2.0]])
def test_nonsense_of_a_ranker_from_outside_is_thrown_away(asked, said):
    class Odd:
        name = "odd"

        def __init__(self, catalog, previous=None):
            self.catalog = catalog

        def rank(self, words, visible):
            return Ranking(scores=np.array(said))

    view = View(catalog=Catalog.of([Tool(name=name) for name in ("a", "b", "c")]))
    settings = SelectionSettings(rankers=("odd",), whole_if_it_fits=False)
    assert Selector(settings, {"odd": Odd}).select(view, asked("x"), Budget()).names == ("c",)
    more = View(catalog=Catalog.of([Tool(name=name) for name in ("a", "b", "c", "d")]))
    with pytest.raises(ConfigError, match=r"ranker 'odd'.*one for each of 4 tools"):
        Selector(settings, {"odd": Odd}).select(more, asked("x"), Budget())
