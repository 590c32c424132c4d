"""The picker, as somebody with a loop of their own uses it."""

from __future__ import annotations

import numpy as np
import pytest

from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import CatalogError, ConfigError, DuplicateToolError, RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.tool import Tool
from toolcaddie.embedders.endpoint import endpoint
from toolcaddie.learning import Experience
from toolcaddie.picker import Picker
from toolcaddie.samples import gym


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


def test_a_definition_without_its_wrapper_gets_one():
    bare = _definition("freeze_all", "Freeze")["function"]
    assert Picker.of([*TOOLS, bare]).pick("freeze all", max_tools=1).definitions == [
        _definition("freeze_all", "Freeze")
    ]


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
    assert max(picked.selection.tools, key=lambda each: each.score).tool is own


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
    ("wrong", "name"),
    [
        ({"exclude": "send_invoice"}, "exclude"),
        ({"max_tools": -1}, "max_tools"),
        ({"messages": None}, "messages"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(wrong, name):
    with pytest.raises(RequestError, match=name):
        Picker.of(TOOLS).pick(**{"messages": "freeze", **wrong})


def pause_contract(member: str) -> str:
    """Pause the contract of one member for some weeks."""
    return member


def test_plain_functions_become_definitions():
    picker = Picker.of([pause_contract, *TOOLS])
    picked = picker.pick("pause the contract of John", max_tools=1)
    function = picked.definitions[0]["function"]
    assert (function["name"], list(function["parameters"]["properties"])) == ("pause_contract", ["member"])


def test_a_source_brings_its_categories():
    assert {category.name for category in Picker.of(gym.source()).catalog.categories} >= {"clients", "memberships"}
    assert len(Picker.of("gym").catalog) == 137


def test_tools_come_and_go():
    picker = Picker.of(TOOLS)
    picker.add(pause_contract, _definition("sing_song", "Sing"))
    assert picker.pick("sing", max_tools=1).names == ("sing_song",)
    picker.remove("sing_song", "pause_contract")
    assert "sing_song" not in picker.pick("sing").names
    assert len(picker.catalog) == len(TOOLS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda picker: picker.add(_definition("new"), _definition("list_room")), "list_room"),
        (lambda picker: picker.remove("list_room", "list_roon"), "did you mean 'list_room'"),
    ],
)
def test_a_change_that_cannot_be_made_changes_nothing(change, message):
    picker = Picker.of(TOOLS)
    with pytest.raises(CatalogError, match=message):
        change(picker)
    assert len(picker.catalog) == len(TOOLS)
    assert picker.catalog.get("list_room") is not None


def test_a_choice_is_a_ranking_with_scores_and_reasons():
    picked = Picker.of(TOOLS).pick("freeze John's membership", max_tools=3)
    best, *others = picked.ranking
    assert best.name == "freeze_membership"
    assert best.reasons
    assert {best.name, *(one.name for one in others)} == set(picked.names)
    assert [one.score for one in picked.ranking] == sorted((one.score for one in picked.ranking), reverse=True)
    assert {one.stage for one in picked.dropped} <= {"max_tools", "floor"}
    assert not {one.name for one in picked.dropped} & set(picked.names)


def test_a_choice_prints_in_a_line():
    picked = Picker.of(TOOLS).pick("freeze John's membership", max_tools=8)
    assert repr(picked).startswith("Picked(8 of 36 tools: freeze_membership ")
    assert len(repr(picked)) < 200
    assert repr(Picker.of(TOOLS)) == "Picker(36 tools)"


class Synonyms:
    """A small embedder of meanings: each word stands for what it means."""

    name, dimensions, languages = "synonyms", 3, None
    MEANINGS = ({"freeze", "halt", "glorb"}, {"list", "enumerate"}, {"membership", "wibble"})

    def __init__(self):
        self.asked = []

    def embed(self, texts):
        self.asked += texts
        rows = [[float(any(word in text.lower() for word in words)) for words in self.MEANINGS] for text in texts]
        vectors = np.array(rows, dtype=np.float32).reshape(-1, 3)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def test_an_embedder_finds_what_words_do_not():
    message = "glorb my wibble"
    assert Picker.of(TOOLS).pick(message, max_tools=1).names != ("freeze_membership",)
    assert Picker.of(TOOLS, embedder=Synonyms()).pick(message, max_tools=1).names == ("freeze_membership",)


def test_a_tool_that_joins_is_embedded_alone():
    embedder = Synonyms()
    picker = Picker.of(TOOLS, embedder=embedder)
    picker.pick("halt my subscription")
    before = len(embedder.asked)
    picker.add(_definition("enumerate_things", "enumerate"))
    picker.pick("halt my subscription")
    assert 0 < len(embedder.asked) - before < 10


def test_an_embedder_that_has_to_ask_a_server_is_refused():
    with pytest.raises(ConfigError, match="sends requests to a server"):
        Picker.of(TOOLS, embedder=endpoint(url="http://127.0.0.1:1/v1", model="m"))


def test_what_was_called_is_learned():
    hold = _definition("membership_hold", "Puts a contract on hold")
    experience = Experience()
    picker = Picker.of([hold, *TOOLS], experience=experience)
    message = "interrupt the season ticket of John"
    assert picker.pick(message, max_tools=1).names != ("membership_hold",)
    for verb in ("freeze", "pause", "interrupt", "stop"):
        for thing in ("abo", "pass", "card", "plan", "ticket", "season", "fees", "contract"):
            picker.learn(f"{verb} my {thing}, the key is sk-live-0123456789abcdef0123", "membership_hold")
    best = picker.pick(message, max_tools=1).ranking[0]
    assert best.name == "membership_hold"
    assert any("called after" in reason for reason in best.reasons)
    assert "0123456789abcdef" not in repr([entry.text for entry in experience.past().entries])
