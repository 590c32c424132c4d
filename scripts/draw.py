"""Draws functions or sentences of the package at random, to judge how readable they are.

python scripts/draw.py functions 20 --seed 1
python scripts/draw.py sentences 50 --seed 1

Sentences come from pages of the documentation, docstrings and error messages. The same seed draws the same sentences from the
same code.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*])(?=(?:[^`]*`[^`]*`)*[^`]*\Z)")
"""End of a sentence: a full stop, exclamation mark or question mark before a capital letter, a backtick or an asterisk, unless it
is between backticks."""
_SHORT = 25
"""Number of characters below which a text counts as a label and not as a sentence."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions() -> list[str]:
    """Returns the source of each function of the package, with its file and line."""
    texts = []
    for path in sorted((ROOT / "toolcaddie").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, _Function):
                body = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
                texts.append(f"{path.relative_to(ROOT)}:{node.lineno}\n{textwrap.indent(body, '    ')}")
    return texts


def sentences() -> list[str]:
    """Returns the sentences of pages, docstrings and error messages, each with its place."""
    return [*_of_pages(), *_of_code()]


def _of_pages() -> Iterator[str]:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]:
        prose = _FENCE.sub("", path.read_text(encoding="utf-8"))
        for paragraph in re.split(r"\n\s*\n|\n(?=[-|#])", prose):
            yield from _sentences(paragraph, str(path.relative_to(ROOT)))


def _of_code() -> Iterator[str]:
    for path in sorted((ROOT / "toolcaddie").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield from _sentences(node.value.value, place)
            elif isinstance(node, ast.Raise) and node.exc is not None:
                for argument in getattr(node.exc, "args", ()):
                    if isinstance(argument, ast.Constant | ast.JoinedStr):
                        yield from _sentences(ast.unparse(argument), place)


def _sentences(text: str, place: str) -> Iterator[str]:
    for sentence in _END.split(" ".join(text.split())):
        if len(sentence) >= _SHORT and " " in sentence and not sentence.startswith("|"):
            yield f"{place}\n    {sentence}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("functions", "sentences"))
    parser.add_argument("number", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    texts = functions() if options.kind == "functions" else sentences()
    drawn = random.Random(options.seed).sample(texts, min(options.number, len(texts)))
    print("\n\n".join(drawn))


if __name__ == "__main__":
    main()
