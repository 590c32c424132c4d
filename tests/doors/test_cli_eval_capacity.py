"""`toolcaddie eval capacity`: the plan as a table and as JSON, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.replicas.scale_page import PAGE, filled
from tests.doors.commandline import CommandLine
from toolcaddie.evaluation.capacity.constants import shipped_constants
from toolcaddie.evaluation.capacity.load import Load, Site
from toolcaddie.evaluation.capacity.plan import plan


def test_the_table_says_what_is_needed_and_what_is_used_up_first(toolcaddie: CommandLine) -> None:
    shown = toolcaddie.ok(
        "eval", "capacity", "--requests-per-minute", 12_000, "--calls", 2, "--tools", 300, "--tenants", 50
    )
    assert "12,000 requests a minute (200 a second), 2 calls in a run, 300 tools, 50 tenants, kept for 90 days" in shown
    for words in ("processes of servers", "cores of PostgreSQL", "lock of the trail of one database", "then add"):
        assert words in shown


def test_the_json_has_the_same_plan(toolcaddie: CommandLine) -> None:
    words = ("eval", "capacity", "--requests-per-minute", 6_000, "--calls", 1, "--keep", "1d")
    result, longer = toolcaddie.json(*words), toolcaddie.json(*words[:-1], "10d")
    assert result["processes"] == plan(Load(requests_per_minute=6_000), shipped_constants(), Site()).processes
    assert longer["disk_bytes"] == pytest.approx(10 * result["disk_bytes"])
    assert result["constants"]["command"] == shipped_constants().command
    assert {"resource", "requests_per_minute", "remedy"} == set(result["ceilings"][0])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "Missing option '--requests-per-minute'"),
        (("--requests-per-minute", "0"), "not in the range"),
        (("--requests-per-minute", "60", "--writing", "2"), "not in the range 0<=x<=1"),
        (("--requests-per-minute", "60", "--keep", "off"), "write an age such as 90d"),
        (("--requests-per-minute", "60", "--keep", "ever"), "'ever' is not an age"),
        (("--requests-per-minute", "60", "--constants", "none.toml"), "none.toml"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(toolcaddie: CommandLine, words: tuple[str, ...], error: str) -> None:
    assert error in toolcaddie.refused("eval", "capacity", *words)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("command = 1", "Expected `str`, got `int`"),
        ("not toml", "benchmarks.replicas.constants"),
        ('command = "x"', "missing required field"),
    ],
)
def test_a_wrong_file_of_constants_is_refused(toolcaddie: CommandLine, tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text)
    message = toolcaddie.refused("eval", "capacity", "--requests-per-minute", 60, "--constants", file)
    assert error in message
    assert "own.toml" in message


def test_the_page_about_scale_shows_what_the_command_prints() -> None:
    assert filled(PAGE.read_text()) == PAGE.read_text(), "run python -m benchmarks.replicas.scale_page"
