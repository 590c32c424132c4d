"""`toolcaddie run`, `chat`, `call` and `trail`: answers, what is shown on the way, and what is recorded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.databases import database_url, home_environment
from tests.doors.commandline import CommandLine
from toolcaddie.testing import ScriptedUpstream, call, paced, refuse, say

FREEZE = "freeze John's membership"

KEY = "MY_TEST_KEY"

_PATIENCE = 30
_LEADER = """
import fcntl, signal, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.default_int_handler)
from toolcaddie.doors.cli import main
main()
"""
"""Takes the terminal as its own, so that Ctrl-C typed there is a signal, then is the command line. Tests that run in the
background ignore that signal, and their processes would too."""


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(KEY, "test-key")
    return KEY


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that fails is not asked again: the pauses are for tests of their own."""
    monkeypatch.setenv("TOOLCADDIE_UPSTREAM_ATTEMPTS", "1")


def _at(upstream: ScriptedUpstream) -> tuple[str, ...]:
    return ("--upstream", upstream.base_url, "--upstream-key-env", KEY, "--model", "gpt-test")


def _events(toolcaddie: CommandLine, run_id: str = "last") -> dict[str, Any]:
    """Kind -> data of the last event of that kind."""
    return {event["kind"]: event["data"] for event in toolcaddie.json("trail", run_id)["events"]}


def test_run_gets_the_work_done_with_the_practice_model(toolcaddie: CommandLine) -> None:
    """Standard output is the answer and nothing else; the calls are told on stderr as they happen."""
    done = toolcaddie("run", FREEZE, "--catalog", "gym")
    assert done.exit_code == 0
    assert "practice model" in done.stdout
    assert "freeze_membership" in done.stdout
    assert done.stdout.count("\n") == 1
    told = done.stderr.splitlines()
    assert told[0].startswith("32 of 137 tools selected")
    assert told[1].startswith("get_clients_list ")
    assert told[2].startswith("freeze_membership ")
    assert "ok" in told[2]


def test_run_with_json_prints_the_answer_the_calls_and_the_counts(toolcaddie: CommandLine) -> None:
    done = toolcaddie("run", FREEZE, "--catalog", "gym", "--json")
    told = json.loads(done.stdout)
    assert done.stderr == ""
    assert told["status"] == "completed"
    assert told["run_id"].startswith("run_")
    assert [call["name"] for call in told["tool_calls"]] == ["get_clients_list", "freeze_membership"]
    assert isinstance(told["tool_calls"][1]["arguments"]["client_id"], int)
    assert all(call["success"] for call in told["tool_calls"])
    assert told["selection"]["counts"] == {"catalog": 137, "selected": 32, "sent": 36}
    assert told["usage"]["input_tokens"] > 0


def test_run_asks_the_upstream_that_was_named_with_the_key_of_the_variable(toolcaddie: CommandLine, key: str) -> None:
    script = [call("get_attendance_today"), say("Fourteen people came.")]
    with ScriptedUpstream(script) as upstream:
        done = toolcaddie("run", "who came today", "--catalog", "gym", *_at(upstream))
    assert done.stdout == "Fourteen people came.\n"
    assert "get_attendance_today {} → ok" in done.stderr
    first = upstream.bodies[0]
    assert first["model"] == "gpt-test"
    assert len(first["tools"]) <= 128
    assert upstream.requests[0].headers["authorization"] == "Bearer test-key"


def test_without_a_catalog_run_is_plain_talk(toolcaddie: CommandLine, key: str) -> None:
    with ScriptedUpstream([say("Hello.")]) as upstream:
        assert toolcaddie.ok("run", "hello", *_at(upstream)) == "Hello.\n"
    assert "tools" not in upstream.bodies[0]


