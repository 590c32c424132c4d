"""docs/requirements.md and the tests say the same: what is listed is proved, what is proved is listed, nothing is forgotten."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "requirements.md"
DEMANDS = ROOT.parent / "shared" / "requirements.md"
"""The demands themselves; they lie beside the repository where it is worked on."""

ID = r"(?:R\d{3}-[A-Z]?\d+|[AX]-\d+)"
ROW = re.compile(rf"^\| ({ID}) \|", re.MULTILINE)
DEMAND = re.compile(rf"^\| ({ID}) \||\*\*({ID})\*\*", re.MULTILINE)
NOT_BUILT = "## Not built yet"


def built() -> list[str]:
    return ROW.findall(PAGE.read_text().partition(NOT_BUILT)[0])


def not_built() -> list[str]:
    return ROW.findall(PAGE.read_text().partition(NOT_BUILT)[2])


def proved() -> set[str]:
    """Ids in `proves` marks of the tests, read from the source so that one process sees them all."""
    ids: set[str] = set()
    for path in ROOT.glob("tests/**/test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("proves"):
                for argument in node.args:
                    ids |= set(ids_of(argument))
    return ids


def ids_of(argument: ast.expr) -> list[str]:
    """A string, or `*(f"R1-{n}" for n in ...)`: our own source, so it may be evaluated."""
    if isinstance(argument, ast.Starred):
        return list(eval(compile(ast.Expression(argument.value), "<mark>", "eval")))
    return [ast.literal_eval(argument)]


def test_every_requirement_listed_as_built_is_proved_by_a_test() -> None:
    assert not sorted(set(built()) - proved())


def test_every_mark_names_a_requirement_that_is_listed_as_built() -> None:
    assert not sorted(proved() - set(built())), "add a line to the first table and take the id out of the second"


def test_every_requirement_stands_in_one_table_once() -> None:
    listed = [*built(), *not_built()]
    assert not sorted({name for name in listed if listed.count(name) > 1})


def test_both_tables_together_are_all_the_demands() -> None:
    if not DEMANDS.exists():
        pytest.skip("the demands are not beside this repository")
    demands = {one or other for one, other in DEMAND.findall(DEMANDS.read_text())}
    assert len(demands) > 300
    assert not sorted(demands ^ {*built(), *not_built()})


def test_every_line_says_what_it_is() -> None:
    rows = re.findall(rf"^\| {ID} \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == len(built()) + len(not_built())
    assert all(len(text) > 10 and text.endswith(".") for text in rows)
