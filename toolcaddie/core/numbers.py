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
MemoryBytes = Annotated[int, Meta(ge=4 * 1024 * 1024)]
"""Memory of a command. With less, no program starts."""
Processes = Annotated[int, Meta(ge=4)]
"""Processes of a command, those of its sandbox included."""
OpenFiles = Annotated[int, Meta(ge=16)]
"""Files that a command has open at once. With fewer, no program starts."""
DiskBytes = Annotated[int, Meta(ge=4096)]
"""Growth of a folder, of at least a page."""
Seconds = Annotated[float, Meta(gt=0)]
Weight = Annotated[float, Meta(ge=0, le=1_000)]
