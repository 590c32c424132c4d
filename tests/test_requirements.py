"""docs/requirements.md and the tests say the same: what is listed is proved, what is proved is listed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| ([ARX][0-9]*-[A-Z]?[0-9]+) \|", re.MULTILINE)


def listed() -> list[str]:
    return ROW.findall((ROOT / "docs" / "requirements.md").read_text())


def proved() -> set[str]:
    """Ids in `proves` marks of the tests, read from the source so that one process sees them all."""
    found: set[str] = set()
    for path in ROOT.glob("tests/**/test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("proves"):
                for argument in node.args:
                    found |= set(ids_of(argument))
    return found


def ids_of(argument: ast.expr) -> list[str]:
    """A string, or `*(f"R1-{n}" for n in ...)`: our own source, so it may be evaluated."""
    if isinstance(argument, ast.Starred):
        return list(eval(compile(ast.Expression(argument.value), "<mark>", "eval")))
    return [ast.literal_eval(argument)]


def test_every_requirement_listed_as_built_is_proved_by_a_test() -> None:
    assert not sorted(set(listed()) - proved())


def test_every_mark_names_a_requirement_that_is_listed() -> None:
    assert not sorted(proved() - set(listed()))


def test_no_requirement_is_listed_twice() -> None:
    assert len(listed()) == len(set(listed()))
