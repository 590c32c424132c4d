"""`toolcaddie db`, and a server that removes old runs by itself."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.databases import change, home_url, rows

sys.path.insert(0, str(Path(__file__).parent))

from test_cli_serve import _serving

from tests.doors.commandline import CommandLine
from toolcaddie.storage.seals import Head, Sealer
from toolcaddie.util.user import user_name


def aged(home: Path, days: int) -> None:
    """Everything that was recorded, as if it had happened so many days ago."""
    seconds = days * 86_400
    change(home_url(home), f"update runs set started = started - {seconds}; update events set at = at - {seconds}")
    sealed_again(home_url(home))


def sealed_again(url: str) -> None:
    """Links and seals the trail as if its rows had been written as they are now, which needs no key here."""
    sealer = Sealer()
    ((trail, first, position),) = rows(url, "select trail, first, position from trail_head")
    link = sealer.start(trail, first)
    links = []
    for row in rows(url, "select id, run_id, seq, at, kind, data from events order by id"):
        link = sealer.link(link, row)
        links.append(f"update events set link = {{blob:{link.hex()}}} where id = {row[0]}")
    head = Head(trail=trail, first=first, position=position, link=link, key_id="")
    seal = sealer.head(head).hex()
    change(url, *links, f"update trail_head set link = {{blob:{link.hex()}}}, seal = {{blob:{seal}}}")


def count(home: Path, table: str) -> int:
    return int(rows(home_url(home), f"select count(*) from {table}")[0][0])


@pytest.fixture
def used(toolcaddie: CommandLine) -> CommandLine:
    """Two runs of long ago and one of now."""
    for _ in range(2):
        toolcaddie.ok("run", "freeze John's membership", "--catalog", "gym")
    aged(toolcaddie.home, 100)
    toolcaddie.ok("run", "hello", "--catalog", "gym")
    return toolcaddie


def test_stats_show_what_there_is(used: CommandLine) -> None:
    held = used.json("db", "stats")["held"]
    assert held["runs"] == {"completed": 3}
    assert held["events"] == count(used.home, "events")
    assert "rows of the trail" in used.ok("db", "stats")


def test_prune_removes_what_is_older_and_says_how_much(used: CommandLine) -> None:
    would = used.json("db", "prune", "--older-than", "90d", "--dry-run")
    assert (would["dry_run"], would["runs"], count(used.home, "runs")) == (True, 2, 3)
    assert used.ok("db", "prune", "--older-than", "90d").startswith("removed 2 runs (")
    assert [run["message"] for run in used.json("trail")["runs"]] == ["hello"]
    (record,) = used.json("db", "stats")["prunings"]
    assert (record["runs"], record["events"]) == (2, would["rows"])
    assert record["by"] == f"{user_name()}: toolcaddie db prune"


@pytest.mark.parametrize("age", ["90", "-1d", "d", "0d", "1y", "", "off"])
def test_an_age_that_is_none_is_refused(used: CommandLine, age: str) -> None:
    assert "90d" in used.refused("db", "prune", "--older-than", age)
    assert count(used.home, "runs") == 3


@pytest.mark.parametrize("keep", ["", "90d"])
def test_a_server_removes_old_runs_only_if_it_was_told_how_long_to_keep_them(used: CommandLine, keep: str) -> None:
    environ = {"TOOLCADDIE_STORAGE_KEEP": keep} if keep else {}
    with _serving(used.home, "--catalog", "gym", **environ) as server:
        deadline = time.monotonic() + 20
        while keep and count(used.home, "prunings") == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert server.stop() == 0
    assert count(used.home, "runs") == (1 if keep else 3)


def test_a_length_of_time_that_is_none_is_refused_at_start_with_its_line(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text('[storage]\nkeep = "90"\n')
    assert "toolcaddie.toml:2: storage.keep: " in toolcaddie.refused("serve")
    assert '"90d"' in toolcaddie.refused("serve")
