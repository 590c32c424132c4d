"""The picker, as somebody with a loop of their own uses it."""

from __future__ import annotations

import pytest

from toolcaddie.catalog import Category
from toolcaddie.errors import CatalogError, DuplicateToolError, RequestError
from toolcaddie.message import Message
from toolcaddie.picker import Picker
from toolcaddie.tool_types import Tool


def _definition(name, description="", **more):
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": {"type": "object"}},
        **more,
    }


TOOLS = [
    _definition(f"{verb}_{thing}", f"{verb} the {thing}")
    for verb in ("freeze", "list", "export")
    for thing in (
        "membership",
        "invoice",
        "order",
        "report",
        "class",
        "room",
        "shift",
        "photo",
        "offer",
        "goal",
        "note",
        "lead",
    )
]


def test_five_lines_are_enough():
    picker = Picker.of(TOOLS)
    picked = picker.pick("freeze John's membership", max_tools=5)
    assert "freeze_membership" in picked.names
    assert len(picked.definitions) == 5
    assert [definition["function"]["name"] for definition in picked.definitions] == list(picked.names)


def test_definitions_come_out_as_they_went_in():
    odd = _definition("freeze_all", "Freeze", strict=True, x_unknown={"a": 1})
    assert Picker.of([*TOOLS, odd]).pick("freeze all", max_tools=1).definitions == [odd]


def test_a_conversation_is_read_from_openai_messages():
    messages = [
        {"role": "system", "content": "list list list"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "freeze the membership"}, {"type": "image_url", "image_url": {}}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "list_lead", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "...", "tool_call_id": "1"},
        {"role": "user", "content": "yes, do it"},
    ]
    names = Picker.of(TOOLS).pick(messages, max_tools=2).names
    assert "freeze_membership" in names


def test_own_words_mix_with_definitions_and_categories():
    own = Tool(name="weigh", description="Weigh", category="body")
    picker = Picker.of([*TOOLS, own], [Category(name="body", keywords=("kilos",))])
    picked = picker.pick([Message(role="user", content="how many kilos?")])
    assert max(picked.selection.tools, key=lambda chosen: chosen.score).tool is own


def test_what_was_sent_can_be_excluded():
    assert "freeze_membership" not in Picker.of(TOOLS).pick("freeze membership", exclude=["freeze_membership"]).names


def test_tokens_bound_the_definitions_together():
    picked = Picker.of(TOOLS).pick("freeze", max_tokens=100)
    assert 0 < picked.selection.tokens_selected <= 100


@pytest.mark.parametrize("bad", [{}, {"function": {}}, {"type": "function", "function": {"name": 7}}, "freeze"])
def test_a_definition_without_a_name_is_refused_by_its_place(bad):
    with pytest.raises(CatalogError, match=r"tools\[36\]"):
        Picker.of([*TOOLS, bad])


def test_a_name_used_twice_is_refused():
    with pytest.raises(DuplicateToolError, match="list_room"):
        Picker.of([*TOOLS, _definition("list_room")])


def test_a_message_with_an_unknown_role_is_refused_by_its_place():
    with pytest.raises(RequestError, match=r"messages\[0\].*'boss'"):
        Picker.of(TOOLS).pick([{"role": "boss", "content": "hi"}])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"exclude": "send_invoice"}, "exclude"),
        ({"max_tools": -1}, "max_tools"),
        ({"messages": None}, "messages"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(wrong, named):
    with pytest.raises(RequestError, match=named):
        Picker.of(TOOLS).pick(**{"messages": "freeze", **wrong})
