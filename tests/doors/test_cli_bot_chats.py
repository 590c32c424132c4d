"""`toolcaddie chat` with a bot: the conversation is stored, goes on after a restart, and is part of what the bot can search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.doors.commandline import CommandLine
from tests.doors.terminal import terminal
from toolcaddie.testing import ScriptedUpstream, call, refuse, say

SETTINGS = """
[bots.coach]
[bots.desk]

[[source]]
type = "memory"

[[source]]
type = "gym"
"""
KEY = "MY_TEST_KEY"
_PROMPT, _QUESTION = b"you> ", b"[w]hy > "


class House:
    """Two bots whose model answers from a script. Each `chat` is a process of its own, as far as its memory goes."""

    def __init__(self, toolcaddie: CommandLine, upstream: ScriptedUpstream) -> None:
        self.toolcaddie = toolcaddie
        self.upstream = upstream

    def chat(self, lines: str, *words: str, bot: str = "coach") -> Any:
        where = ("--upstream", self.upstream.base_url, "--upstream-key-env", KEY, "--model", "gpt-test")
        return self.toolcaddie("chat", "--bot", bot, *where, *words, stdin=lines)

    def asked(self) -> list[tuple[str, str]]:
        """The messages of the last request to the model, without the system prompt."""
        messages = self.upstream.bodies[-1]["messages"]
        return [(each["role"], each["content"]) for each in messages if each["role"] != "system"]


@pytest.fixture
def script() -> list[Any]:
    """What the model says in this test."""
    return []


@pytest.fixture
def house(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch, script: list[Any]) -> Iterator[House]:
    monkeypatch.setenv(KEY, "test-key")
    monkeypatch.setenv("TOOLCADDIE_UPSTREAM_ATTEMPTS", "1")
    Path("toolcaddie.toml").write_text(SETTINGS)
    with ScriptedUpstream(script) as upstream:
        yield House(toolcaddie, upstream)


@pytest.mark.parametrize("script", [[say("Hello Ann."), say("You are Ann.")]])
def test_a_chat_with_a_bot_goes_on_after_a_restart(house: House) -> None:
    assert house.chat("I am Ann.\n").stdout == "Hello Ann.\n"
    assert house.chat("Who am I?\n").stdout == "You are Ann.\n"
    assert house.asked() == [("user", "I am Ann."), ("assistant", "Hello Ann."), ("user", "Who am I?")]


@pytest.mark.parametrize("script", [[say(str(number)) for number in range(7)]])
def test_other_chats_other_bots_and_new_conversations_begin_without_what_was_said(house: House) -> None:
    house.chat("one\n")
    for lines, words, bot in (
        ("two\n", ("--new",), "coach"),
        ("x\n/new\nthree\n", ("--chat", "holidays"), "coach"),
        ("four\n", (), "desk"),
    ):
        house.chat(lines, *words, bot=bot)
        assert house.asked() == [("user", lines.split()[-1])]
    house.chat("five\n")
    assert house.asked() == [("user", "two"), ("assistant", "1"), ("user", "five")]
    house.chat("six\n", "--chat", "holidays")
    assert house.asked() == [("user", "three"), ("assistant", "3"), ("user", "six")]


@pytest.mark.parametrize("script", [[say("Noted."), call("memory_search", {"query": "oolong"}), say("Oolong.")]])
def test_what_was_said_is_found_by_the_bots_memory_in_another_chat(house: House) -> None:
    house.chat("I drink oolong at the harbour.\n")
    house.chat("/new\nWhat do I drink?\n")
    [hits] = [message["content"] for message in house.upstream.bodies[-1]["messages"] if message["role"] == "tool"]
    assert "I drink oolong at the harbour." in hits


@pytest.mark.parametrize("script", [[refuse(400, "too long", kind="invalid_request_error"), say("Hello.")]])
def test_a_message_that_failed_is_not_part_of_the_stored_chat(house: House) -> None:
    assert house.chat("first\n").exit_code == 1
    house.chat("second\n")
    assert house.asked() == [("user", "second")]


@pytest.mark.parametrize("script", [[call("delete_client", {"client_id": 977}), say("Gone."), say("As I said.")]])
def test_a_message_that_waited_for_a_person_joins_the_chat_when_its_run_is_resumed(house: House) -> None:
    waits = json.loads(house.chat("delete client 977\n", "--json").stdout)
    house.toolcaddie.ok("approvals", "approve", waits["approvals"][0]["id"])
    where = ("--upstream", house.upstream.base_url, "--upstream-key-env", KEY, "--model", "gpt-test")
    assert house.toolcaddie.ok("resume", waits["run_id"], *where) == "Gone.\n"
    house.chat("Is it gone?\n")
    assert house.asked() == [("user", "delete client 977"), ("assistant", "Gone."), ("user", "Is it gone?")]


@pytest.mark.parametrize("script", [[say("Noted."), say("Who?")]])
def test_the_person_at_the_terminal_can_be_forgotten(house: House) -> None:
    house.chat("I drink oolong.\n")
    data = house.toolcaddie.json("persona", "forget", "coach", "--person", "default/local", "--yes")
    assert [message["turn"]["text"] for message in data["messages"]] == ["I drink oolong.", "Noted."]
    house.chat("Who am I?\n")
    assert house.asked() == [("user", "Who am I?")]


def test_a_terminal_says_that_a_chat_goes_on_and_a_question_that_is_left_can_be_answered_later(
    toolcaddie: CommandLine,
) -> None:
    Path("toolcaddie.toml").write_text(SETTINGS)
    with terminal("chat", "--bot", "coach") as person:
        assert "this goes on with" not in person.until(_PROMPT)
        person.types("delete client 977")
        person.until(_QUESTION)
        person.interrupts_until(_PROMPT)
        person.types("/quit")
        assert person.ended() == 0
    (question,) = toolcaddie.json("approvals", "list")["approvals"]
    toolcaddie.ok("approvals", "approve", question["id"])
    toolcaddie.ok("resume", question["run_id"])
    with terminal("chat", "--bot", "coach") as person:
        assert "this goes on with your chat main, last used 20" in person.until(_PROMPT)
    stored = toolcaddie.json("persona", "forget", "coach", "--person", "default/local", "--dry-run")["messages"]
    assert stored[0]["turn"]["text"] == "delete client 977"
    assert "There is no client_id 977" in stored[1]["turn"]["text"]


def test_chats_are_named_only_where_there_is_a_bot_and_by_plain_names(toolcaddie: CommandLine) -> None:
    assert "name one with --bot" in toolcaddie.refused("chat", "--chat", "holidays")
    for name in ("", "group:7", "a#2", "../x", "x" * 65):
        assert "must be of 1 to 64 letters" in toolcaddie.refused("chat", "--bot", "coach", "--chat", name)