def test_a_failure_of_the_provider_is_exit_code_1_one_line_and_a_failed_run(
    toolcaddie: CommandLine, key: str, once: None
) -> None:
    with ScriptedUpstream([refuse(500, "the model fell over")] * 5) as upstream:
        done = toolcaddie("run", "hello", "--catalog", "gym", *_at(upstream), "--json")
    error = json.loads(done.stderr)["error"]
    assert done.exit_code == 1
    assert done.stdout == ""
    assert error["kind"] == "ProviderUnavailableError"
    assert "toolcaddie trail run_" in error["message"]
    assert _events(toolcaddie)["run_failed"]["status"] == "failed"


def test_a_refused_key_is_told_with_what_to_do_and_never_shown(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "sk-wrong-wrong-wrong")
    with ScriptedUpstream([]) as upstream:
        done = toolcaddie("run", "hello", *_at(upstream))
    assert done.exit_code == 1
    assert "--upstream-key-env" in done.stderr
    assert "sk-wrong" not in done.stdout + done.stderr


def test_a_real_upstream_needs_a_model_by_name(toolcaddie: CommandLine, key: str) -> None:
    line = toolcaddie.refused("run", "hello", "--upstream", "http://127.0.0.1:9/v1", "--upstream-key-env", KEY)
    assert "--model" in line


