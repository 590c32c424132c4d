"""Prints figures about the shape of Python packages side by side: sizes, imports, names and docstrings.

python scripts/house.py toolcaddie starlette httpx structlog

Each argument is an importable package or a folder. The figures are not limits; they show where to look.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PARTICIPLES = frozenset(
    ["found", "said", "asked", "known", "kept", "told", "wanted", "given", "sent", "shown", "named", "lent", "chosen"]
)
"""Participles: as the name of a variable, such a word says what happened to a thing and not what the thing is."""
_QUESTION = re.compile(r"(What|How|Where|Who|Whom|Whose|Which|Why|Whether|When)\b")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One parsed file."""

    name: str
    lines: int
    tree: ast.Module


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one package, by label, as they are printed."""

    package: str
    values: dict[str, str]


def modules_of(package: str) -> list[Module]:
    """Parses the files of a package. Raises `SystemExit` if there is no such package or folder."""
    folder = Path(package)
    if not folder.is_dir():
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit(f"there is no package or folder {package!r}; install it, or give the path of a folder")
        folder = Path(spec.submodule_search_locations[0])
    modules = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = ".".join((folder.name, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
        modules.append(Module(name=name, lines=text.count("\n"), tree=ast.parse(text)))
    return modules


def figures_of(package: str) -> Figures:
    """Measures one package."""
    modules = modules_of(package)
    sizes = [module.lines for module in modules if module.lines]
    lines = sum(sizes)
    functions = [node for module in modules for node in ast.walk(module.tree) if isinstance(node, _Function)]
    lengths = [_length(function) for function in functions]
    docstrings = list(_docstrings(modules))
    questions = sum(bool(_QUESTION.match(text)) for text in docstrings)
    names = [name for module in modules for name in _bound_names(module.tree)]
    participles = sum(name.strip("_") in PARTICIPLES for name in names)
    classes = [node for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    return Figures(
        package=package,
        values={
            "files": str(len(modules)),
            "lines": f"{lines:,}",
            "file lines: median / p90 / max": _spread(sizes),
            "function lines: median / p90 / p99 / max": _spread(lengths, tail=True),
            "largest class": str(max(map(_length, classes), default=0)),
            "own imports per module": f"{statistics.mean(map(_own_imports, modules)):.1f}",
            "imports inside functions": str(sum(map(_hidden_imports, modules))),
            "public names per module: median / max": "{:.0f} / {}".format(*_public(modules)),
            "docstrings that begin with a question word": f"{100 * questions / max(1, len(docstrings)):.1f} %",
            "participles as names per 1,000 lines": f"{1_000 * participles / max(1, lines):.1f}",
        },
    )


def table(figures: Sequence[Figures]) -> str:
    """Returns the figures as a Markdown table with one column per package."""
    rows = [["", *(each.package for each in figures)], ["---"] * (len(figures) + 1)]
    rows += [[label, *(each.values[label] for each in figures)] for label in figures[0].values]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _length(node: _Function | ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _spread(values: Sequence[int], *, tail: bool = False) -> str:
    ordered = sorted(values)
    shares = (0.5, 0.9, 0.99) if tail else (0.5, 0.9)
    return " / ".join(str(ordered[int(share * (len(ordered) - 1))]) for share in shares) + f" / {ordered[-1]}"


def _docstrings(modules: Sequence[Module]) -> Iterator[str]:
    """Yields docstrings of modules, classes and functions, and texts below fields and constants."""
    for module in modules:
        for node in ast.walk(module.tree):
            for before, statement in _neighbours(getattr(node, "body", None)):
                value = statement.value if isinstance(statement, ast.Expr) else None
                follows = before is None or isinstance(before, ast.Assign | ast.AnnAssign)
                if follows and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value.strip()


def _neighbours(body: object) -> Iterator[tuple[ast.stmt | None, ast.stmt]]:
    statements = body if isinstance(body, list) else []
    return zip([None, *statements], statements, strict=False)


def _bound_names(tree: ast.Module) -> Iterator[str]:
    """Yields the names of variables, parameters, functions and classes where they are bound."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def _own_imports(module: Module) -> int:
    root = module.name.partition(".")[0]
    targets = {
        node.module
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.module and (node.level or node.module.split(".")[0] == root)
    }
    return len(targets)


def _hidden_imports(module: Module) -> int:
    functions = (node for node in ast.walk(module.tree) if isinstance(node, _Function))
    return sum(isinstance(node, ast.Import | ast.ImportFrom) for each in functions for node in ast.walk(each))


def _public(modules: Sequence[Module]) -> tuple[float, int]:
    counts = [
        sum(
            not node.name.startswith("_")
            for node in module.tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        )
        for module in modules
    ]
    return statistics.median(counts), max(counts)


if __name__ == "__main__":
    print(table([figures_of(package) for package in sys.argv[1:] or ["toolcaddie"]]))
