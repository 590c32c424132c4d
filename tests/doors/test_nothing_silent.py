"""Nothing falls back in silence: what is configured and cannot be used is an error at start or said with the answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from tests.doors.commandline import CommandLine

ASKED = "figures of area 7"


def settings(toolcaddie: CommandLine, text: str = "") -> None:
    """Tools enough that some must be left out."""
    tools = [{"name": "form_x", "description": "Form X.", "parameters": {"type": "object"}}]
    tools += [{"name": f"report_{n}", "description": f"Area {n}.", "parameters": {"type": "object"}} for n in range(60)]
    tools = [{**each, "read_only": True} for each in tools]
    (toolcaddie.home / "tools.jsonl").write_text("\n".join(json.dumps(tool) for tool in tools))
    (toolcaddie.home / "toolcaddie.toml").write_text(f'catalogs = ["tools.jsonl"]\n{text}\n')


COMMANDS = [
    ("run", ASKED),
    ("chat",),
    ("serve", "--port", "0"),
    ("select", ASKED),
    ("why", "report_7", ASKED),
    ("why", "--delivery", ASKED),
    ("call", "report_7"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
@pytest.mark.parametrize(
    ("content", "said"), [(None, "No such file"), ('{"query": "x"}', "line 1"), ("nonsense", "line 1")]
)
def test_a_log_to_learn_from_that_cannot_be_read_is_refused_by_its_key(
    toolcaddie: CommandLine, words: tuple[str, ...], content: str | None, said: str
) -> None:
    settings(toolcaddie, "[learning]\nenabled = true\nlog = 'past.jsonl'")
    if content is not None:
        (toolcaddie.home / "past.jsonl").write_text(content)
    told = toolcaddie.refused(*words)
    assert "learning.log: past.jsonl" in told
    assert said in told


def test_a_log_of_learning_that_is_off_is_not_looked_for(toolcaddie: CommandLine) -> None:
    settings(toolcaddie, "[learning]\nlog = 'past.jsonl'")
    assert toolcaddie.json("select", ASKED)["tools"]


def past(home: Path) -> None:
    lines = [
        {"query": f"{verb} my {thing}", "gold": ["form_x"]}
        for verb in ("freeze", "pause", "interrupt", "end")
        for thing in ("abo", "pass", "card", "plan", "ticket", "season", "fees", "contract", "gym", "club")
    ]
    (home / "past.jsonl").write_text("\n".join(map(json.dumps, lines)))


def test_select_and_why_find_by_what_was_learned(toolcaddie: CommandLine) -> None:
    settings(toolcaddie)
    past(toolcaddie.home)
    without = toolcaddie.json("select", "interrupt my abo please")
    assert not any("called after" in reason for tool in without["tools"] for reason in tool["reasons"])
    settings(toolcaddie, "[learning]\nenabled = true\nlog = 'past.jsonl'")
    best = toolcaddie.json("select", "interrupt my abo please")["tools"][0]
    assert best["name"] == "form_x"
    assert any("called after" in reason for reason in best["reasons"])
    explained = toolcaddie.json("why", "form_x", "interrupt my abo please")
    assert explained["signals"]["learned"] > 0
    assert not list(toolcaddie.home.glob("*.sqlite*")), "a command that only looks makes no database"


def test_select_learns_from_recorded_runs_too(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "desk.py").write_text(
        "from toolcaddie import tool\n"
        + "".join(f"@tool\ndef thing_{n}() -> str:\n    '''Thing {n}.'''\n    return 'ok'\n" for n in range(40))
    )
    toml = 'catalogs = ["python:desk"]\n[learning]\nenabled = true\n'
    (toolcaddie.home / "toolcaddie.toml").write_text(toml)
    toolcaddie.ok("run", "please use thing 7")
    found = toolcaddie("select", "please use thing 7")
    assert found.exit_code == 0, found.stderr


@pytest.fixture
def dead(httpserver: HTTPServer) -> str:
    httpserver.expect_request("/v1/embeddings").respond_with_data("the model is gone", 500)
    return httpserver.url_for("/v1")


@pytest.mark.parametrize("words", [("select", ASKED), ("run", ASKED)], ids=["select", "run"])
def test_a_dead_endpoint_is_said_with_the_answer(toolcaddie: CommandLine, dead: str, words: tuple[str, ...]) -> None:
    settings(toolcaddie, f"[embedding]\nembedder = 'endpoint'\nurl = '{dead}'\nmodel = 'm'")
    plain = toolcaddie(*words)
    assert plain.exit_code == 0, plain.stderr
    assert re.search(r"the embedder .*m.* failed \(.+\); words alone find the tools", plain.stderr)
    (sentence,) = toolcaddie.json(*words)["degraded"]
    assert "words alone find the tools" in sentence


def test_why_says_it_too(toolcaddie: CommandLine, dead: str) -> None:
    settings(toolcaddie, f"[embedding]\nembedder = 'endpoint'\nurl = '{dead}'\nmodel = 'm'")
    for words in (("why", "report_7", ASKED), ("why", "--delivery", ASKED)):
        done = toolcaddie(*words)
        assert done.exit_code == 0, done.stderr
        assert "words alone find the tools" in done.stderr


def test_where_everything_works_nothing_is_said(toolcaddie: CommandLine) -> None:
    settings(toolcaddie)
    assert toolcaddie.json("select", ASKED)["degraded"] == []
    assert toolcaddie("select", ASKED).stderr == ""


def test_a_classifier_that_is_not_asked_is_said(toolcaddie: CommandLine) -> None:
    settings(toolcaddie, "preset = 'budget'\n[classifier]\nmodel = 'gpt-5-mini'")
    assert "the classifier is not asked here" in toolcaddie("select", ASKED).stderr
    settings(toolcaddie, "[classifier]\nmodel = 'gpt-5-mini'")
    assert "the classifier is never asked by preset 'default'" in toolcaddie("run", ASKED).stderr