def test_the_trail_shows_selection_calls_and_results(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("run", FREEZE, "--catalog", "gym")
    runs = toolcaddie.json("trail")["runs"]
    assert [(run["message"], run["status"], run["calls"]) for run in runs] == [(FREEZE, "completed", 2)]
    events = _events(toolcaddie, runs[0]["run_id"])
    assert "freeze_membership" in [tool["name"] for tool in events["tools_selected"]["tools"]]
    assert events["call_finished"]["name"] == "freeze_membership"
    assert "frozen" in events["call_finished"]["content"]
    told = toolcaddie.ok("trail", "last")
    for word in ("32 of 137", "get_clients_list", "allow freeze_membership", "freeze_membership in", "completed"):
        assert word in told
    assert FREEZE in toolcaddie.ok("trail")


def test_an_empty_trail_says_how_to_fill_it(toolcaddie: CommandLine) -> None:
    told = toolcaddie("trail")
    assert told.exit_code == 0
    assert "toolcaddie run" in told.stderr
    assert toolcaddie.json("trail") == {"runs": []}
    assert "no run is recorded yet; `toolcaddie run" in toolcaddie.refused("trail", "last")


def test_why_of_a_recorded_run_reads_the_trail(toolcaddie: CommandLine) -> None:
    much = f"{FREEZE}, and list all clients, classes, payments and products with their statistics"
    toolcaddie.ok("run", much, "--catalog", "gym")
    chosen = toolcaddie.json("why", "freeze_membership", "--run", "last")
    lost = toolcaddie.json("why", "create_client", "--run", "last")
    never = toolcaddie.json("why", "create_diet", "--run", "last", "--catalog", "gym")
    assert chosen["chosen"]
    assert any("freeze" in reason for reason in chosen["reasons"])
    assert (lost["chosen"], lost["stage"]) == (False, "max_tools")
    assert (never["chosen"], never["stage"]) == (False, "not listed")
    assert "freeze_membership" in toolcaddie.ok("why", "--run", "last")
    assert toolcaddie.ok("why", "freeze_membership", "--run", "last").startswith("freeze_membership was in: selected")
    assert "not both" in toolcaddie.refused("why", "a", "b", "--run", "last")
    assert "neither the run nor the catalog" in toolcaddie.refused("why", "diet", "--run", "last", "--catalog", "gym")
    assert "Add --catalog SPEC" in toolcaddie.refused("why", "create_diet", "--run", "last")


def test_a_tool_that_joined_during_the_run_is_told_so(toolcaddie: CommandLine, key: str) -> None:
    script = [call("request_more_tools", {"query": "create a diet plan"}), say("Now I could.")]
    with ScriptedUpstream(script) as upstream:
        done = toolcaddie("run", FREEZE, "--catalog", "gym", *_at(upstream))
    assert "request_more_tools" in done.stderr
    assert "added" in done.stderr
    found = toolcaddie.json("why", "create_diet", "--run", "last")
    assert (found["chosen"], found["stage"]) == (True, "added")


def test_chat_keeps_the_conversation_from_line_to_line(toolcaddie: CommandLine, key: str) -> None:
    script = [call("get_clients_list", {"search": "John"}), say("John Smith."), say("Yes, he is frozen.")]
    with ScriptedUpstream(script) as upstream:
        said = toolcaddie.ok("chat", "--catalog", "gym", *_at(upstream), stdin="who is John?\n\nis he frozen?\n/quit\n")
    assert said == "John Smith.\nYes, he is frozen.\n"
    roles = [message["role"] for message in upstream.bodies[2]["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    first, last = ([tool["function"]["name"] for tool in upstream.bodies[index]["tools"]] for index in (0, 2))
    assert last[: len(first)] == first, "what the conversation was sent stays where it was"


def test_chat_tells_which_tools_were_called_and_why_they_were_there(toolcaddie: CommandLine) -> None:
    done = toolcaddie("chat", "--catalog", "gym", stdin=f"/why\n{FREEZE}\n/why create_diet\n/why\n/tools\n/what\n")
    assert done.exit_code == 0
    assert "nothing was selected yet" in done.stderr
    assert "freeze_membership {" in done.stderr
    assert "no command /what" in done.stderr
    assert "create_diet is out: no_match" in done.stdout
    assert "category memberships: 'membership'" in done.stdout
    assert "get_clients_list, get_client_details" in done.stdout


def test_chat_can_start_over(toolcaddie: CommandLine, key: str) -> None:
    with ScriptedUpstream([say("One."), say("Two.")]) as upstream:
        toolcaddie.ok("chat", *_at(upstream), stdin="first\n/new\nsecond\n")
    assert [message["content"] for message in upstream.bodies[1]["messages"]] == ["second"]


def test_chat_with_json_is_one_line_an_answer_and_goes_on_after_a_failure(toolcaddie: CommandLine, key: str) -> None:
    script = [say("One."), refuse(400, "too long", kind="invalid_request_error"), say("Three.")]
    with ScriptedUpstream(script) as upstream:
        done = toolcaddie("chat", "--json", *_at(upstream), stdin="first\nsecond\nthird\n")
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == ["One.", "Three."]
    assert json.loads(done.stderr)["error"]["kind"] == "ProviderRejectedError"
    assert done.exit_code == 1
    asked = [message["content"] for message in upstream.bodies[2]["messages"]]
    assert asked == ["first", "One.", "third"], "the message that failed is not part of the conversation"


def test_chat_on_a_terminal_prompts_and_streams_the_answer(toolcaddie: CommandLine) -> None:
    with _terminal("chat", "--catalog", "gym", home=toolcaddie.home) as terminal:
        terminal.type_after("you> ", "who came today\n")
        terminal.type_after("I called get_attendance_today", "")
        terminal.type_after("you> ", "/quit\n")
        assert terminal.process.wait(_PATIENCE) == 0
    assert "practice model: rules, offline" in terminal.seen
    assert "get_attendance_today {} → ok" in terminal.seen


def test_an_interrupted_run_ends_with_130_and_is_recorded_as_failed(toolcaddie: CommandLine) -> None:
    """The upstream says two events of its answer, and would never say the rest."""
    stuck = paced(say("A long story begins here."), asyncio.Semaphore(2))
    with (
        ScriptedUpstream([stuck]) as upstream,
        _terminal("run", "hello", *_at(upstream), home=toolcaddie.home, environ={KEY: "test-key"}) as terminal,
    ):
        terminal.type_after("A long", "\x03")
        assert terminal.process.wait(_PATIENCE) == 130
    assert "Traceback" not in terminal.seen
    assert [run["status"] for run in toolcaddie.json("trail")["runs"]] == ["failed"]


class _Terminal:
    """A process that believes it talks to a person."""

    def __init__(self, process: subprocess.Popen[bytes], end: int) -> None:
        self.process = process
        self.seen = ""
        self._end = end
        self._read_to = 0

    def type_after(self, awaited: str, text: str) -> None:
        """Type once `awaited` has come up, after what was awaited before."""
        while (at := self.seen.find(awaited, self._read_to)) < 0:
            ready, _, _ = select.select([self._end], [], [], _PATIENCE)
            assert ready, f"{awaited!r} never came: {self.seen}"
            try:
                self.seen += os.read(self._end, 65_536).decode("utf-8", "replace")
            except OSError as error:
                raise AssertionError(self.seen) from error
        self._read_to = at + len(awaited)
        os.write(self._end, text.encode())


@contextlib.contextmanager
def _terminal(*words: str, home: Path, environ: Mapping[str, str] | None = None) -> Iterator[_Terminal]:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _LEADER, *words],
        cwd=home,
        env={**os.environ, "TERM": "xterm", **home_environment(home), **(environ or {})},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield _Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_call_runs_one_tool_and_records_it(toolcaddie: CommandLine) -> None:
    by_words = toolcaddie.json("call", "get_clients_list", "search=John", "limit=1", "--catalog", "gym")
    by_json = toolcaddie.json(
        "call", "get_clients_list", "--args", '{"search": "John", "limit": 1}', "--catalog", "gym"
    )
    assert by_words == by_json
    assert by_words["success"]
    assert by_words["structured"]["clients"][0]["name"].startswith("John")
    assert "John" in toolcaddie.ok("call", "get_clients_list", "search=John", "--catalog", "gym")
    events = _events(toolcaddie)
    assert events["call_decided"]["verdict"] == "allow"
    assert events["call_finished"]["name"] == "get_clients_list"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["get_clients_list", "limit=many"], 2, "limit"),
        (["get_clients_list", "--args", "{"], 2, "not JSON"),
        (["get_clients_list", "--args", "[]"], 2, "write an object"),
        (["get_clients_list", "John"], 2, "write KEY=VALUE"),
        (["get_client_list"], 2, "get_clients_list"),
        (["freeze_membership", "client_id=1"], 1, "1"),
    ],
)
def test_a_call_that_fails_says_whose_fault_it_was_by_its_exit_code(
    words: list[str], code: int, told: str, toolcaddie: CommandLine
) -> None:
    done = toolcaddie("call", *words, "--catalog", "gym")
    assert done.exit_code == code
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert told in done.stderr


