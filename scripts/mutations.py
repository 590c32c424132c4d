"""Changes numbers and texts of the product one by one and checks that a test fails each time.

python scripts/mutations.py [--only N] [--start N] [--list]

It works on a copy of the tree in a temporary folder. Every mutation names the tests that should notice it, so that each takes
only seconds; these tests first run once on the unchanged copy. The exit status is 1 if a mutation survives (its tests pass), and
2 if one cannot be made.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("toolcaddie", "tests", "benchmarks", "docs", "scripts", "pyproject.toml", "README.md", "Makefile")

PASSED, FAILED = 0, 1

BOUGHT = "tests/requirements/test_source000.py"
WINDOW = "tests/requirements/test_source001.py"
FORCED = "tests/requirements/test_source003.py"
DIFFERENCES = "tests/requirements/test_differences.py"
NUMBERS = "tests/requirements/test_numbers.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A change of `text`, which occurs exactly once in `file`, to `other`."""

    file: str
    text: str
    other: str
    tests: str
    """A file of tests."""
    keyword: str = ""
    """Value of pytest's option `-k`; empty: all tests of the file."""


def _presets(text: str, other: str, tests: str, keyword: str = "") -> Mutation:
    return Mutation(file="toolcaddie/core/presets.py", text=text, other=other, tests=tests, keyword=keyword)


def _run(text: str, other: str, tests: str, keyword: str = "") -> Mutation:
    return Mutation(file="toolcaddie/core/run.py", text=text, other=other, tests=tests, keyword=keyword)


def _budget(text: str, other: str, tests: str, keyword: str = "") -> Mutation:
    return Mutation(file="toolcaddie/core/selection.py", text=text, other=other, tests=tests, keyword=keyword)


def _settings(text: str, other: str) -> Mutation:
    page = "page_of_settings"
    return Mutation(file="toolcaddie/app/settings/model.py", text=text, other=other, tests=NUMBERS, keyword=page)


def _timeout(wire: str) -> Mutation:
    text, other = "timeout: float = 600.0", "timeout: float = 60.0"
    return Mutation(
        file="toolcaddie/providers/client.py", text=text, other=other, tests=NUMBERS, keyword=f"ten and {wire}"
    )


