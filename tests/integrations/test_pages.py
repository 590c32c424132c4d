"""The pages of the integrations: with 500 tools, each framework finishes a task that needs two of them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import BLOCK, RUNNER, environment

PAGES = Path(__file__).parents[2] / "docs" / "integrations"
FRAMEWORKS = ("langchain", "pydantic-ai", "openai-agents", "openai", "anthropic")


@pytest.mark.parametrize("page", FRAMEWORKS)
def test_a_list_of_tools_only_grows_and_a_search_brings_the_missing_tool(page: str, tmp_path: Path) -> None:
    (code,) = [
        match["code"] for match in BLOCK.finditer((PAGES / f"{page}.md").read_text()) if match["kind"] == "python"
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        input=code,
    )
    assert done.returncode == 0, done.stderr
    lists = [ast.literal_eval(line) for line in done.stdout.splitlines() if line.startswith("[")]
    first, second, third, fourth = lists
    assert len(first) == 6
    assert "cancel_north_shipment" in first
    assert first == second
    assert "archive_west_invoice" not in second
    assert third[: len(second)] == second
    assert "archive_west_invoice" in third
    assert third == fourth


@pytest.mark.parametrize(
    ("module", "framework", "package"),
    [
        ("langchain", "langchain", "langchain"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai-slim"),
        ("openai_agents", "agents", "openai-agents"),
        ("openai", "openai", "openai"),
        ("anthropic", "anthropic", "anthropic"),
    ],
    ids=FRAMEWORKS,
)
def test_a_framework_that_is_not_installed_is_named_with_its_package(module: str, framework: str, package: str) -> None:
    code = f"import sys; sys.modules[{framework!r}] = None; import toolcaddie.integrations.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert (
        f"ConfigError: this integration needs the package '{package}'; install it with: pip install {package}"
        in done.stderr
    )


def test_importing_toolcaddie_imports_no_framework() -> None:
    code = (
        "import sys, toolcaddie, toolcaddie.picker\n"
        "print([name for name in ('langchain', 'pydantic_ai', 'agents', 'openai', 'anthropic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"
