"""Clients that need an environment of their own: each is a program that plays one scenario and prints what it saw as JSON."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A client's program, and what runs it."""

    runner: Path | str
    script: Path
    installed: Path
    """There once the client is installed."""

    def __call__(self, scenario: str, base_url: str) -> Any:
        """Returns the output of the client. The test is skipped if the client is not installed."""
        self.needed()
        done = subprocess.run(
            [self.runner, self.script, scenario, base_url],
            cwd=self.script.parent,
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},  # it would fetch a table at every start
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def needed(self) -> None:
        """Skips the test where the client is not installed."""
        if not self.installed.exists():
            pytest.skip(f"{self.installed.relative_to(ROOT)} is not there; `make clients` installs it")


_LITELLM = ROOT / ".venv-litellm-client"
_AI_SDK = Path(__file__).parent / "ai_sdk"

LITELLM = Program(
    runner=_LITELLM / "bin" / "python",
    script=Path(__file__).parent / "litellm_program.py",
    installed=_LITELLM / ".installed",
)
AI_SDK = Program(runner="node", script=_AI_SDK / "program.mjs", installed=_AI_SDK / "node_modules" / "ai")
