"""Tests of commands that run behind the wall are skipped on machines that cannot hold it."""

from __future__ import annotations

import pytest

from toolcaddie.core.errors import ConfigError
from toolcaddie.sandbox.wall import Wall


def _missing() -> str:
    """Returns what this machine lacks for the wall; empty: nothing."""
    try:
        Wall()
    except ConfigError as error:
        return str(error)
    return ""


MISSING = _missing()

needs_the_wall = pytest.mark.skipif(bool(MISSING), reason=f"this machine cannot hold the wall: {MISSING}")
