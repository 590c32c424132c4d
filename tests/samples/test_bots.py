"""The sample `bots`: its files load, and its conversations are held over the command line with a scripted model."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.doors.commandline import CommandLine
from tests.doors.processes import serving
from toolcaddie.app.settings import load_settings
from toolcaddie.testing import ScriptedUpstream, call, say

SEVEN = ("exec", "file_write", "file_edit", "phone_call", "improve", "process", "cron")


@pytest.fixture
def toolcaddie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    return CommandLine(tmp_path)


def turns_of(bot: str) -> list[dict[str, Any]]:
    text = files("toolcaddie.samples").joinpath("bots", "conversations", f"{bot}.json").read_text("utf-8")
    turns: list[dict[str, Any]] = json.loads(text)
    return turns


def step(reply: dict[str, Any]) -> Any:
    return call(reply["call"], reply["arguments"]) if "call" in reply else say(reply["say"])


def talk(toolcaddie: CommandLine, bot: str) -> tuple[list[dict[str, Any]], ScriptedUpstream]:
    """Holds the conversation of a bot, and returns its answers."""
    toolcaddie.ok("init", "--sample", "bots")
    turns = turns_of(bot)
    lines = "".join(f"{turn['person']}\n" for turn in turns)
    with ScriptedUpstream([step(reply) for turn in turns for reply in turn["model"]]) as upstream:
        words = ("chat", "--bot", bot, "--upstream", upstream.base_url, "--model", "m", "--approve", "run", "--json")
        printed = toolcaddie.ok(*words, stdin=lines)
    assert not upstream.refusals
    answers = [json.loads(line) for line in printed.splitlines()]
    assert [answer["text"] for answer in answers] == [turn["model"][-1]["say"] for turn in turns]
    return answers, upstream


def test_the_sample_is_written_loads_and_is_not_overwritten(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("init", "--sample", "bots")
    settings = load_settings(environ={})
    assert tuple(settings.bots) == ("assistant", "therapist")
    assert settings.bots["therapist"].disabled_tools == SEVEN
    for bot in settings.bots.values():
        names = {path.name for path in Path(bot.persona or "").iterdir()}
        assert names == {"SOUL.md", "IDENTITY.md", "GOALS.md", "MOTIVATIONS.md"}
    Path("toolcaddie.toml").unlink()
    assert "personas/assistant/GOALS.md already exists" in toolcaddie.refused("init", "--sample", "bots")
    assert not Path("toolcaddie.toml").exists()
    assert len(toolcaddie.json("init", "--sample", "bots", "--force")["files"]) == 9


def test_two_commands_start_it(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("init", "--sample", "bots")
    assert toolcaddie.ok("chat", "--bot", "therapist", stdin="hola\n")


def test_the_assistant_acts_with_its_tools(toolcaddie: CommandLine) -> None:
    _, upstream = talk(toolcaddie, "assistant")
    assert Path("workspace/notas.md").read_text() == "- Viernes: pagar la luz\n"
    assert "Soy Tomás" in json.dumps(upstream.bodies[0], ensure_ascii=False)
    assert "pagar la luz" in json.dumps(upstream.bodies[-1]["messages"][-1], ensure_ascii=False)


@pytest.mark.proves("R002-102")
def test_the_therapist_has_none_of_its_seven_disabled_tools(toolcaddie: CommandLine) -> None:
    _, upstream = talk(toolcaddie, "therapist")
    assert not Path("workspace/privado.md").exists()
    assert "Soy Clara" in json.dumps(upstream.bodies[0], ensure_ascii=False)
    for body in upstream.bodies:
        offered = {definition["function"]["name"] for definition in body.get("tools", ())}
        assert offered.isdisjoint(SEVEN)
        assert "get_datetime" in offered


def test_the_gateway_sends_exactly_the_tools_that_bots_show_names(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("init", "--sample", "bots")
    plugins = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    with (
        ScriptedUpstream([say("a"), say("b")]) as upstream,
        serving(toolcaddie.home, "--upstream", upstream.base_url, **plugins) as server,
    ):
        bots = ("assistant", "therapist")
        for bot in bots:
            asked = [{"role": "user", "content": "hola"}]
            server.client().chat.completions.create(model=f"bot:{bot}", messages=asked)  # type: ignore[arg-type]
        sent = [[each["function"]["name"] for each in body["tools"]] for body in upstream.bodies]
    assert sent == [toolcaddie.json("bots", "show", bot)["tools"]["conversation"] for bot in bots]
    assert set(sent[0]) > set(sent[1])
