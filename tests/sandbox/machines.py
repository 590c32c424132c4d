"""Whether this machine can hold a wall; its tests are skipped where it cannot."""

from __future__ import annotations

from toolcaddie.core.errors import ConfigError
from toolcaddie.sandbox.wall import Wall


def _missing() -> str:
    try:
        Wall()
    except ConfigError as error:
        return str(error)
    return ""


WALL_MISSING = _missing()
"""The reason why there can be no wall; empty: there can be one."""
