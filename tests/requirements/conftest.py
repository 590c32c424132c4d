"""Fixtures of other folders that tests here use."""

from __future__ import annotations

from tests.doors.conftest import toolcaddie

__all__ = ["toolcaddie"]
