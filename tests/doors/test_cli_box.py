"""`--box` adds shipped tools that act on the world to the catalogs of a command."""

from __future__ import annotations

import pytest

from tests.doors.commandline import CommandLine


def names(toolcaddie: CommandLine, *words: str) -> set[str]:
    return {tool["name"] for tool in toolcaddie.json("tools", *words)["tools"]}


def test_without_the_option_there_is_no_tool_that_acts(toolcaddie: CommandLine) -> None:
    assert not names(toolcaddie, "--catalog", "gym") & {"exec", "file_write", "web_fetch", "create_tool"}


def test_the_option_takes_several_names_and_keeps_the_catalogs(toolcaddie: CommandLine) -> None:
    tools = names(toolcaddie, "--catalog", "gym", "--box", "files,datetime")
    assert {"file_read", "file_write", "file_edit", "get_datetime", "freeze_membership"} <= tools


def test_a_table_of_the_settings_keeps_its_own_settings(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text('[[source]]\ntype = "files"\nread_only = true\n')
    assert names(toolcaddie, "--box", "files") == {"file_read"}


def test_an_option_in_front_of_a_subcommand_counts_too(toolcaddie: CommandLine) -> None:
    assert "timezone" in toolcaddie.ok("tools", "--box", "datetime", "show", "get_datetime")


@pytest.mark.parametrize(
    ("value", "advice"),
    [("file", "the box has no 'file'; did you mean 'files'?"), ("gym", "the box has no 'gym'; there are files, exec")],
)
def test_a_name_that_the_box_does_not_have_is_refused(value: str, advice: str, toolcaddie: CommandLine) -> None:
    assert advice in toolcaddie.refused("tools", "--box", value)


def test_a_question_names_the_box_in_the_command_that_continues(toolcaddie: CommandLine) -> None:
    result = toolcaddie("call", "file_write", "path=a", "content=b", "--box", "files", stdin="")
    assert "--box files" in result.stderr


def test_selections_are_shown_and_explained_with_the_box(toolcaddie: CommandLine) -> None:
    assert toolcaddie.json("select", "read the file notes.txt", "--box", "files")["counts"]["catalog"] == 3
    assert "file_read is in" in toolcaddie.ok("why", "file_read", "read the file notes.txt", "--box", "files")


def test_without_a_catalog_the_advice_names_the_box(toolcaddie: CommandLine) -> None:
    assert "or --box files" in toolcaddie.refused("select", "hello")
