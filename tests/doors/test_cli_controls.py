"""Texts of strangers never reach the operator's terminal as they stand: `H10` of the repairs.

A catalog, messages, calls, results and answers are full of orders to a terminal and of marks that turn the reading order;
every command shows them spelled out, and as JSON gives them back exactly.
"""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
import structlog

from tests.clients.server import definition, many_tools, toolcaddie_serve
from tests.databases import database_url, home_environment
from tests.doors.commandline import CommandLine
from toolcaddie.telemetry.logs import configure_logging
from toolcaddie.testing import ScriptedUpstream, call, calls, say
from toolcaddie.testing.chat import ChatWire
from toolcaddie.util.text import visible, visible_json, visible_line

EVIL = "pwn\x1b]0;t\x07\x1b[2J\x9b31m\r\x08\x7f\u202egnp\u2066x\u2069\u200f\U000e0041end"
NAME = "tool\u202eeman\x1b]52;c;cHdu\x07"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    lines = [
        {
            "name": f"polish_brass_{n}",
            "description": f"Polish {EVIL}",
            "category": f"house {EVIL}",
            "parameters": {"type": "object", "properties": {"id": {"type": "string", "description": EVIL}}},
        }
        for n in range(3)
    ]
    path = tmp_path / "tools.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


class _Lenient(ChatWire):
    """A provider that takes whatever it is sent, as some do."""

    def refusal_of(self, path: str, body: Any) -> None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    run_id: str
    metrics: str


@pytest.fixture
def recorded(tmp_path: Path, toolcaddie: CommandLine) -> Recorded:
    """A run with everything in it: a client's tools with such names, calls of known and unknown ones, words, an inner round."""
    folder = tmp_path / "server"
    folder.mkdir()
    script = [
        calls(("request_more_tools", {"query": EVIL}), (f"unknown {EVIL}", {"x": EVIL}), text=EVIL),
        call(NAME, {"id": EVIL}, text=EVIL),
    ]
    database = database_url(tmp_path / "trail.sqlite")
    with (
        ScriptedUpstream(lambda body: script.pop(0), wire=_Lenient()) as upstream,
        toolcaddie_serve(
            folder, "--upstream", upstream.base_url, "--database-url", database, OPENAI_API_KEY="test-key"
        ) as address,
        openai.OpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0) as client,
    ):
        answer = client.chat.completions.with_raw_response.create(
            model=f"gpt {EVIL}",
            messages=[{"role": "system", "content": EVIL}, {"role": "user", "content": f"call it {EVIL}"}],
            tools=[*many_tools(60), definition(NAME, EVIL)],
            tool_choice={"type": "function", "function": {"name": NAME}},
        )
        with urllib.request.urlopen(f"{address}/metrics") as page:
            metrics = page.read().decode()
        return Recorded(run_id=answer.headers["x-toolcaddie-run"], metrics=metrics)


def shown(toolcaddie: CommandLine, *words: object, stdin: str | None = None) -> str:
    """All that a command prints, on both streams."""
    result = toolcaddie(*words, stdin=stdin)
    return result.stdout + result.stderr


def held(said: str) -> None:
    """Nothing of it is an order, and the stranger's text is there to be seen."""
    assert not FORBIDDEN.search(_STYLE.sub("", said)), FORBIDDEN.findall(said)


OVER_A_CATALOG = [
    ("tools", "--catalog", "CATALOG"),
    ("tools", "--catalog", "CATALOG", "--search", "polish"),
    ("tools", "--catalog", "CATALOG", "--category", EVIL),
    ("tools", "show", "polish_brass_1", "--catalog", "CATALOG"),
    ("tools", "show", EVIL, "--catalog", "CATALOG"),
    ("select", f"polish {EVIL}", "--catalog", "CATALOG"),
    ("select", f"polish {EVIL}", "--catalog", "CATALOG", "--max-tools", "1", "--preset", "keyword"),
    ("why", "polish_brass_1", f"polish {EVIL}", "--catalog", "CATALOG", "--max-tools", "1"),
    ("why", EVIL, "polish", "--catalog", "CATALOG"),
    ("why", "--delivery", f"polish {EVIL}", "--catalog", "CATALOG"),
    ("call", "polish_brass_1", "--catalog", "CATALOG", f"id={EVIL}"),
    ("call", EVIL, "--catalog", "CATALOG"),
    ("run", f"polish {EVIL}", "--catalog", "CATALOG"),
    ("eval", "--catalog", "CATALOG", "--queries", "QUERIES"),
    ("eval", "--catalog", "CATALOG", "--queries", "QUERIES", "--report", "page.html"),
    ("eval", "misses", "--catalog", "CATALOG"),
    ("eval", "usage", "--catalog", "CATALOG"),
    ("keys", "add", f"laptop {EVIL}", "--role", EVIL, "--bot", EVIL),
    ("keys", "list"),
    ("keys", "revoke", EVIL),
    ("trail", EVIL),
    ("plugins",),
    ("run", "hello", "--catalog", EVIL),
    ("run", "hello", "--preset", EVIL),
    (EVIL,),
]


@pytest.mark.parametrize(
    "words", OVER_A_CATALOG, ids=lambda words: " ".join(words[:2]).encode("ascii", "replace").decode()
)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_no_command_shows_a_catalogs_orders_to_a_terminal(
    toolcaddie: CommandLine, catalog: Path, tmp_path: Path, words: tuple[str, ...], as_json: bool
) -> None:
    queries = tmp_path / "queries.jsonl"
    queries.write_text(json.dumps({"query": f"polish {EVIL}", "gold": ["polish_brass_1"]}) + "\n")
    shown(toolcaddie, "keys", "add", f"old {EVIL}")
    places = {"CATALOG": str(catalog), "QUERIES": str(queries)}
    held(shown(toolcaddie, *(places.get(word, word) for word in words), *(["--json"] if as_json else [])))
    if (page := tmp_path / "page.html").exists():
        held(page.read_text())