@pytest.mark.parametrize("words", [["get_client_list"], ["get_clients_list", "limit=many"]])
def test_a_call_used_wrongly_is_an_error_in_json_and_names_where_the_schema_is_shown(
    words: list[str], toolcaddie: CommandLine
) -> None:
    error = json.loads(toolcaddie.refused("call", *words, "--catalog", "gym", "--json"))["error"]
    line = toolcaddie.refused("call", *words, "--catalog", "gym")
    assert error["kind"] == "RequestError"
    assert line == f"error: {error['message']}\n"
    assert "get_clients_list" in line
    assert "additionalProperties" not in line


@pytest.mark.parametrize(
    ("policy", "name", "named"),
    [
        ('deny = ["delete_*"]', "delete_client", "update_client"),
        ('deny = ["delete_*"]', "delete_clint", "update_client"),
        ("defaults = false", "get_gym_info", "`toolcaddie tools` lists all tools"),
    ],
)
def test_a_call_of_a_hidden_tool_is_answered_with_the_names_of_visible_ones_only(
    policy: str, name: str, named: str, toolcaddie: CommandLine
) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text(f'catalogs = ["gym"]\n[policy]\n{policy}\n')
    _, _, advice = toolcaddie.refused("call", name, "client_id=10883").partition(f"no tool {name!r}; ")
    assert named in advice
    assert "delete_" not in advice
    assert "get_gym_info" not in advice