MUTATIONS: tuple[Mutation, ...] = (
    # Mutations that survived once.
    _presets("window: Positive = 8\n", "window: Positive = 6\n", WINDOW, "eighth_message"),
    _presets("window_user: Positive = 4\n", "window_user: Positive = 3\n", WINDOW, "fourth_message"),
    _presets("limits=Limits(rounds=10,", "limits=Limits(rounds=9,", DIFFERENCES, "limit_of_rounds and keyword"),
    Mutation(
        file="toolcaddie/engine/requests.py",
        text="No more tools can be called. Answer now with what you have found out so far.",
        other="No more tools can be called.",
        tests=DIFFERENCES,
        keyword="last_round_is_told",
    ),
    _timeout("chat"),
    # Windows and limits the other way, and by one.
    _presets("window: Positive = 8\n", "window: Positive = 9\n", WINDOW, "eighth_message"),
    _presets("window_user: Positive = 4\n", "window_user: Positive = 5\n", WINDOW, "fourth_message"),
    _presets("limits=Limits(rounds=10,", "limits=Limits(rounds=11,", DIFFERENCES, "limit_of_rounds and keyword"),
    _presets("_EXACT_LIMITS = Limits(rounds=5,", "_EXACT_LIMITS = Limits(rounds=4,", DIFFERENCES, "limit_of_rounds"),
    _presets("limits=Limits(rounds=None, calls=75,", "limits=Limits(rounds=None, calls=74,", NUMBERS, "75_calls"),
    _run("rounds: OneToTen | None = 5\n", "rounds: OneToTen | None = 6\n", DIFFERENCES, "limit_of_rounds and default"),
    _run("calls: Positive | None = 75\n", "calls: Positive | None = 76\n", NUMBERS, "75_calls"),
    _run("forced_attempts: Positive = 3\n", "forced_attempts: Positive = 2\n", DIFFERENCES, "three_attempts"),
    _run(
        "seconds: Seconds | None = 300.0\n",
        "seconds: Seconds | None = 30.0\n",
        "tests/app/test_settings.py",
        "shows_the_def",
    ),
    _run("tool_seconds: Seconds = 30.0\n", "tool_seconds: Seconds = 29.0\n", NUMBERS, "30_seconds"),
    _run("tool_retries: UpToTen = 0\n", "tool_retries: UpToTen = 1\n", NUMBERS, "30_seconds"),
    _run("result_bytes: Positive = 100_000\n", "result_bytes: Positive = 99_999\n", NUMBERS, "100_000_bytes"),
    _run("repeats_warn: TwoOrMore | None = 3\n", "repeats_warn: TwoOrMore | None = 4\n", NUMBERS, "same_call"),
    _run("repeats_stop: TwoOrMore | None = 5\n", "repeats_stop: TwoOrMore | None = 6\n", NUMBERS, "same_call"),
    # Budgets.
    _presets(
        'budget=Budget(max_tools=8, provider_cap=128, policy="proportional"',
        'budget=Budget(max_tools=9, provider_cap=128, policy="proportional"',
        BOUGHT,
        "single_category",
    ),
    _presets(
        'budget=Budget(max_tools=8, provider_cap=128, policy="proportional"',
        'budget=Budget(max_tools=8, provider_cap=127, policy="proportional"',
        NUMBERS,
        "expansions_of_budget",
    ),
    _presets(
        "_EVERYTHING = Budget(max_tools=None, provider_cap=128,",
        "_EVERYTHING = Budget(max_tools=None, provider_cap=127,",
        NUMBERS,
        "sends_everything",
    ),
    _budget("max_tools: Count | None = 24\n", "max_tools: Count | None = 25\n", NUMBERS, "24_tools"),
    _budget("provider_cap: Positive | None = 128\n", "provider_cap: Positive | None = 127\n", NUMBERS, "quarter"),
    _budget("reserve_tools: Count = 16\n", "reserve_tools: Count = 15\n", NUMBERS, "quarter"),
    _budget("reserve_tokens: PartialShare = 0.25\n", "reserve_tokens: PartialShare = 0.3\n", NUMBERS, "quarter"),
    Mutation(
        file="toolcaddie/selection/allot.py",
        text="MIN_QUOTA = 2\n",
        other="MIN_QUOTA = 1\n",
        tests=DIFFERENCES,
        keyword="least_quota",
    ),
    Mutation(
        file="toolcaddie/selection/rankers/categories.py",
        text="RELATED = 0.5\n",
        other="RELATED = 0.4\n",
        tests=NUMBERS,
        keyword="related_category",
    ),
    Mutation(
        file="toolcaddie/selection/selector.py",
        text="DROPPED_LISTED = 32\n",
        other="DROPPED_LISTED = 31\n",
        tests=NUMBERS,
        keyword="left_out_are_listed",
    ),
    # Other settings of presets.
    _presets(
        'rankers=("categories",), match="substring", whole_if_it_fits=False',
        'rankers=("categories",), whole_if_it_fits=False',
        NUMBERS,
        "anywhere_in_a_word",
    ),
    _presets(
        'rankers=("categories",), match="substring", whole_if_it_fits=False',
        'rankers=("categories",), match="substring"',
        NUMBERS,
        "size_of_a_catalog",
    ),
    _presets(
        'rankers=("categories",), related_depth=0, on_no_match="none", classify="always"',
        'rankers=("categories",), related_depth=1, on_no_match="none", classify="always"',
        NUMBERS,
        "no_related",
    ),
    _presets(
        'rankers=("categories",), related_depth=0, on_no_match="none", classify="always"',
        'rankers=("categories",), related_depth=0, on_no_match="core", classify="always"',
        DIFFERENCES,
        "hello_gives",
    ),
    _presets(
        'rankers=("categories",), related_depth=0, on_no_match="none", classify="always"',
        'rankers=("categories",), related_depth=0, on_no_match="none", classify="needed"',
        DIFFERENCES,
        "picked",
    ),
    _presets('batch="concurrent",\n', 'batch="sequential",\n', DIFFERENCES, "runs_the_calls_of_a_turn_together"),
    _presets('force=True,\n            cache="everything",\n', "force=True,\n", NUMBERS, "whose_results"),
    # Texts that a model reads.
    Mutation(
        file="toolcaddie/engine/requests.py",
        text="You see only the tools that seem to fit this request. More exist",
        other="More tools exist",
        tests=NUMBERS,
        keyword="capability_note",
    ),
    Mutation(
        file="toolcaddie/engine/rounds.py",
        text="I could not finish this within the allowed number of steps.",
        other="I could not finish this.",
        tests=NUMBERS,
        keyword="nothing_was_said",
    ),
    Mutation(
        file="toolcaddie/engine/calls.py",
        text="times in a row. Change something, or answer.)",
        other="times in a row.)",
        tests=NUMBERS,
        keyword="same_call",
    ),
    Mutation(
        file="toolcaddie/core/bounds.py",
        text="calls_run: Size = 256\n",
        other="calls_run: Size = 255\n",
        tests="tests/engine/test_strangers.py",
        keyword="thousand_calls",
    ),
    Mutation(
        file="toolcaddie/meta/request_more_tools.py",
        text=" You can call them now.",
        other="",
        tests=NUMBERS,
        keyword="expansion_answers",
    ),
    Mutation(
        file="toolcaddie/meta/request_more_tools.py",
        text=": all that fits is loaded already, or nothing fits.",
        other=".",
        tests=NUMBERS,
        keyword="expansion_answers",
    ),
    Mutation(
        file="toolcaddie/meta/request_more_tools.py",
        text='f"Available categories: {listing}."',
        other='f"Categories: {listing}."',
        tests=BOUGHT,
        keyword="lists_every_category",
    ),
    Mutation(
        file="toolcaddie/core/meta_names.py",
        text="PAGE_SIZE = 50\n",
        other="PAGE_SIZE = 49\n",
        tests="tests/engine/test_compact.py",
        keyword="two_pages",
    ),
    Mutation(
        file="toolcaddie/providers/forced_attempts.py",
        text='Do not answer from general knowledge, and do not only say "',
        other='Do not only say "',
        tests=NUMBERS,
        keyword="forced_attempt_says",
    ),
    # Asking a model.
    _timeout("messages"),
    _timeout("gemini"),
    _timeout("responses"),
    Mutation(
        file="toolcaddie/providers/retry.py",
        text="attempts: int = 3,",
        other="attempts: int = 4,",
        tests=NUMBERS,
        keyword="retrying_provider",
    ),
    Mutation(
        file="toolcaddie/providers/retry.py",
        text="first_wait: float = 0.5,",
        other="first_wait: float = 0.4,",
        tests=NUMBERS,
        keyword="retrying_provider",
    ),
    Mutation(
        file="toolcaddie/providers/retry.py",
        text="longest_wait: float = 30.0,",
        other="longest_wait: float = 20.0,",
        tests=NUMBERS,
        keyword="retrying_provider",
    ),
    Mutation(
        file="toolcaddie/providers/retry.py",
        text="_JITTER = 0.3\n",
        other="_JITTER = 0.2\n",
        tests=NUMBERS,
        keyword="retrying_provider",
    ),
    Mutation(
        file="toolcaddie/providers/forced.py",
        text="attempts: int = 3,",
        other="attempts: int = 2,",
        tests=NUMBERS,
        keyword="three_attempts_by_itself",
    ),
    Mutation(
        file="toolcaddie/providers/forced.py",
        text='then="fallback"',
        other='then="retry"',
        tests=FORCED,
        keyword="log_says_in_order",
    ),
    # Caches and retries.
    Mutation(
        file="toolcaddie/control/results/cache.py",
        text="DEFAULT_TTL = 300.0\n",
        other="DEFAULT_TTL = 299.0\n",
        tests=NUMBERS,
        keyword="five_minutes and preset",
    ),
    Mutation(
        file="toolcaddie/core/tool_config.py",
        text="ttl=300.0 if ttl is None",
        other="ttl=299.0 if ttl is None",
        tests=NUMBERS,
        keyword="five_minutes and tool_config",
    ),
    Mutation(
        file="toolcaddie/core/tool_config.py",
        text='table.count("maxSize", 100, least=1)',
        other='table.count("maxSize", 99, least=1)',
        tests=NUMBERS,
        keyword="agents_configuration",
    ),
    Mutation(
        file="toolcaddie/core/tool_config.py",
        text='table.count("maxRetries", 3, least=0)',
        other='table.count("maxRetries", 2, least=0)',
        tests=NUMBERS,
        keyword="agents_configuration",
    ),
    Mutation(
        file="toolcaddie/core/tool_config.py",
        text="_MANY_RETRIES = 10\n",
        other="_MANY_RETRIES = 11\n",
        tests=NUMBERS,
        keyword="agents_configuration",
    ),
    Mutation(
        file="toolcaddie/control/results/retry.py",
        text="LONGEST_WAIT = 5.0\n",
        other="LONGEST_WAIT = 4.0\n",
        tests="tests/control/results/test_retry.py",
        keyword="waits_double",
    ),
    # Settings.
    _settings("timeout: Seconds = 10.0\n", "timeout: Seconds = 9.0\n"),
    _settings("most: Annotated[int, Meta(ge=1)] = 5\n", "most: Annotated[int, Meta(ge=1)] = 4\n"),
    _settings("patience: Seconds = 1.0\n", "patience: Seconds = 2.0\n"),
    Mutation(
        file="toolcaddie/core/learning.py",
        text="keep_days: Seconds | None = 90.0\n",
        other="keep_days: Seconds | None = 30.0\n",
        tests=NUMBERS,
        keyword="page_of_settings",
    ),
    _settings("from_trail: Count = 5_000\n", "from_trail: Count = 500\n"),
)


