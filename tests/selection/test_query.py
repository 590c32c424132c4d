"""Which messages count, how much, and how text becomes words."""

from __future__ import annotations

import pytest

from toolcaddie.core.message import Message
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.core.tool import ToolCall
from toolcaddie.selection.query import LOOKED_AT, content_words, language_of, query_words, split_words


def _words(messages, **sizes):
    return query_words(
        SelectionQuery(messages=messages), window=sizes.get("window", 8), window_user=sizes.get("user", 4)
    )


def _user(*texts):
    return [Message(role="user", content=text) for text in texts]


@pytest.mark.proves("R001-12")
def test_the_window_is_the_last_eight_messages_and_of_these_the_last_four_of_the_user():
    """Eight messages before the current one, of any role; of these the user's; of those the last four."""
    said = _words(_user(*"abcdefghij"))
    assert [text for text, _ in said.messages] == ["j", "i", "h", "g", "f"]
    tools = [Message(role="tool", content="x", tool_call_id="1")] * 7
    assert [text for text, _ in _words([*_user("a", "b"), *tools, *_user("c")]).messages] == ["c", "b"]


def test_the_current_message_is_the_users_last_even_in_the_middle_of_a_tool_turn():
    called = Message(role="assistant", tool_calls=(ToolCall(id="1", name="get_weather"),))
    words = _words([*_user("a", "b"), called, Message(role="tool", content="rain", tool_call_id="1")])
    assert [text for text, _ in words.messages] == ["b", "a"]
    assert words.called == ("get_weather",)


def test_earlier_messages_weigh_less_the_older_they_are():
    weights = [weight for _, weight in _words(_user("first", "second", "third")).messages]
    assert weights[0] == 1.0
    assert weights[0] > weights[1] > weights[2] > 0


def test_a_message_that_says_much_by_itself_leans_less_on_earlier_ones():
    short = _words(_user("freeze the membership", "yes, do it")).messages[1][1]
    full = _words(_user("freeze the membership", "export last month's payroll report to the accountant")).messages[1][1]
    assert full < short


def test_a_query_of_words_ignores_the_messages():
    query = SelectionQuery(messages=_user("ignored"), text="freeze")
    assert query_words(query, window=8, window_user=4).messages == (("freeze", 1.0),)


def test_of_a_huge_message_the_two_ends_are_read_and_nothing_forms_between_them():
    text = "check" + "x" * 1_000_000 + "in"
    parts = [part for part, _ in _words(_user(text)).messages]
    assert [len(part) for part in parts] == [LOOKED_AT, LOOKED_AT]
    assert (parts[0][:5], parts[1][-2:]) == ("check", "in")


def test_no_user_message_means_no_words():
    assert _words([Message(role="system", content="be kind")]).messages == ()
    assert _words([]).messages == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getUserInfo", ["get", "user", "info"]),
        ("parseHTTPResponse", ["parse", "http", "response"]),
        ("get_member-goals.v2", ["get", "member", "goals", "v2"]),
        ("Membresía ÜBER", ["membresia", "uber"]),
        ("查询天气 now", ["查询", "询天", "天气", "now"]),
        ("", []),
    ],
)
def test_text_falls_into_words(text, words):
    assert split_words(text) == words


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("show me what is in the report", "english"),
        ("quiero congelar la membresía de un cliente por favor", "spanish"),
        ("eu quero uma lista das vendas do mês, por favor", "portuguese"),
        ("ich möchte bitte die Rechnung für den Kunden", "german"),
        ("je voudrais la liste des factures s'il vous plaît", "french"),
        ("xyzzy", None),
    ],
)
def test_the_language_shows_in_the_stop_words(text, language):
    assert language_of(split_words(text)) == language


def test_politeness_is_no_content():
    assert content_words("Hello, could you please help me? I want to freeze it, thanks!", "english") == ["freeze"]
