"""`toolcaddie bots`: who the bots are, what each may use, and a new one."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.doors.commandline import CommandLine
from toolcaddie.app.settings import load_settings

SETTINGS = """
default_bot = "desk"
model = "practice"

[[source]]
type = "datetime"

[[source]]
type = "files"
base_path = "work"

[[source]]
type = "gym"

[bots.desk]
description = "Answers at the front desk."
categories = ["clients"]
groups = ["datetime"]
disabled_tools = ["delete_client"]

[bots.desk.budget]
requests = 3

[bots.boss]
model = "practice"

[bots.boss.modes.autonomous]
disabled_tools = ["file_write"]
groups = ["files"]
"""


@pytest.fixture
def house(toolcaddie: CommandLine) -> CommandLine:
    Path("toolcaddie.toml").write_text(SETTINGS)
    return toolcaddie


def test_the_list_has_every_bot_with_its_tools_in_each_mode(house: CommandLine) -> None:
    told = house.json("bots", "list")
    desk, boss = told["bots"]
    assert (desk["name"], desk["description"], desk["groups"]) == ("desk", "Answers at the front desk.", ["datetime"])
    assert "delete_client" not in desk["tools"]["conversation"]
    assert "file_write" in boss["tools"]["conversation"]
    assert "file_write" not in boss["tools"]["autonomous"]
    assert "Answers at the front desk." in house.ok("bots", "list")


def test_a_bot_is_shown_with_the_setting_that_removes_each_missing_tool_and_its_budget(house: CommandLine) -> None:
    house.ok("run", "hello", "--bot", "desk")
    told = house.json("bots", "show", "desk")
    missing = told["missing"]["conversation"]
    assert missing["delete_client"] == "bots.desk.disabled_tools"
    assert missing["file_read"] == "bots.desk.groups"
    assert missing["freeze_membership"] == "bots.desk.categories"
    assert told["budget"] == [{"counted": "requests", "limit": 3.0, "used": 1.0}]
    autonomous = house.json("bots", "show", "boss")["missing"]["autonomous"]
    assert autonomous["file_write"] == "bots.boss.modes.autonomous.disabled_tools"
    assert autonomous["get_datetime"] == "bots.boss.modes.autonomous.groups"
    shown = house.ok("bots", "show", "desk")
    assert "requests today: 1 of 3" in shown
    assert "without delete_client (bots.desk.disabled_tools)" in shown
    assert "autonomous: as in conversation" in shown
    assert shown.count("(bots.desk.categories)") == 1, "tools that one setting removes share a line"
    boss = house.ok("bots", "show", "boss")
    assert "no budget" in boss
    assert "autonomous: as in conversation" not in boss
    assert "there is no bot 'bos'; did you mean 'boss'?" in house.refused("bots", "show", "bos")


def test_the_day_budget_holds_on_the_command_line(house: CommandLine) -> None:
    for _ in range(3):
        house.ok("run", "hello", "--bot", "desk")
    told = house("run", "hello", "--bot", "desk")
    assert told.exit_code == 1
    assert "The bot 'desk' has used its budget for today: 3 requests" in told.stderr


def test_a_new_bot_is_added_behind_what_is_there(house: CommandLine) -> None:
    told = house("bots", "new", "librarian", "--language", "es")
    assert told.exit_code == 0
    assert Path("toolcaddie.toml").read_text().startswith(SETTINGS)
    bot = load_settings(environ={}).bots["librarian"]
    assert (bot.persona, bot.language) == ("personas/librarian", "es")
    assert "Soy librarian." in Path("personas/librarian/SOUL.md").read_text()
    assert {path.name for path in Path("personas/librarian").iterdir()} == {
        *("SOUL.md", "IDENTITY.md", "GOALS.md", "MOTIVATIONS.md")
    }
    before = Path("toolcaddie.toml").read_text()
    assert "already has the bot 'librarian'" in house.refused("bots", "new", "librarian")
    assert "is not a name for a bot" in house.refused("bots", "new", "../up")
    assert Path("toolcaddie.toml").read_text() == before


def test_the_first_bot_makes_a_file_and_says_that_requests_must_name_it(toolcaddie: CommandLine) -> None:
    Path("personas/a").mkdir(parents=True)
    Path("personas/a/SOUL.md").write_text("mine")
    assert 'set default_bot = "a"' in toolcaddie("bots", "new", "a").stderr
    assert tomllib.loads(Path("toolcaddie.toml").read_text())["bots"]["a"]["persona"] == "personas/a"
    assert Path("personas/a/SOUL.md").read_text() == "mine"


def test_personas_are_beside_the_settings_file_and_not_in_the_current_folder(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, elsewhere = Path("place").resolve(), Path("elsewhere")
    place.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for name, settings in (("ann", place / "toolcaddie.toml"), ("ben", Path("../place/other.toml"))):
        settings.touch()
        toolcaddie.ok("--config", settings, "bots", "new", name)
        assert tomllib.loads(settings.read_text())["bots"][name]["persona"] == f"personas/{name}"
        assert f"I am {name}." in toolcaddie.ok("--config", settings, "persona", "show", name, "SOUL.md")
        assert (place / "personas" / name / "SOUL.md").exists()
    assert not Path("personas").exists()


def test_a_file_that_cannot_get_a_table_is_left_as_it_is(toolcaddie: CommandLine) -> None:
    Path("toolcaddie.toml").write_text("bots = {}\n")
    assert "cannot get a table [bots.a], so nothing was added" in toolcaddie.refused("bots", "new", "a")
    assert Path("toolcaddie.toml").read_text() == "bots = {}\n"


def test_bots_without_tools_are_listed_with_advice(toolcaddie: CommandLine) -> None:
    toolcaddie("bots", "new", "a")
    told = toolcaddie("bots", "list")
    assert told.exit_code == 0
    assert "practice" in told.stdout
    assert 'such as [[source]] with type = "persona"' in told.stderr
    assert "conversation: no tools" in toolcaddie.ok("bots", "show", "a")
    assert "there is no bot 'zoe'; `toolcaddie bots list` shows the bots" in toolcaddie.refused("bots", "show", "zoe")


def test_a_chat_shows_only_the_tools_of_its_bot_before_the_first_message(house: CommandLine) -> None:
    shown = house("chat", "--bot", "desk", stdin="/tools\n").stdout
    assert "create_client" in shown
    assert "delete_client" not in shown


def test_a_question_names_the_bot_that_asks(house: CommandLine) -> None:
    house("call", "file_write", "path=a.txt", "content=x", "--bot", "boss")
    (question,) = house.json("approvals", "list")["approvals"]
    assert "bot          boss" in house.ok("approvals", "show", question["id"])