OVER_A_TRAIL = [
    ("trail",),
    ("trail", "RUN"),
    ("runs",),
    ("runs", "RUN"),
    ("db", "prune", "--older-than", "90d", "--dry-run"),
    ("why", "--run", "RUN"),
    ("why", NAME, "--run", "RUN"),
    ("why", EVIL, "--run", "RUN"),
    ("why", "--delivery", "--run", "RUN"),
    ("eval", "usage"),
    ("eval", "misses"),
    ("eval", "replay", "RUN"),
]


def test_no_command_shows_a_trails_orders_to_a_terminal(
    toolcaddie: CommandLine, recorded: Recorded, tmp_path: Path, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCADDIE_DATABASE_URL", database_url(tmp_path / "trail.sqlite"))
    for words in OVER_A_TRAIL:
        run = [recorded.run_id if word == "RUN" else word for word in words]
        if words[0] == "eval":
            run += ["--catalog", str(catalog)]
        for form in ([], ["--json"]):
            held(shown(toolcaddie, *run, *form))
    told = toolcaddie.ok("trail", recorded.run_id)
    assert visible_line(NAME) in told
    assert "\\x1b]0;t\\x07" in told
    assert visible_line(NAME) in toolcaddie.ok("why", "--run", recorded.run_id)
    assert visible_line(EVIL.replace("\r", " "))[:20] in toolcaddie.ok("trail")


def test_json_gives_back_exactly_what_was_recorded(toolcaddie: CommandLine, catalog: Path) -> None:
    (first, *_) = toolcaddie.json("tools", "--catalog", str(catalog))["tools"]
    assert first["description"] == f"Polish {EVIL}"


@pytest.mark.parametrize("words", [("run", f"polish {EVIL}"), ("chat",)])
def test_an_answer_and_its_calls_are_safe_on_a_terminal_while_they_stream(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Source: H10; on a terminal of its own, where the answer is printed piece by piece beside a spinner."""
    (tmp_path / "brass.py").write_text(
        "from toolcaddie import tool\n@tool\ndef polish_brass(id: str = '') -> str:\n"
        f"    '''Polish.'''\n    return {EVIL!r}\n"
    )
    script = [call("polish_brass", {"id": EVIL}), say(f"done {EVIL} done")]
    with ScriptedUpstream(lambda body: script.pop(0)) as upstream:
        said = _on_terminal(
            tmp_path,
            *words,
            "--catalog",
            "python:brass",
            "--upstream",
            upstream.base_url,
            "--model",
            "gpt-test",
            typed=f"polish\n/why\n/tools\n/why polish_brass\n/{visible('x')}\n/quit\n",
        )
    drawn = re.sub(r"\x1b\[(?:\?25[lh]|2K|1A|[0-9;]*m|\?2004[lh]|[0-9]*G|J|K)|\r", "", said)
    held(drawn)
    assert "done pwn\\x1b]0;t\\x07" in drawn.replace("\n", "")


def _on_terminal(folder: Path, *words: str, typed: str) -> str:
    ours, theirs = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCADDIE_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "toolcaddie", *words],
        cwd=folder,
        env={
            **environ,
            "TERM": "xterm",
            "OPENAI_API_KEY": "test-key",
            "PYTHONPATH": str(folder),
            **home_environment(folder),
        },
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    assert process.stdin is not None
    process.stdin.write(typed)
    process.stdin.close()
    said = b""
    try:
        while part := os.read(ours, 65_536):
            said += part
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert process.wait(30) == 0, said.decode()
    return said.decode()


@pytest.fixture
def terminal_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Log lines as a terminal gets them."""
    root, before = logging.getLogger(), list(logging.getLogger().handlers)
    level = root.level
    yield lambda **form: configure_logging(**form)
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("on_terminal", [True, False])
def test_log_lines_for_people_hold_no_orders_to_a_terminal(
    terminal_logs: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, on_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: on_terminal)
    terminal_logs()
    log = structlog.get_logger("test")
    try:
        raise ValueError(EVIL)
    except ValueError:
        log.exception(f"failed {EVIL}", name=EVIL, names=[EVIL], nested={"a": EVIL})
    logging.getLogger("other").warning("from a library: %s", EVIL)
    said = capsys.readouterr().err
    held(said)
    assert said.count("pwn") >= 6


def test_labels_of_metrics_are_safe_to_show(recorded: Recorded) -> None:
    """The model's name is the client's to choose, and stands in labels."""
    held(recorded.metrics)
    assert "gpt pwn" in recorded.metrics


def test_what_is_spelled_out_can_be_told_from_the_rest() -> None:
    assert visible("a\tb\nc \x1b[0m \x9b \u202e \U000e0041 é 🙂 \ud800") == (
        "a\tb\nc \\x1b[0m \\x9b \\u202e \\U000e0041 é 🙂 \\ud800"
    )
    assert visible_line("two\nlines\there") == "two\\nlines\\there"
    document = json.dumps({"a": EVIL}, ensure_ascii=False)
    assert json.loads(visible_json(document)) == {"a": EVIL}
    assert not FORBIDDEN.search(visible_json(document))