def test_the_command_that_a_wrong_call_is_told_to_type_shows_the_schema(toolcaddie: CommandLine) -> None:
    line = toolcaddie.refused("call", "convert_currency", "amount=20", "--catalog", "gym")
    _, *words = shlex.split(line.split("`")[1])
    assert "from_currency" in toolcaddie.ok(*words)


def test_a_tool_that_fails_is_a_result_in_json(toolcaddie: CommandLine) -> None:
    done = toolcaddie("call", "freeze_membership", "client_id=1", "--catalog", "gym", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["error"] == "failed"


def test_a_tool_of_ones_own_folder_can_be_called(toolcaddie: CommandLine) -> None:
    Path("sums_of_mine.py").write_text(
        "from toolcaddie.sources.functions import tool\n\n\n"
        "@tool\ndef add(a: int, b: int = 1) -> int:\n    '''Add two numbers.'''\n    return a + b\n"
    )
    assert toolcaddie.ok("call", "add", "a=41", "--catalog", "python:sums_of_mine") == "42\n"


def test_runs_of_two_databases_do_not_meet(toolcaddie: CommandLine) -> None:
    other = database_url(toolcaddie.home / "other.sqlite")
    toolcaddie.ok("run", FREEZE, "--catalog", "gym", "--database-url", other)
    assert toolcaddie.json("trail") == {"runs": []}
    assert len(toolcaddie.json("trail", "--database-url", other)["runs"]) == 1


def test_the_log_shows_where_a_tool_raised_without_the_values_there(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys and what people wrote stand in local variables; the log is no place for them."""
    monkeypatch.setenv("TOOLCADDIE_LOG_LEVEL", "debug")
    Path("raising.py").write_text(
        "from toolcaddie.sources.functions import tool\n\n\n"
        "@tool\ndef leak(name: str) -> str:\n"
        "    '''Raise.'''\n    token = 'hidden' + name\n    raise RuntimeError('no luck')\n"
    )
    done = toolcaddie("call", "leak", "name=John", "--catalog", "python:raising")
    assert done.exit_code == 1
    assert "no luck" in done.stderr
    assert "raising.py" in done.stderr
    assert "hiddenJohn" not in done.stderr


def test_run_tells_what_the_first_stage_said_and_counts_its_tokens(
    toolcaddie: CommandLine, key: str, tmp_path: Path
) -> None:
    config = tmp_path / "first-stage.toml"
    config.write_text('preset = "budget"\n[classifier]\nmodel = "small"\n')
    answers = [say('{"categories": ["memberships"]}'), say("Frozen."), say("I do not know."), say("Hm.")]
    with ScriptedUpstream(answers) as upstream:
        asked = ("--config", str(config), "run", "John is ill", "--catalog", "gym", *_at(upstream))
        done = toolcaddie(*asked)
        assert done.stderr.splitlines()[0] == "categories: memberships (small)"
        usage = _events(toolcaddie)["run_finished"]["usage"]
        assert (usage["input"], usage["output"]) == (200, 20)
        done = toolcaddie(*asked)
        assert done.exit_code == 0
        assert done.stderr.splitlines()[0].startswith("the classifier could not say: ")
        assert [body["model"] for body in upstream.bodies] == ["small", "gpt-test", "small", "gpt-test"]


def test_run_takes_the_number_of_tools_to_select(toolcaddie: CommandLine) -> None:
    done = toolcaddie.json("run", FREEZE, "--catalog", "gym", "--max-tools", "5")
    most = toolcaddie.json("run", FREEZE, "--catalog", "gym")
    core = most["selection"]["counts"]["selected"] - 24
    assert done["selection"]["counts"]["selected"] == core + 5
