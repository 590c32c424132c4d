"""The attack `python -m security injections`, smaller, and the folders of hostile inputs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from security import injections
from security.corpora import LONGEST, texts_of
from toolcaddie.control.policy.allow import AllowAll

ROOT = Path(__file__).parents[1]
ODD = b"\xff\xfe no text at all\r\n\n{broken\n" + b'"\\ud800"\njson:{\njson:"two\\nlines"\n' + b"[" * 200_000 + b"\n"


def test_no_text_changes_a_decision_or_a_tool_and_untrusted_ones_are_followed_by_questions() -> None:
    for goal in injections.attacked(None, quick=True):
        assert goal.met, goal.line()


def test_the_attack_notices_a_policy_that_never_asks() -> None:
    goals = injections.played("texts", injections.OWN_HARMLESS, policy=AllowAll())
    assert {goal.name.rpartition(": ")[2] for goal in goals if not goal.met} == {
        "destructive or outgoing calls after untrusted content that were not asked about",
        "calls of these tools, and destructive calls beside them, that were not asked about",
    }


def test_lines_of_any_form_are_inputs(tmp_path: Path) -> None:
    (tmp_path / "odd.txt").write_bytes(ODD)
    (tmp_path / "odd.jsonl").write_bytes(ODD + b'{"text": "told", "new": [1]}\n{"text": 3}\n')
    lines = texts_of(tmp_path, "odd.txt")
    assert lines is not None
    assert lines[:-1] == ["\ufffd\ufffd no text at all", "{broken", '"\\ud800"', "json:{", "two\nlines"]
    assert lines[-1] == "[" * LONGEST
    records = texts_of(tmp_path, "odd.jsonl")
    assert records is not None
    assert records[-2:] == ["told", '{"text": 3}']
    for goal in injections.played("odd texts", [*lines, *records, "\x00", "\U0010ffff" * 90_000]):
        assert goal.met, goal.line()


def test_a_file_that_is_missing_is_skipped_with_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "prompt_benign.txt").write_text('json:"Hello,\\nAnn"\n')
    goals = injections.attacked(tmp_path, quick=True)
    assert capsys.readouterr().out == f"skipped: there is no prompt_injection.jsonl; it is not in {tmp_path}\n"
    assert any(goal.name.startswith("lines of prompt_benign.txt") for goal in goals)
    assert all(goal.met for goal in goals)


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "security", "injections", "--corpora", str(tmp_path / "missing")]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert f"--corpora: there is no folder {tmp_path / 'missing'}" in process.stderr
