"""What runs a function tool is recognised again by every process that has the same code, however it was started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = '''
from toolcaddie import tool
from toolcaddie.sources.functions import FunctionSource


@tool
def pay(amount: int) -> str:
    """Pays an amount."""
    return f"paid {amount}"


def main() -> None:
    print(FunctionSource("bank", [pay]).tools()[0].backing)


if __name__ == "__main__":
    main()
'''


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["payments.py"], id="a script"),
        pytest.param(["-m", "payments"], id="a module that is run"),
    ],
)
def test_a_function_is_the_same_whether_its_file_is_run_or_imported(tmp_path: Path, command: list[str]) -> None:
    """A question that one process asked is answered in another, which may import what the first one ran."""
    (tmp_path / "payments.py").write_text(PROGRAM)

    def printed(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    imported = printed("-c", "import payments; payments.main()")

    assert len(imported.strip()) == 64
    assert printed(*command) == imported


def test_a_function_with_other_code_is_another_one(tmp_path: Path) -> None:
    backings = set()
    for text in ("paid", "stolen"):
        (tmp_path / "payments.py").write_text(PROGRAM.replace("paid", text))
        run = subprocess.run([sys.executable, "payments.py"], cwd=tmp_path, check=True, capture_output=True, text=True)
        backings.add(run.stdout)

    assert len(backings) == 2
