"""Ctrl-C in the middle of a call: the person learns which run it was, and that nobody knows what the call did."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.databases import home_environment
from tests.doors.commandline import CommandLine
from toolcaddie.testing import ScriptedUpstream, call

_TOOLS = '''
import asyncio, sys

from toolcaddie.sources.functions import tool


@tool
async def pay(to: str) -> str:
    """Pay a person."""
    print("begun", flush=True)
    await asyncio.sleep(60)
    return "paid"
'''
_COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from toolcaddie.doors.cli import main
main()
"""
"""The command line. Tests that run in the background ignore Ctrl-C, and their processes would too."""


def _interrupted(home: Path, *words: str) -> tuple[int, str]:
    """The exit status and stderr of a command that gets Ctrl-C once its tool has begun."""
    (home / "mine.py").write_text(_TOOLS)
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *words, "--catalog", "python:mine", "--approve", "run"],
        cwd=home,
        env={**os.environ, **home_environment(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    return process.returncode, said


def _is_told(toolcaddie: CommandLine, said: str) -> None:
    (unknown,) = toolcaddie.json("runs", "unknown")["calls"]
    (run_id,) = set(re.findall(r"run_[0-9a-f]{32}", said))
    assert (unknown["run_id"], unknown["name"]) == (run_id, "pay")
    assert f"{run_id} was interrupted during pay: whether it took effect is not known" in said
    assert "Traceback" not in said


def test_a_direct_call_that_is_interrupted_names_its_run(toolcaddie: CommandLine) -> None:
    status, said = _interrupted(toolcaddie.home, "call", "pay", "to=ann")
    assert status == 130
    _is_told(toolcaddie, said)


def test_a_run_that_is_interrupted_during_a_call_names_both(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TEST_KEY", "test-key")
    with ScriptedUpstream([call("pay", {"to": "ann"})], api_key=None) as upstream:
        where = ("--upstream", upstream.base_url, "--upstream-key-env", "MY_TEST_KEY", "--model", "gpt-test")
        status, said = _interrupted(toolcaddie.home, "run", "pay ann", *where)
    assert status == 130
    _is_told(toolcaddie, said)
