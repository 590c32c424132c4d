"""The mutants that `make mutants` draws from."""

from __future__ import annotations

from scripts.mutants import mutants_of

SOURCE = '''
"""What it is."""

Mode = Literal["a", "b"]

def count(items: list[int] | None, *, most: int = 3) -> int:
    """Returns é."""
    log.info("counted", n=1)
    if not items:
        raise ValueError("no items", 1)
    return min("é" < items[0], most)
'''


def test_mutants_are_of_what_runs_and_not_of_what_people_read() -> None:
    changes = {mutant.diff(SOURCE).splitlines()[-1].lstrip("+ ") for mutant in mutants_of(SOURCE, "x.py")}
    assert changes == {
        "def count(items: list[int] | None, *, most: int = (4)) -> int:",
        "if (items):",
        "return None",
        'return min(("é" <= items[0]), most)'.replace('"', "'"),
        'return min(("XXéXX") < items[0], most)'.replace('"', "'"),
        'return min("é" < items[(1)], most)',
    }


def test_a_mutant_says_where_it_is() -> None:
    (mutant,) = [mutant for mutant in mutants_of(SOURCE, "x.py") if mutant.text == "(4)"]
    assert (mutant.file, mutant.line) == ("x.py", 6)
