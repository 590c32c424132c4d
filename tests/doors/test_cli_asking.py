"""`toolcaddie chat` and `run` on a terminal ask the person who sits there before a call that may destroy something."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.doors.commandline import CommandLine
from toolcaddie.util.user import user_name

_QUESTION = b"[w]hy > "
_PROMPT = b"you> "
_GONE = b"There is no client_id 977"
_PATIENCE = 3.0
"""Seconds after which a person presses Ctrl-C again."""


class Terminal:
    """A process on a terminal of its own, to which a test types."""

    def __init__(self, end: int, process: subprocess.Popen[bytes]) -> None:
        self._end, self._process = end, process

    def until(self, text: bytes) -> str:
        """Returns what the process prints up to this text. The time limit of the test ends a wait for a text that never comes."""
        shown = b""
        while text not in shown:
            shown += os.read(self._end, 65_536)
        return shown.decode()

    def types(self, line: str) -> None:
        os.write(self._end, f"{line}\n".encode())

    def interrupts_until(self, text: bytes) -> str:
        """Presses Ctrl-C, and returns what the process prints up to this text. As a person would, it presses again if nothing is
        printed for some seconds: a signal between the prompt and the reading of a line is noticed with the next key only."""
        shown = b""
        while not shown:
            self._process.send_signal(signal.SIGINT)
            if select.select([self._end], [], [], _PATIENCE)[0]:
                shown = os.read(self._end, 65_536)
        return shown.decode() + ("" if text in shown else self.until(text))


def _with_ctrl_c() -> None:
    """Lets Ctrl-C reach this process, also where the tests run in the background of a shell, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def terminal(*words: str) -> Iterator[Terminal]:
    """Starts `toolcaddie WORDS` on a terminal, with the gym and the practice model, and ends it."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "toolcaddie", *words, "--catalog", "gym"],
        env={**os.environ, "TERM": "dumb", "COLUMNS": "200"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=_with_ctrl_c,
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        process.kill()
        process.wait(10)
        os.close(ours)


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


@pytest.mark.parametrize("key", ["n", "no"])
def test_a_call_does_not_run_after_a_no(key: str, toolcaddie: CommandLine) -> None:
    with terminal("run", "delete client 977") as person:
        person.until(_QUESTION)
        person.types(key)
        person.until(b"A person did not approve this call")
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
