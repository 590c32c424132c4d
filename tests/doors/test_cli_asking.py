"""`toolcaddie chat` and `run` on a terminal ask the person who sits there before a call that may destroy something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.doors.commandline import CommandLine
from tests.doors.terminal import Terminal
from tests.doors.terminal import terminal as terminal_of
from tests.walls import needs_the_wall
from toolcaddie.testing import ScriptedUpstream, call, say
from toolcaddie.util.user import user_name

_QUESTION = b"[w]hy > "
_PROMPT = b"you> "
_GONE = b"There is no client_id 977"


@contextmanager
def terminal(*words: str) -> Iterator[Terminal]:
    """Starts `toolcaddie WORDS` on a terminal, with the gym and the practice model, and ends it."""
    with terminal_of(*words, "--catalog", "gym") as person:
        yield person


@pytest.mark.parametrize("key", ["y", "yes", "YES"])
def test_a_call_runs_after_a_yes(key: str, toolcaddie: CommandLine) -> None:
    with terminal("chat") as person:
        person.until(_PROMPT)
        person.types("delete client 977")
        question = person.until(_QUESTION)
        assert "delete_client needs your approval: it may delete or overwrite something" in question
        assert "client_id: 977" in question
        person.types(key)
        person.until(_GONE)


def _asked(tool: str, arguments: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns the question about a call of a tool in the box."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    with ScriptedUpstream([call(tool, arguments), say("Done.")]) as upstream:
        words = ("run", "do it", "--box", "files,exec", "--upstream", upstream.base_url, "--model", "gpt-test")
        with terminal_of(*words) as person:
            return person.until(_QUESTION).replace("\r", "")


def test_a_diff_is_shown_in_colours(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    (toolcaddie.home / "workspace").mkdir()
    (toolcaddie.home / "workspace" / "a.txt").write_text("old\n")
    question = _asked("file_edit", {"path": "a.txt", "old_text": "old", "new_text": "new"}, monkeypatch)
    assert "\x1b[31m    -old\x1b[0m\n" in question
    assert "\x1b[32m    +new\x1b[0m\n" in question
    assert '\n    new_text: "new"\n' in question


@needs_the_wall
def test_a_command_is_shown_once_and_not_in_grey(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    question = _asked("exec", {"command": "rm -f notes.txt"}, monkeypatch)
    assert "\n    rm -f notes.txt\n" in question
    assert "command:" not in question


@pytest.mark.parametrize("key", ["n", "no"])
def test_a_call_does_not_run_after_a_no(key: str, toolcaddie: CommandLine) -> None:
    with terminal("run", "delete client 977") as person:
        person.until(_QUESTION)
        person.types(key)
        shown = person.until(b"A person did not approve this call")
    assert 'delete_client {"client_id":977} → refused by you' in shown
    (asked,) = toolcaddie.json("approvals", "list", "--all")["approvals"]
    assert asked["status"] == "refused"


def test_why_names_the_rule_and_asks_again(toolcaddie: CommandLine) -> None:
    with terminal("run", "delete client 977") as person:
        person.until(_QUESTION)
        person.types("why")
        assert "asked by the rule 'ask-before-destroying'" in person.until(_QUESTION)


def test_always_holds_for_these_arguments_until_the_session_ends(toolcaddie: CommandLine) -> None:
    with terminal("chat") as person:
        person.until(_PROMPT)
        person.types("delete client 977")
        person.until(_QUESTION)
        person.types("always")
        person.until(_PROMPT)
        person.types("delete client 977")
        assert "needs your approval" not in person.until(_PROMPT)
        person.types("delete client 978")
        assert "client_id: 978" in person.until(_QUESTION)
    with terminal("chat") as person:
        person.until(_PROMPT)
        person.types("delete client 977")
        person.until(_QUESTION)


def test_ctrl_c_at_a_question_answers_nothing(toolcaddie: CommandLine, tmp_path: Path) -> None:
    with terminal("run", "delete client 977") as person:
        person.until(_QUESTION)
        assert "waits for a person's approval of delete_client" in person.interrupts_until(b"toolcaddie resume")
    (waiting,) = toolcaddie.json("approvals", "list")["approvals"]
    assert (waiting["tool"], waiting["arguments"]) == ("delete_client", {"client_id": 977})


def test_ctrl_c_at_a_question_leaves_the_chat_open(toolcaddie: CommandLine) -> None:
    with terminal("chat") as person:
        person.until(_PROMPT)
        person.types("delete client 977")
        person.until(_QUESTION)
        assert "not answered: run_" in person.interrupts_until(_PROMPT)


def test_where_approvers_are_set_nobody_else_is_asked(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text('[policy]\napprovers = ["ann"]\n')
    with terminal("run", "delete client 977") as person:
        shown = person.until(b"toolcaddie resume")
    assert f"{user_name()} may not approve calls of delete_client" in shown
    assert "ann" in shown
    (waiting,) = toolcaddie.json("approvals", "list")["approvals"]
    assert waiting["status"] == "open"


def test_an_approver_is_asked_and_the_answer_is_recorded_in_their_name(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text(f'[policy]\napprovers = ["{user_name()}"]\n')
    with terminal("run", "delete client 977") as person:
        person.until(_QUESTION)
        person.types("y")
        person.until(_GONE)
    (asked,) = toolcaddie.json("approvals", "list", "--all")["approvals"]
    assert (asked["status"], asked["answered_by"]["id"]) == ("used", user_name())
    assert asked["answered_by"]["channel"] == "terminal"


def test_a_question_that_another_run_asked_too_says_so_and_is_answered_for_this_one(toolcaddie: CommandLine) -> None:
    assert toolcaddie("run", "delete client 977", "--catalog", "gym").exit_code == 1
    (asked,) = toolcaddie.json("approvals", "list")["approvals"]
    with terminal("run", "delete client 977") as person:
        assert f"{asked['run_id']} waits for the same answer" in person.until(_QUESTION)
        person.types("y")
        person.until(_GONE)
