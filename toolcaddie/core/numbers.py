"""Bounded numbers for settings. The bounds are checked in a settings file and in the environment."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
UpToTen = Annotated[int, Meta(ge=0, le=10)]
OneToTen = Annotated[int, Meta(ge=1, le=10)]
TwoOrMore = Annotated[int, Meta(ge=2)]
Share = Annotated[float, Meta(ge=0, le=1)]
PartialShare = Annotated[float, Meta(ge=0, lt=1)]
"""A share below 1."""
Seconds = Annotated[float, Meta(gt=0)]
Weight = Annotated[float, Meta(ge=0, le=1_000)]
