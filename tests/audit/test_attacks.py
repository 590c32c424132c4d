"""The attacks of `python -m security audit`, smaller."""

from __future__ import annotations

from security import planted_secrets, trail_changes, trail_forgeries


def test_random_changes_of_a_trail_are_found() -> None:
    for goal in trail_changes.checked(90):
        assert goal.met, goal.line()


def test_forged_trails_and_changes_before_a_pruning_are_found() -> None:
    for goal in trail_forgeries.forged(4):
        assert goal.met, goal.line()


def test_planted_secrets_are_nowhere() -> None:
    for goal in planted_secrets.searched(2):
        assert goal.met, goal.line()
