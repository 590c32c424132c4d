"""The alerts that are shipped: Prometheus accepts them, they fire when they should, and they read metrics that exist."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.doors.processes import serving
from tests.telemetry.prometheus import FOLDER, metrics_of, names_in, program

PAGE = FOLDER.parents[1] / "docs" / "telemetry.md"


def rules() -> list[Any]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return list(group["rules"])


RULES = rules()


def promtool(*words: str, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program("promtool"), *words], cwd=folder, capture_output=True, text=True, check=False)


def test_prometheus_accepts_the_alerts() -> None:
    done = promtool("check", "rules", "alerts.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


def test_each_alert_fires_on_numbers_that_deserve_it_and_on_no_others() -> None:
    done = promtool("test", "rules", "alerts_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_the_tests_of_an_alert_notice_that_it_never_fires_or_always_does(rule: Any, tmp_path: Path) -> None:
    shutil.copy(FOLDER / "alerts_test.yml", tmp_path)
    for broken in ("vector(1) < 0", "vector(1)"):
        others = [each if each is not rule else {**rule, "expr": broken} for each in RULES]
        text = yaml.safe_dump({"groups": [{"name": "toolcaddie", "rules": others}]})
        (tmp_path / "alerts.yml").write_text(text)
        done = promtool("test", "rules", "alerts_test.yml", folder=tmp_path)
        assert done.returncode == 1
        assert rule["alert"] in done.stdout + done.stderr


def test_each_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    outcomes = Counter(
        (test["alertname"], bool(test["exp_alerts"]))
        for case in yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
        for test in case["alert_rule_test"]
    )
    for rule in RULES:
        assert outcomes[rule["alert"], True], rule["alert"]
        assert outcomes[rule["alert"], False], rule["alert"]


def test_the_alerts_read_metrics_that_a_server_shows(tmp_path: Path) -> None:
    with serving(tmp_path, "--catalog", "gym", "--model", "practice:practice") as server:
        there = metrics_of(server)
    for rule in RULES:
        assert names_in(rule["expr"]) <= there.keys(), rule["alert"]


def test_the_docs_say_what_to_do_at_each_alert() -> None:
    page = PAGE.read_text()
    for rule in RULES:
        assert f"`{rule['alert']}`" in page
