"""Keywords, their forms, and related categories, seen through a selection."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from toolcaddie.core.selection import SelectionQuery

WORDS = {
    "clients": ["client", "member", "who"],
    "salary": ["salary", "pay"],
    "attendance": ["check-in", "came today"],
    "classes": ["class", "group class"],
    "empty": [],
}
SIZES = {"clients": 2, "salary": 2, "attendance": 2, "classes": 2, "empty": 1}


def _matched(select, view_of, text, match, **more):
    return select(view_of(SIZES, keywords=WORDS, **more), text, using="keyword", match=match).matched


@pytest.mark.parametrize(
    ("text", "word", "substring"),
    [
        ("any whole grain meals?", (), ("clients",)),
        ("payment history", (), ("salary",)),
        ("do you remember?", (), ("clients",)),
        ("a classic design", (), ("classes",)),
        ("the CLIENT's data", ("clients",), ("clients",)),
        ("both salaries", ("salary",), ()),
        ("all classes", ("classes",), ("classes",)),
        ("a first-class seat", ("classes",), ("classes",)),
        ("the check in desk", ("attendance",), ()),
        ("the check-in desk", ("attendance",), ("attendance",)),
        ("who came  today?", ("clients", "attendance"), ("clients",)),
        ("who_is_it", ("clients",), ("clients",)),
        ("Gehälter der cliént", ("clients",), ()),
    ],
)
def test_a_keyword_hits_as_a_word_with_its_forms_or_anywhere(select, view_of, text, word, substring):
    """The traps of source 001: silent in mode `word`, loud in mode `substring`."""
    assert _matched(select, view_of, text, "word") == word
    assert _matched(select, view_of, text, "substring") == substring


@pytest.mark.proves("R001-9", "R001-10", "R001-11")
def test_any_keyword_brings_its_category_and_several_categories_may_match(select, view_of):
    assert _matched(select, view_of, "pay the member", "substring") == ("clients", "salary")


@pytest.mark.proves("R001-8", "R001-24")
@pytest.mark.parametrize("match", ["word", "substring"])
def test_recent_messages_are_searched_too_each_by_itself(select, view_of, match):
    """Joining them by a blank, as printed, would let 'please check' + 'in the evening' form a keyword."""
    view = view_of({"attendance": 2}, keywords={"attendance": ["check in"]})
    assert select(view, "CHECK IN", "thanks", using="keyword", match=match).matched == ("attendance",)
    assert select(view, "please check", "in the evening", using="keyword", match=match).matched == ()


def test_a_keyword_in_a_script_without_spaces_needs_no_boundary(select, view_of):
    view = view_of({"weather": 2}, keywords={"weather": ["天气"]})
    assert select(view, "今天天气怎么样", using="keyword", match="word").matched == ("weather",)


RELATED = {"a": ["b"], "b": ["c"], "c": ["a", "nowhere"]}


@pytest.mark.proves("R001-13", "R001-14", "R001-24")
@pytest.mark.parametrize(
    ("depth", "categories"), [(0, {"a"}), (1, {"a", "b"}), (2, {"a", "b", "c"}), (None, {"a", "b", "c"})]
)
def test_related_categories_come_along_to_a_depth_or_the_closure(select, view_of, depth, categories):
    view = view_of({"a": 1, "b": 1, "c": 1, "d": 1}, related=RELATED)
    selection = select(view, "a", using="keyword", match="word", related_depth=depth)
    assert selection.matched == ("a",)
    assert set(selection.categories) == categories


@pytest.mark.proves("R001-15", "R001-24")
def test_defaults_stand_in_when_nothing_matched_and_are_not_expanded(select, view_of):
    view = view_of({"a": 2, "b": 2, "c": 2}, related=RELATED, default=["a", "c"], core=1)
    selection = select(view, "hello, how are you?", using="keyword", match="word")
    assert selection.names == ("core_0", "a_0", "a_1", "c_0", "c_1")
    assert selection.no_match
    assert selection.matched == ()


def test_defaults_that_do_not_all_fit_give_the_first_tools_of_each(select, view_of):
    view = view_of({"a": 20, "b": 20, "c": 20}, default=["a", "b", "c"])
    names = select(view, "zzqx", max_tools=9).names
    assert names == ("a_0", "a_1", "a_2", "b_0", "b_1", "b_2", "c_0", "c_1", "c_2")


@pytest.mark.parametrize(("setting", "names"), [("core", ("core_0",)), ("none", ())])
def test_without_a_match_it_can_be_core_only_or_nothing(select, view_of, setting, names):
    view = view_of({"a": 2}, default=["a"], core=1)
    assert select(view, "hello", using="keyword", on_no_match=setting).names == names


@pytest.mark.proves("R001-16")
def test_core_comes_first_then_category_by_category_each_tool_once(select, view_of):
    view = view_of({"a": 2, "b": 2}, core=2, related={"b": ["a"], "a": ["b"]})
    assert select(view, "b and a", using="keyword").names == ("core_0", "core_1", "a_0", "a_1", "b_0", "b_1")


@pytest.mark.proves("R001-17", "R001-18")
def test_what_is_over_the_cap_is_cut_in_catalog_order_with_a_warning(select, view_of):
    view = view_of({"alpha": 60, "beta": 60, "gamma": 9}, core=8)
    with capture_logs() as logs:
        selection = select(view, "gamma, beta, alpha", using="keyword")
    assert len(selection.tools) == 128
    assert [tool.core for tool in selection.tools[:8]] == [True] * 8
    assert selection.names[-1] == "beta_59"
    assert selection.starved == ("gamma",)
    assert [drop.stage for drop in selection.dropped] == ["provider_cap"] * 9
    warning, info = logs
    assert warning["log_level"] == "warning"
    assert (warning["catalog"], warning["selected"], warning["wanted"]) == (137, 128, 137)
    assert info["log_level"] == "info"
    assert (info["selected"], info["total"], info["categories"]) == (128, 137, ["alpha", "beta", "gamma"])


@pytest.mark.proves("R001-19")
def test_relations_to_and_requests_for_unknown_categories_are_ignored(select, view_of):
    view = view_of({"a": 1}, related={"a": ["nowhere"]})
    assert select(view, "a", using="keyword").names == ("a_0",)
    assert select(view, using="keyword", query=SelectionQuery(categories=["nowhere", "a"])).names == ("a_0",)


@pytest.mark.proves("R001-25")
def test_ten_categories_of_twelve_and_eight_core_tools_are_exactly_128_and_not_cut(select, view_of):
    names = [f"cat{chr(97 + i)}" for i in range(10)]
    with capture_logs() as logs:
        selection = select(view_of(dict.fromkeys(names, 12), core=8), " ".join(names), using="keyword")
    assert len(selection.tools) == 128
    assert [log["log_level"] for log in logs] == ["info"]


@pytest.mark.proves("R001-26")
def test_a_category_can_be_split_as_data(select, view_of):
    words = {"clients_read": ["show client"], "clients_write": ["update client"]}
    view = view_of({"clients_read": 3, "clients_write": 3}, keywords=words)
    assert select(view, "update client", using="keyword").matched == ("clients_write",)


def test_reasons_name_the_keyword_and_the_relation(select, view_of):
    view = view_of({"a": 1, "b": 1}, keywords={"a": ["freeze"], "b": []}, related={"a": ["b"]}, core=1)
    reasons = {chosen.tool.name: chosen.reasons for chosen in select(view, "freeze", using="keyword").tools}
    assert reasons["core_0"] == ("core: sent always",)
    assert reasons["a_0"] == ("category a: 'freeze'",)
    assert reasons["b_0"] == ("category b: related to a",)
    earlier = select(view, "freeze", "yes", using="keyword").tools[1].reasons
    assert earlier == ("category a: 'freeze' in an earlier message",)
