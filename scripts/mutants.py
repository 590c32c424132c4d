"""Draws small changes of the code at random and counts those that no test notices (mutation testing).

python scripts/mutants.py [--count 300] [--seed 1] [--folders engine delivery ...] [--tests tests/engine ...] [--json FILE]

A mutant is the code with one such change; it is killed if a test fails. The tests first run once under coverage, which records
the tests that run each line; this map is stored in `.mutants.json` until the code or a test changes. A mutant is then judged only
by the tests of its line, the fastest first, in a copy of the tree; the working tree is never touched. A line that only another
process runs counts as not covered. The exit status is 1 if less than `--at-least` percent of the mutants are killed.

Annotations, docstrings, log lines and error texts are not changed, because they matter only to readers.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[1]
COPIED = (
    "toolcaddie",
    "tests",
    "benchmarks",
    "docs",
    "scripts",
    "security",
    "pyproject.toml",
    "README.md",
    "Makefile",
    "constraints.txt",
)
FOLDERS = ("engine", "delivery", "control", "wires", "evaluation")
CACHE = ROOT / ".mutants.json"
LONGEST = 600.0
"""The largest number of seconds for the tests of one mutant. An endless loop is usually killed much earlier."""
FIRST = 40
"""Number of tests, the fastest ones, that judge a mutant first. They kill most mutants, and collecting hundreds of tests takes
long."""

Verdict = Literal["killed", "timed out", "survived", "not covered"]
_MISSED = ("survived", "not covered")


# ---------------------------------------------------------------- mutants


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A change of a file: the characters from `start` to `end` are replaced by `text`."""

    file: str
    line: int
    last_line: int
    start: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]

    def diff(self, source: str) -> str:
        changed = difflib.unified_diff(source.splitlines(), self.applied(source).splitlines(), lineterm="", n=0)
        return "\n".join(line for line in itertools.islice(changed, 2, None) if not line.startswith("@@"))


_COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_LOGGERS = ("log", "_log")
_IGNORED_NAMES = ("__all__", "T", "S")


def mutants_of(source: str, file: str) -> Iterator[Mutant]:
    """Yields all mutants of a source that are valid Python."""
    offsets = _line_offsets(source)
    for node, changed in _changes(ast.parse(source)):
        start = offsets[node.lineno - 1] + _characters(source, offsets, node.lineno, node.col_offset)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        end = offsets[node.end_lineno - 1] + _characters(source, offsets, node.end_lineno, node.end_col_offset)
        text = ast.unparse(changed)
        mutant = Mutant(
            file=file,
            line=node.lineno,
            last_line=node.end_lineno,
            start=start,
            end=end,
            text=f"({text})" if isinstance(changed, ast.expr) else text,
        )
        if _parses(mutant.applied(source)):
            yield mutant


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr | ast.stmt]]:
    """Yields the nodes below this one, each with its replacement."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_for_readers(child):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                for changed in _changed(child):
                    yield child, changed
            yield from _changes(child)


def _is_for_readers(node: ast.AST) -> bool:
    """Returns True for docstrings, log lines, f-strings, errors with their texts, imports and names of the module."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr() | ast.Raise() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))) if name in _LOGGERS:
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if name in _IGNORED_NAMES:
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp() | ast.Call()) if _is_of_a_type(
            name
        ):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.ClassDef(bases=bases):
            return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in bases)
    return False


def _is_of_a_type(name: str) -> bool:
    """Returns True if a name is written like that of a type. Type aliases have no effect when the code runs."""
    plain = name.lstrip("_")
    return plain[:1].isupper() and not plain.isupper()


