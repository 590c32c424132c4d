"""`toolcaddie audit`: the trail is checked, anchored, sealed with a key, and exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.databases import change, home_url, sqlite_only
from tests.doors.commandline import CommandLine
from toolcaddie.testing import ScriptedUpstream, refuse

FILE = Path("toolcaddie-data") / "toolcaddie.sqlite"


@pytest.fixture
def used(toolcaddie: CommandLine) -> CommandLine:
    for _ in range(2):
        toolcaddie.ok("run", "freeze John's membership", "--catalog", "gym", "--approve", "run")
    return toolcaddie


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_changed_row_is_named_and_the_exit_status_is_1(used: CommandLine) -> None:
    assert "no change" in used.ok("audit", "verify")
    change(home_url(used.home), "update events set data = data || ' ' where id = 3")
    done = used("audit", "verify")
    assert (done.exit_code, done.stdout.startswith("row 3 (")) == (1, True)
    report = json.loads(used("audit", "verify", "--json").stdout)
    assert (report["ok"], [each["row"] for each in report["changes"]]) == (False, [3])


def test_a_changed_row_is_not_pruned(used: CommandLine) -> None:
    change(home_url(used.home), "update events set at = 1 where id < 20")
    change(home_url(used.home), "update runs set started = 1")
    found = json.loads(used("audit", "verify", "--json").stdout)
    done = used("db", "prune", "--older-than", "90d")
    assert (done.exit_code, "error: nothing is pruned: row 1 (" in done.stderr) == (1, True)
    assert json.loads(used("audit", "verify", "--json").stdout) == found


@sqlite_only("a copy of its file is put back")
def test_an_anchor_kept_elsewhere_shows_a_database_that_was_put_back(used: CommandLine, tmp_path: Path) -> None:
    older = (used.home / FILE).read_bytes()
    heads = tmp_path / "heads.jsonl"
    used.ok("audit", "anchor", heads)
    used.ok("run", "hello", "--catalog", "gym")
    used.ok("audit", "anchor", heads)
    assert used.json("audit", "verify", "--anchor", heads)["anchors"] == 2
    (used.home / FILE).write_bytes(older)
    assert "no change" in used.ok("audit", "verify")
    done = used("audit", "verify", "--anchor", heads)
    assert done.exit_code == 1
    assert "are missing: the trail ends at row" in done.stdout
    heads.write_text("nonsense\n")
    assert "`toolcaddie audit anchor` did not write" in used("audit", "verify", "--anchor", heads).stderr


def test_a_key_seals_the_trail_and_nothing_runs_without_it(used: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAIL_KEY", "short")
    monkeypatch.setenv("TOOLCADDIE_AUDIT_KEY_ENV", "TRAIL_KEY")
    assert "needs 32" in used.refused("audit", "verify")
    monkeypatch.setenv("TRAIL_KEY", "k" * 40)
    refused = used("run", "hello", "--catalog", "gym")
    assert (refused.exit_code, "toolcaddie audit rekey" in refused.stderr) == (1, True)
    assert "a key has sealed this trail before, it is forged" in used("audit", "verify").stdout
    refused = used("audit", "rekey")
    assert (refused.exit_code, "--accept-unsealed" in refused.stderr) == (1, True)
    assert used.json("audit", "rekey", "--accept-unsealed")["rows"] > 0
    used.ok("run", "hello", "--catalog", "gym")
    assert "sealed with a key" in used.ok("audit", "verify")
    monkeypatch.delenv("TOOLCADDIE_AUDIT_KEY_ENV")
    assert "set audit.key_env" in used("run", "hello", "--catalog", "gym").stderr
    assert used("audit", "verify").exit_code == 1
    used.ok("audit", "rekey", "--from-env", "TRAIL_KEY")
    assert "sealed without a key" in used.ok("audit", "verify")


def test_a_trail_gets_its_first_key_with_an_anchor_of_before(
    used: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = tmp_path / "heads.jsonl"
    heads.write_text("")
    assert "has no anchor" in used("audit", "verify", "--anchor", heads).stderr
    used.ok("audit", "anchor", heads)
    monkeypatch.setenv("TRAIL_KEY", "k" * 40)
    monkeypatch.setenv("TOOLCADDIE_AUDIT_KEY_ENV", "TRAIL_KEY")
    assert "sealed again" in used.ok("audit", "rekey", "--anchor", heads)
    assert "sealed with a key" in used.ok("audit", "verify")


def test_an_anchor_of_before_a_change_of_the_key_is_told_apart_from_a_changed_trail(
    used: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads, newer = tmp_path / "heads.jsonl", tmp_path / "newer.jsonl"
    used.ok("audit", "anchor", heads)
    monkeypatch.setenv("TRAIL_KEY", "k" * 40)
    monkeypatch.setenv("TOOLCADDIE_AUDIT_KEY_ENV", "TRAIL_KEY")
    used.ok("audit", "rekey", "--anchor", heads)
    done = used("audit", "verify", "--anchor", heads)
    assert done.exit_code == 1
    assert "is sealed without a key and the trail with key" in done.stdout
    assert "anchors of the new key belong into a new file" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("no change; 1 anchor of another key could not be compared")
    assert json.loads(used("audit", "verify", "--anchor", heads, "--json").stdout)["anchors_of_other_keys"] == 1
    used.ok("audit", "anchor", newer)
    assert "1 anchor compared" in used.ok("audit", "verify", "--anchor", newer)


@sqlite_only("a copy of its file is put back")
def test_rows_cut_off_are_missed_even_by_an_anchor_of_another_key(
    used: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, heads = (used.home / FILE).read_bytes(), tmp_path / "heads.jsonl"
    used.ok("run", "hello", "--catalog", "gym")
    used.ok("audit", "anchor", heads)
    (used.home / FILE).write_bytes(older)
    monkeypatch.setenv("TRAIL_KEY", "k" * 40)
    monkeypatch.setenv("TOOLCADDIE_AUDIT_KEY_ENV", "TRAIL_KEY")
    used.ok("audit", "rekey", "--accept-unsealed")
    done = used("audit", "verify", "--anchor", heads)
    assert "are missing: the trail ends at row" in done.stdout
    assert "1 change: the trail is not as it was written" in done.stdout


def test_a_second_rekey_says_that_there_is_nothing_to_do(used: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAIL_KEY", "k" * 40)
    monkeypatch.setenv("OTHER_KEY", "o" * 40)
    monkeypatch.setenv("TOOLCADDIE_AUDIT_KEY_ENV", "TRAIL_KEY")
    used.ok("audit", "rekey", "--accept-unsealed")
    done = used("audit", "rekey", "--accept-unsealed")
    assert (done.exit_code, "already, which is the key that audit.key_env names" in done.stderr) == (1, True)
    monkeypatch.setenv("TOOLCADDIE_AUDIT_KEY_ENV", "OTHER_KEY")
    done = used("audit", "rekey")
    assert (done.exit_code, "and no old key is named; name the variable" in done.stderr) == (1, True)
    done = used("audit", "rekey", "--from-env", "OTHER_KEY")
    assert (done.exit_code, "and --from-env names key" in done.stderr) == (1, True)
    used.ok("audit", "rekey", "--from-env", "TRAIL_KEY")


def test_an_export_of_no_row_says_so(used: CommandLine) -> None:
    for words in (("--principal", "lcoal"), ("--run", "nonexistent"), ("--until", "2020-01-31")):
        done = used("audit", "export", *words)
        assert (done.exit_code, done.stdout) == (0, "")
        assert f"no row of the trail matches {words[0]}" in done.stderr


def test_an_empty_chain_in_the_place_of_a_keyed_one_is_a_change(
    toolcaddie: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAIL_KEY", "k" * 40)
    monkeypatch.setenv("TOOLCADDIE_AUDIT_KEY_ENV", "TRAIL_KEY")
    toolcaddie.ok("run", "hello", "--catalog", "gym")
    toolcaddie.ok("audit", "anchor", tmp_path / "heads.jsonl")
    change(home_url(toolcaddie.home), "delete from events")
    change(home_url(toolcaddie.home), "update trail_head set position = 0, link = {blob:}, key_id = '', seal = {blob:}")
    done = toolcaddie("audit", "verify")
    assert (done.exit_code, "wrote it anew" in done.stdout) == (1, True)
    assert toolcaddie("run", "hello", "--catalog", "gym").exit_code == 1
    assert toolcaddie("audit", "rekey").exit_code == 1
    assert toolcaddie("audit", "rekey", "--anchor", tmp_path / "heads.jsonl").exit_code == 1


def test_a_keyed_trail_without_rows_passes_with_a_warning(
    toolcaddie: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAIL_KEY", "k" * 40)
    monkeypatch.setenv("TOOLCADDIE_AUDIT_KEY_ENV", "TRAIL_KEY")
    toolcaddie.ok("keys", "add", "laptop")
    done = toolcaddie("audit", "verify")
    assert (done.exit_code, "warning: the trail has no rows" in done.stderr) == (0, True)
    (warning,) = toolcaddie.json("audit", "verify")["warnings"]
    assert "somebody put a new one in its place" in warning
    toolcaddie.ok("audit", "anchor", tmp_path / "heads.jsonl")
    assert toolcaddie.json("audit", "verify", "--anchor", tmp_path / "heads.jsonl")["warnings"] == []
    toolcaddie.ok("run", "hello", "--catalog", "gym")
    assert toolcaddie.json("audit", "verify")["warnings"] == []


READING = [
    ("audit", "verify"),
    ("audit", "anchor", "heads.jsonl"),
    ("audit", "export"),
    ("audit", "rekey"),
    ("trail",),
    ("trail", "last"),
    ("runs",),
    ("runs", "unknown"),
    ("approvals", "list"),
    ("usage", "keys"),
    ("keys", "list"),
    ("keys", "revoke", "laptop"),
    ("db", "stats"),
    ("db", "prune", "--older-than", "90d"),
    ("eval", "goals"),
]


@sqlite_only("a file is made by whoever opens it")
@pytest.mark.parametrize("words", READING)
def test_a_reading_command_makes_no_database_whose_name_is_misspelt(
    toolcaddie: CommandLine, tmp_path: Path, words: tuple[str, ...]
) -> None:
    misspelt = tmp_path / "elsewhere" / "tolcaddie.sqlite"
    message = toolcaddie.refused(*words, "--database-url", f"sqlite:///{misspelt}")
    assert f"database_url sqlite:///{misspelt}: there is no database of Toolcaddie; correct the name" in message
    assert not misspelt.parent.exists()
    toolcaddie(*words)
    assert not (toolcaddie.home / FILE).exists()


@sqlite_only("the file that is used by default")
def test_before_the_first_run_lists_are_empty_and_a_check_of_the_trail_fails(toolcaddie: CommandLine) -> None:
    assert toolcaddie.json("trail")["runs"] == []
    assert toolcaddie.json("approvals", "list")["approvals"] == []
    assert toolcaddie.json("keys", "list")["keys"] == []
    assert "there is no database of Toolcaddie" in toolcaddie.refused("audit", "verify")


@sqlite_only("a file is made by whoever opens it")
def test_a_file_without_tables_is_no_database_to_a_reading_command(toolcaddie: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "empty.sqlite").touch()
    url = f"sqlite:///{tmp_path}/empty.sqlite"
    assert "there is no database of Toolcaddie" in toolcaddie.refused("audit", "verify", "--database-url", url)
    toolcaddie.ok("keys", "add", "laptop", "--database-url", url)
    toolcaddie.ok("audit", "verify", "--database-url", url)


def test_a_schema_without_tables_is_no_database_to_a_reading_command(
    toolcaddie: CommandLine, postgresql_url: str
) -> None:
    for words in (("audit", "verify"), ("trail",), ("audit", "verify")):
        assert "there is no database of Toolcaddie" in toolcaddie.refused(*words, "--database-url", postgresql_url)
    toolcaddie.ok("keys", "add", "laptop", "--database-url", postgresql_url)
    toolcaddie.ok("audit", "verify", "--database-url", postgresql_url)


def test_the_trail_is_exported_by_run_principal_and_time(used: CommandLine, tmp_path: Path) -> None:
    rows = lines(used.ok("audit", "export"))
    assert [row["id"] for row in rows] == list(range(1, len(rows) + 1))
    run = rows[0]["run_id"]
    assert rows[0]["kind"] == "run_started"
    assert len(lines(used.ok("audit", "export", "--run", run))) == len(rows) // 2
    assert len(lines(used.ok("audit", "export", "--principal", "local", "--since", "1h"))) == len(rows)
    assert used.ok("audit", "export", "--principal", "nobody") == ""
    assert used.ok("audit", "export", "--until", "2020-01-31") == ""
    assert "is no time" in used.refused("audit", "export", "--since", "yesterday")
    file = tmp_path / "trail.jsonl"
    assert used.ok("audit", "export", "--output", file) == ""
    assert lines(file.read_text()) == rows


def test_an_error_does_not_repeat_the_key_that_the_server_repeats(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "correct.horse.battery.7"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with ScriptedUpstream(lambda body: refuse(401, f"Incorrect API key provided: {key}"), api_key=None) as upstream:
        done = toolcaddie("run", "hello", "--catalog", "gym", "--upstream", upstream.base_url, "--model", "gpt-test")
    assert done.exit_code == 1
    assert "Incorrect API key provided: [redacted]" in done.stderr
    assert key not in done.stderr + toolcaddie.ok("audit", "export")


REQUIRED: dict[str, Any] = {
    "activity_id": int,
    "category_uid": int,
    "class_uid": int,
    "severity_id": int,
    "time": int,
    "type_uid": int,
    "metadata": {"version": str, "product": {"vendor_name": str, "name": str}},
    "actor": {"user": {"uid": str}},
    "api": {"operation": str},
    "src_endpoint": {"svc_name": str},
}
"""Requirements of OCSF 1.3.0 for class 6003: its attributes, and in each object those that must be there."""


def fits(event: Any, required: Any) -> bool:
    if isinstance(required, dict):
        return isinstance(event, dict) and all(fits(event.get(name), each) for name, each in required.items())
    return isinstance(event, required) and not isinstance(event, bool)


def test_each_row_is_an_api_activity_of_ocsf(used: CommandLine) -> None:
    rows = lines(used.ok("audit", "export"))
    events = lines(used.ok("audit", "export", "--format", "ocsf"))
    assert len(events) == len(rows)
    for row, event in zip(rows, events, strict=True):
        assert fits(event, REQUIRED), event
        assert event["type_uid"] == event["class_uid"] * 100 + event["activity_id"]
        assert (event["metadata"]["uid"], event["unmapped"]) == (str(row["id"]), row["data"])
        assert event["time"] == pytest.approx(row["at"] * 1000, abs=1)
    (decision, *_) = [event for event in events if event["activity_name"] == "call_decided"]
    assert decision["api"]["operation"] == decision["resources"][0]["name"]
