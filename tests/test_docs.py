"""README and docs are run: their Python as it stands, their commands as a reader would type them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.databases import home_environment
from tests.free_port import free_port
from toolcaddie.core.presets import PRESETS
from toolcaddie.doors.cli.root import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
SEVERAL_FILES = {page for page in PAGES if page.parent.name == "extending" and page.name != "README.md"}
"""Pages whose Python is several files of one folder: `test_extending.py` runs them."""
BLOCK = re.compile(r"^```(?P<kind>python|python gateway|sh)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTS = re.compile(r"^.*print\(.*  # -> (.*)$", re.MULTILINE)
"""The output of a line of Python as its page quotes it."""
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
BIN = Path(sys.executable).parent
RUNNER = """
import ast, asyncio, inspect, sys
code = compile(sys.stdin.read(), "<page>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
async def main():
    value = eval(code, {"__name__": "__main__"})
    if inspect.isawaitable(value):
        await value
if code.co_flags & inspect.CO_COROUTINE:
    asyncio.run(main())
else:
    exec(code, {"__name__": "__main__"})
"""
"""Runs a page's Python as `python -m asyncio` would: `await` may stand at the top level."""


def blocks(kind: str) -> list[object]:
    params: list[object] = []
    for page in PAGES:
        if page in SEVERAL_FILES:
            continue
        for number, match in enumerate(BLOCK.finditer(page.read_text())):
            if match["kind"] == kind:
                params.append(pytest.param(match["code"], id=f"{page.stem}-{number}"))
    return params


def commands() -> list[object]:
    """The lines of each `sh` block that start with our command, without the comments behind them."""
    params = []
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text()):
            lines = match["code"].splitlines() if match["kind"] == "sh" else ()
            block = [shlex.split(line, comments=True) for line in lines if line.startswith("toolcaddie ")]
            block = [words for words in block if words[1] not in ("serve", "chat")]
            if block:
                params.append(pytest.param(block, id=f"{page.stem}: {' '.join(block[0])}"))
    return params


def environment(folder: Path) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("TOOLCADDIE_", "OPENAI_"))}
    return {**ours, "PATH": f"{BIN}:{ours['PATH']}", "HOME": str(folder), **home_environment(folder)}


@pytest.mark.parametrize("code", blocks("python"))
def test_the_python_of_the_docs_runs(code: str, tmp_path: Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", RUNNER],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        input=code,
    )
    assert completed.returncode == 0, completed.stderr
    for printed in PRINTS.findall(code):
        assert printed in completed.stdout, completed.stdout


@pytest.mark.parametrize("block", commands())
def test_the_commands_of_the_docs_run_one_after_the_other(block: list[list[str]], tmp_path: Path) -> None:
    for words in block:
        completed = subprocess.run(
            words, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=60, input=""
        )
        assert completed.returncode == 0, f"{shlex.join(words)}: {completed.stderr}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """`toolcaddie serve --catalog gym` as README's `make run` starts it, on a free port."""
    port = free_port()
    process = subprocess.Popen(
        [BIN / "toolcaddie", "serve", "--catalog", "gym", "--port", str(port)],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert f"127.0.0.1:{port}" in process.stdout.readline()
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_the_clients_of_readme_get_the_gyms_work_done(server: str, tmp_path: Path) -> None:
    """Source: the issue's first line, the main job on the real server with the unmodified openai package and curl."""
    text = (ROOT / "README.md").read_text()
    (python,) = [match["code"] for match in BLOCK.finditer(text) if match["kind"] == "python gateway"]
    (shell,) = [match["code"] for match in BLOCK.finditer(text) if match["code"].startswith("curl")]
    completed = subprocess.run(
        [sys.executable, "-c", python.replace("127.0.0.1:8321", server)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert completed.returncode == 0, completed.stderr
    assert "practice model" in completed.stdout
    assert "freeze_membership" in completed.stdout
    answer = subprocess.run(
        ["bash", "-c", shell.replace("127.0.0.1:8321", server)], capture_output=True, text=True, timeout=60
    )
    assert '"role":"assistant"' in answer.stdout
    trail = subprocess.run(
        [BIN / "toolcaddie", "trail"], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True
    )
    assert trail.stdout.count("run_") == 3


def _commands(group: click.Group) -> Iterator[str]:
    """Every command as it is typed, those of groups too: `eval costs`."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield name
        if isinstance(command, click.Group):
            yield from (f"{name} {inner}" for inner in _commands(command))


def test_every_command_and_preset_is_documented() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    for name in _commands(cli):
        assert f"toolcaddie {name}" in page, name
    presets = (ROOT / "docs" / "presets.md").read_text()
    for name in PRESETS:
        assert f"`{name}`" in presets


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in LINK.findall(page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_readme_is_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