def _changed(node: ast.expr | ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    """Yields the replacement of a node in each of its mutants."""
    match node:
        case ast.Compare(ops=[operator, *_]) if type(operator) in _COMPARISONS:
            yield ast.Compare(node.left, [_COMPARISONS[type(operator)](), *node.ops[1:]], node.comparators)
        case ast.BinOp(op=operator) if type(operator) in _OPERATORS:
            yield ast.BinOp(node.left, _OPERATORS[type(operator)](), node.right)
        case ast.BoolOp(op=ast.And()):
            yield ast.BoolOp(ast.Or(), node.values)
        case ast.BoolOp():
            yield ast.BoolOp(ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.IfExp():
            yield ast.IfExp(_negated(node.test), node.body, node.orelse)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str(value)):
            yield ast.Constant(f"XX{value}XX")
        case (
            ast.ListComp(generators=[ast.comprehension(ifs=[test])])
            | ast.GeneratorExp(generators=[ast.comprehension(ifs=[test])])
        ):
            generator = node.generators[0]
            negated = ast.comprehension(generator.target, generator.iter, [_negated(test)], generator.is_async)
            yield type(node)(node.elt, [negated])
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield ast.Pass()
        case ast.Assign(targets=[target], value=value) if not isinstance(value, ast.Constant):
            yield ast.Assign([target], ast.Constant(None), lineno=node.lineno)
        case ast.AugAssign(op=operator) if type(operator) in _OPERATORS:
            yield ast.AugAssign(node.target, _OPERATORS[type(operator)](), node.value)
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _line_offsets(source: str) -> list[int]:
    return [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]


def _characters(source: str, offsets: Sequence[int], line: int, column: int) -> int:
    """Returns the column in characters, because `ast` counts columns in bytes."""
    return len(source[offsets[line - 1] : offsets[line]].encode()[:column].decode())


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


# ---------------------------------------------------------------- which tests run which lines


_PLUGIN = """
import atexit, json, os
import coverage, pytest

cover = coverage.Coverage(source=os.environ["MUTANTS_SOURCES"].split(os.pathsep), data_file=None, config_file=False)
cover.start()
seconds, failed = {}, set()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    cover.switch_context(item.nodeid)
    yield
    cover.switch_context("")


def pytest_runtest_logreport(report):
    seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
    if report.failed:
        failed.add(report.nodeid)


@atexit.register
def save():
    cover.stop()
    data = cover.get_data()
    lines = {file: {str(line): tests for line, tests in data.contexts_by_lineno(file).items()} for file in data.measured_files()}
    with open(os.path.join(os.environ["MUTANTS_OUT"], f"{os.getpid()}.json"), "w") as file:
        json.dump({"lines": lines, "seconds": seconds, "failed": sorted(failed)}, file)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """The tests that run each line, and the seconds that each test takes."""

    lines: Mapping[str, Mapping[str, Sequence[str]]]
    """Tests by file and line. A line that runs only at import has no tests."""
    seconds: Mapping[str, float]

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Returns the tests of a mutant, the fastest first; for a line that runs at import, all tests of its file."""
        lines = self.lines.get(mutant.file, {})
        tests = {test for line in range(mutant.line, mutant.last_line + 1) for test in lines.get(str(line), ()) if test}
        if not tests and any(str(line) in lines for line in range(mutant.line, mutant.last_line + 1)):
            tests = {test for of_line in lines.values() for test in of_line if test}
        return sorted(tests, key=lambda test: (self.seconds.get(test, 0.0), test))


def recorded_map(tree: Path, folders: Sequence[str], tests: Sequence[str], jobs: int) -> Map:
    """Returns the map of the tests, from the cache if nothing has changed since."""
    digest = _digest(folders, tests)
    with suppress(OSError, ValueError, KeyError):
        cached = json.loads(CACHE.read_text())
        if cached["digest"] == digest:
            return Map(lines=cached["lines"], seconds=cached["seconds"])
    print("recording the tests of each line: this takes as long as all the tests", flush=True)
    recorded = _record(tree, folders, tests, jobs)
    CACHE.write_text(json.dumps({"digest": digest, **asdict(recorded)}))
    return recorded


def _record(tree: Path, folders: Sequence[str], tests: Sequence[str], jobs: int) -> Map:
    """Runs the tests once under coverage in a copy of the tree, and returns the map. Tests that fail are not used."""
    with tempfile.TemporaryDirectory(prefix="mutants-map-") as out:
        (tree / "mutants_plugin.py").write_text(_PLUGIN)
        environment = _environment(tree) | {
            "MUTANTS_OUT": out,
            "MUTANTS_SOURCES": os.pathsep.join(str(tree / "toolcaddie" / folder) for folder in folders),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants_plugin", *tests]
        done = subprocess.run([*command, *(["-n", str(jobs)] if jobs > 1 else [])], cwd=tree, env=environment)
        if done.returncode not in (0, 1):
            sys.exit(f"the tests cannot be run: pytest ended with {done.returncode}")
        lines: dict[str, dict[str, set[str]]] = {}
        seconds: dict[str, float] = {}
        failed: set[str] = set()
        for part in (json.loads(file.read_text()) for file in Path(out).iterdir()):
            seconds |= part["seconds"]
            failed.update(part["failed"])
            for file, of_file in part["lines"].items():
                for line, contexts in of_file.items():
                    lines.setdefault(str(Path(file).relative_to(tree)), {}).setdefault(line, set()).update(contexts)
    if failed:
        print(f"{len(failed)} tests fail on the unchanged code and are not used: {', '.join(sorted(failed)[:5])}")
    plain = {file: {line: sorted(contexts - failed) for line, contexts in of.items()} for file, of in lines.items()}
    return Map(lines=plain, seconds=seconds)


def _digest(folders: Sequence[str], tests: Sequence[str]) -> str:
    digest = hashlib.sha256(repr((sorted(folders), sorted(tests))).encode())
    for name in ("toolcaddie", "tests"):
        for file in sorted((ROOT / name).rglob("*.py")):
            digest.update(str(file).encode() + file.read_bytes())
    return digest.hexdigest()


# ---------------------------------------------------------------- judging


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A mutant with the verdict of its tests, their number, and the seconds that they took."""

    mutant: Mutant
    verdict: Verdict
    tests: int
    seconds: float


class Judge:
    """Runs the tests of mutants. Each worker has a copy of the tree of its own."""

    def __init__(self, trees: Sequence[Path], tests: Map) -> None:
        self._free = list(trees)
        self._tests = tests
        self._lock = threading.Lock()
        self._clock = itertools.count(int(time.time()) + 1)

    def __call__(self, mutant: Mutant) -> Judged:
        with self._lock:
            tree = self._free.pop()
        started = time.monotonic()
        try:
            tests = self._tests.tests_of(mutant)
            verdict = self._verdict(tree, mutant, tests)
        finally:
            with self._lock:
                self._free.append(tree)
        return Judged(mutant=mutant, verdict=verdict, tests=len(tests), seconds=round(time.monotonic() - started, 1))

    def _verdict(self, tree: Path, mutant: Mutant, tests: Sequence[str]) -> Verdict:
        """Makes the change in a copy of the tree, runs the tests, and restores the file."""
        if not tests:
            return "not covered"
        file = tree / mutant.file
        source, status = file.read_text(), file.stat()
        file.write_text(mutant.applied(source))
        # Python recognises an outdated compiled file by whole seconds, so each version gets a second of its own.
        with self._lock:
            moment = next(self._clock)
        os.utime(file, (moment, moment))
        try:
            for some in (tests[:FIRST], tests[FIRST:]):
                if some and (verdict := self._run(tree, some)) != "survived":
                    return verdict
        finally:
            file.write_text(source)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        return "survived"

    def _run(self, tree: Path, tests: Sequence[str]) -> Verdict:
        """Runs tests until one fails. The time limit is five times their usual time plus 30 seconds, at most `LONGEST`."""
        usual = sum(self._tests.seconds.get(test, 1.0) for test in tests)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
            names.write("\n".join(tests))
            names.flush()
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"@{names.name}"]
            process = subprocess.Popen(
                command,
                cwd=tree,
                env=_environment(tree) | {"PYTHONDONTWRITEBYTECODE": "1"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                status = process.wait(timeout=min(LONGEST, 30.0 + 5 * usual))
            except subprocess.TimeoutExpired:
                return "timed out"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return "survived" if status == 0 else "killed"


def _environment(tree: Path) -> dict[str, str]:
    """Returns an environment in which processes started by tests import the copy too."""
    return {**os.environ, "PYTHONPATH": str(tree)}


def copied_tree(to: Path) -> Path:
    """Copies everything that tests need into the folder `to`, and returns that folder."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy2(source, to / name)
    return to


# ---------------------------------------------------------------- the command


def main() -> int:
    options = _options()
    candidates = [
        mutant
        for folder in sorted(options.folders)
        for file in sorted((ROOT / "toolcaddie" / folder).rglob("*.py"))
        for mutant in mutants_of(file.read_text(), str(file.relative_to(ROOT)))
    ]
    drawn = random.Random(options.seed).sample(candidates, min(options.count, len(candidates)))
    print(f"{len(drawn)} of {len(candidates)} mutants, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        first = copied_tree(Path(folder) / "0")
        tests = recorded_map(first, options.folders, options.tests, options.jobs)
        trees = [first]
        for number in range(1, options.jobs):
            trees.append(Path(folder) / str(number))
            shutil.copytree(first, trees[-1])
        judged = _judged(Judge(trees, tests), drawn, options.jobs)
    return _report(judged, options)


def _judged(judge: Judge, drawn: Sequence[Mutant], jobs: int) -> list[Judged]:
    judged: list[Judged] = []
    started = time.monotonic()
    with ThreadPoolExecutor(jobs) as workers:
        for number, each in enumerate(workers.map(judge, drawn), start=1):
            judged.append(each)
            rest = (time.monotonic() - started) / number * (len(drawn) - number) / 60
            print(
                f"{number}/{len(drawn)} {each.verdict:11} {each.mutant.file}:{each.mutant.line} "
                f"({each.tests} tests, {each.seconds:.0f} s; {rest:.0f} min to go)",
                flush=True,
            )
            if each.verdict in _MISSED:
                print(each.mutant.diff((ROOT / each.mutant.file).read_text()), flush=True)
    return judged


def _report(judged: Sequence[Judged], options: argparse.Namespace) -> int:
    killed = sum(each.verdict not in _MISSED for each in judged)
    share = 100 * killed / len(judged) if judged else 100.0
    print(f"\n{killed} of {len(judged)} killed: {share:.1f} %")
    if options.json:
        Path(options.json).write_text(json.dumps([_row(each) for each in judged], indent=1))
    return 0 if share >= options.at_least else 1


def _row(judged: Judged) -> dict[str, object]:
    mutant = judged.mutant
    diff = mutant.diff((ROOT / mutant.file).read_text())
    row = {"file": mutant.file, "line": mutant.line, "verdict": judged.verdict, "diff": diff}
    return {**row, "tests": judged.tests, "seconds": judged.seconds}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--folders", nargs="+", default=list(FOLDERS), metavar="FOLDER", help="folders of toolcaddie/ to change"
    )
    parser.add_argument("--tests", nargs="+", default=["tests"], metavar="PATH", help="the tests that judge")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--at-least", type=float, default=0.0, metavar="PERCENT")
    parser.add_argument("--json", metavar="FILE", help="also write every mutant with its verdict to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
