"""The example of docs/gateway.md, run against the server it speaks of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.doors.processes import PATIENCE, serving

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"


def example(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_with_an_idempotency_key_runs_its_tools_once(tmp_path: Path) -> None:
    with serving(tmp_path, "--catalog", "gym", "--model", "practice") as server:
        done = subprocess.run(
            [sys.executable, "-c", example("python gateway").replace("http://127.0.0.1:8321/v1", server.base_url)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=dict(os.environ),
        )
        curl = example("sh").replace("http://127.0.0.1:8321/v1", server.base_url)
        asked = [subprocess.run(["bash", "-c", curl], capture_output=True, timeout=PATIENCE).stdout for _ in range(2)]
    assert done.stdout == "True\n", done.stderr
    assert b'"role":"assistant"' in asked[0]
    assert asked[0] == asked[1]
