"""The hostile texts of `payloads.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

BY_PLACE: Mapping[str, Sequence[str]] = tomllib.loads(Path(__file__).with_name("payloads.toml").read_text("utf-8"))
PAYLOADS: Sequence[str] = [text for texts in BY_PLACE.values() for text in texts]

EVALUATED = "67087310"
"""Text that a page would show if it took a payload for a template."""
