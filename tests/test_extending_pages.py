"""docs/extending is run as a reader would follow it: each page's files, installed as a package, tested and named in settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcaddie.app.build import assembled
from toolcaddie.app.settings import load_settings
from toolcaddie.doors.channels.setup import stations_of
from toolcaddie.parts import Parts
from toolcaddie.registry import SOCKETS, Registry

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[1] / "docs" / "extending"
BLOCK = re.compile(r"^(?P<above>(?:[^\n]+\n)+)\n```(?:python|toml)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"`([\w-]+\.(?:py|toml))`")
"""The name of a file, in the paragraph above its text."""
PRINTS = re.compile(r"^.*print\(.*  # -> (.*)$", re.MULTILINE)
SUITES = {"provider": "check_all(ACME)", "store": "CHECKS)"}
"""The end of the call that runs the suite of a socket, where the suite is not named like the socket."""

each_socket = pytest.mark.parametrize("socket", list(SOCKETS))


def files_of(socket: str) -> dict[str, str]:
    """The files of a socket's page, by their names."""
    page = (FOLDER / f"{socket}.md").read_text(encoding="utf-8")
    files = {NAME.findall(match["above"])[0]: match["text"] for match in BLOCK.finditer(page)}
    assert len(files) == 5 == len(re.findall(r"^```(?:python|toml)$", page, re.MULTILINE))
    return files


def installed_in(folder: Path, files: dict[str, str]) -> None:
    """Writes the files of a page, and what pip would make of its entry points."""
    for name, text in files.items():
        (folder / name).write_text(text)
    points = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in names.items())
        for group, names in points.items()
    ]
    info = folder / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("".join(lines))


def completed(folder: Path, *arguments: str) -> str:
    """What Python prints with these arguments, in the folder of a page's files."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("TOOLCADDIE_", "OPENAI_"))}
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**environ, "HOME": str(folder), "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@each_socket
def test_the_example_of_a_page_runs_and_prints_what_the_page_says(socket: str, tmp_path: Path) -> None:
    files = files_of(socket)
    installed_in(tmp_path, files)
    (example,) = [name for name in files if name.endswith(".py") and not name.startswith(("acme_", "test_"))]
    output = completed(tmp_path, example)
    for line in PRINTS.findall(files[example]):
        assert line in output, output
    assert output.strip(), "an example shows something"


@each_socket
def test_the_test_of_a_page_runs_the_contract_suite_of_its_socket(socket: str, tmp_path: Path) -> None:
    files = files_of(socket)
    installed_in(tmp_path, files)
    (test,) = [name for name in files if name.startswith("test_")]
    assert SUITES.get(socket, f"{socket.upper()})") in files[test]
    assert "passed" in completed(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", test)


class Recording(Registry):
    """Notes which parts were made."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[tuple[str, str]] = []

    def make(self, socket: str, name: str, config: Any = None, parts: Any = None) -> Any:
        self.parts.append((socket, name))
        return super().make(socket, name, config, parts)


@pytest.fixture
def forgotten_modules() -> Iterator[None]:
    """Forgets the modules that a test imports."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("acme"):
            del sys.modules[name]


@each_socket
async def test_the_settings_of_a_page_make_the_part_of_its_entry_point(
    socket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten_modules: None
) -> None:
    files = files_of(socket)
    installed_in(tmp_path, files)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (name,) = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"][SOCKETS[socket].group]
    registry = Recording()
    settings = load_settings(environ={})
    async with assembled(settings, registry=registry) as parts:
        stations_of(settings, Parts(), registry)  # channels are made where the server is, not with the runtime
        assert parts.provider.name == "echo" if socket == "provider" else (socket, name) in registry.parts


def test_the_first_page_lists_every_socket_and_no_page_is_forgotten() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[[\w ]+\]\((\w+)\.md\) \|", index, re.MULTILINE) == list(SOCKETS)
    assert {page.stem for page in FOLDER.iterdir()} == {*SOCKETS, "README"}
