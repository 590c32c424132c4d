"""The part of `make hosts` that runs the checks of random states with more of them."""

from __future__ import annotations

import pytest

from benchmarks import hosts_states
from toolcaddie.tools.host.source import PLUGINS


def test_each_plugin_has_a_check() -> None:
    assert {name.split()[0] for name in hosts_states.CHECKS} == {*PLUGINS}


def test_states_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert hosts_states.main(["--states", "3", "lxc"]) == 0
    assert "lxc: 3 random states (goal: 3), all promises hold" in capsys.readouterr().out


def test_a_check_that_fails_is_missed_and_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts_states, "CHECKS", {"lxc": "lxc.py::test_of_another_name"})
    assert hosts_states.main(["--states", "3", "lxc"]) == 1
    assert "not found" in capsys.readouterr().out
