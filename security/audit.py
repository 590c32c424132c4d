"""Attacks the audit trail: changes it at random, forges it, and plants secrets in everything that a run sees."""

from __future__ import annotations

from collections.abc import Sequence

from security import planted_secrets, trail_changes, trail_forgeries
from security.goals import Goal


def attacked(*, quick: bool) -> Sequence[Goal]:
    """Makes 10,000 random changes (quick: 600), 100 forgeries of each kind (quick: 10), and plants 500 secrets (quick: 60)."""
    return [
        *trail_changes.checked(600 if quick else 10_000),
        *trail_forgeries.forged(10 if quick else 100),
        *planted_secrets.searched(60 if quick else 500),
    ]
