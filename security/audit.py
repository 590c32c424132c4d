"""Attacks the audit trail: changes it at random, and plants secrets in everything that a run sees."""

from __future__ import annotations

from collections.abc import Sequence

from security import planted_secrets, trail_changes
from security.goals import Goal


def attacked(*, quick: bool) -> Sequence[Goal]:
    """Makes 10,000 random changes (quick: 600), and plants 500 secrets (quick: 60)."""
    return [*trail_changes.checked(600 if quick else 10_000), *planted_secrets.searched(60 if quick else 500)]
