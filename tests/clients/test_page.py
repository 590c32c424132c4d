"""docs/clients.md: its examples run as they stand, and the versions it names are the ones tried."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.programs import AI_SDK, LITELLM, ROOT

PAGE = (ROOT / "docs" / "clients.md").read_text()
_BLOCK = re.compile(r"^```(python client|python litellm|js ai-sdk)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VERSION = re.compile(r"^\| `([^`]+)` \| ([0-9.]+) \|", re.MULTILINE)


def blocks(kind: str) -> list[str]:
    return [code for block_kind, code in _BLOCK.findall(PAGE) if block_kind == kind]


def run(words: list[str | Path], code: str, gym: str, folder: Path) -> str:
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        input=code.replace("http://127.0.0.1:8321/v1", gym),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("code", blocks("python client"), ids=lambda code: code.split()[1])
def test_an_example_gets_the_gyms_work_done(code: str, gym: str, tmp_path: Path) -> None:
    assert "freeze_membership" in run([sys.executable, "-"], code, gym, tmp_path)


def test_the_example_of_litellm_gets_the_gyms_work_done(gym: str, tmp_path: Path) -> None:
    LITELLM.needed()
    (code,) = blocks("python litellm")
    assert "freeze_membership" in run([LITELLM.runner, "-"], code, gym, tmp_path)


def test_the_example_of_the_ai_sdk_gets_the_gyms_work_done(gym: str) -> None:
    AI_SDK.needed()
    (code,) = blocks("js ai-sdk")
    assert "freeze_membership" in run([AI_SDK.runner, "--input-type=module", "-"], code, gym, AI_SDK.script.parent)


def test_the_page_names_the_versions_that_are_tried() -> None:
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    pinned |= json.loads((AI_SDK.script.parent / "package.json").read_text())["dependencies"]
    pinned |= re.findall(r"(litellm)==([0-9.]+)", (ROOT / "Makefile").read_text())
    versions = dict(_VERSION.findall(PAGE))
    assert len(versions) == 10
    assert versions == {name: pinned[name] for name in versions}