class UnmakeableError(Exception):
    """A mutation cannot be made: its text is missing or occurs more than once, or its tests do not run."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", type=int, metavar="N", help="only the mutation with this number")
    parser.add_argument(
        "--start", type=int, default=1, metavar="N", help="the mutation with this number and all later ones"
    )
    parser.add_argument("--list", action="store_true", help="list the mutations and change nothing")
    options = parser.parse_args()
    numbered = [
        (n, each) for n, each in enumerate(MUTATIONS, start=1) if options.only in (None, n) and n >= options.start
    ]
    if not numbered:
        parser.error(f"there are mutations 1 to {len(MUTATIONS)}")
    if options.list:
        for number, mutation in numbered:
            print(_line(number, mutation, ""))
        return PASSED
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        tree = Tree(Path(folder))
        try:
            tree.check([mutation for _, mutation in numbered])
            survived = [number for number, survives in _tried(tree, numbered) if survives]
        except UnmakeableError as error:
            print(f"cannot be made: {error}", file=sys.stderr)
            return 2
    print(f"\n{len(numbered) - len(survived)} killed, {len(survived)} survived {survived or ''}".rstrip())
    return FAILED if survived else PASSED


def _tried(tree: Tree, numbered: Sequence[tuple[int, Mutation]]) -> Iterator[tuple[int, bool]]:
    for number, mutation in numbered:
        started = time.monotonic()
        survives = tree.survives(mutation)
        outcome = "SURVIVED" if survives else "killed"
        print(_line(number, mutation, f"{outcome} {time.monotonic() - started:4.1f} s"), flush=True)
        yield number, survives


def _line(number: int, mutation: Mutation, outcome: str) -> str:
    change = f"{mutation.text.strip()} -> {mutation.other.strip()}".replace("\n", " ")
    return f"{number:>3} {outcome:<16} {mutation.file.removeprefix('toolcaddie/'):<26} {change}"


class Tree:
    """A copy of the tree in which one file at a time is changed and restored."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changes = 0
        for name in COPIED:
            source, target = ROOT / name, folder / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy2(source, target)

    def check(self, mutations: Sequence[Mutation]) -> None:
        """Raises `UnmakeableError` unless every text occurs exactly once and all the tests pass on the unchanged copy."""
        for mutation in mutations:
            count = (self._folder / mutation.file).read_text().count(mutation.text)
            if count != 1:
                raise UnmakeableError(f"{mutation.text!r} must occur once in {mutation.file}, but occurs {count} times")
        keywords_by_file: dict[str, list[str]] = {}
        for mutation in mutations:
            keywords_by_file.setdefault(mutation.tests, []).append(f"({mutation.keyword})" if mutation.keyword else "")
        for tests, keywords in keywords_by_file.items():
            words = "" if "" in keywords else " or ".join(dict.fromkeys(keywords))
            if self._pytest(tests, words) != PASSED:
                raise UnmakeableError(f"{tests} does not pass without any mutation")

    def survives(self, mutation: Mutation) -> bool:
        """Returns True if the tests of a mutation pass although the change was made."""
        path = self._folder / mutation.file
        before = path.read_text()
        self._write(path, before.replace(mutation.text, mutation.other))
        try:
            code = self._pytest(mutation.tests, mutation.keyword)
        finally:
            self._write(path, before)
        if code not in (PASSED, FAILED):
            raise UnmakeableError(
                f"{mutation.tests} -k {mutation.keyword!r} ended with {code}; check that the file and such tests exist"
            )
        return code == PASSED

    def _write(self, path: Path, text: str) -> None:
        """Writes a file with a new modification time, because Python recognises an outdated compiled file only by size and
        second."""
        path.write_text(text)
        self._changes += 1
        at = time.time() + self._changes
        os.utime(path, (at, at))

    def _pytest(self, tests: str, keyword: str) -> int:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests]
        done = subprocess.run(
            [*command, *(("-k", keyword) if keyword else ())], cwd=self._folder, capture_output=True, check=False
        )
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
