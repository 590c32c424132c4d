"""The telephone of the operator: from which number calls are made, and how the text is read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The settings of the source that all calls share."""

    caller: str
    """The number from which calls are made."""
    language: str
    voice: str
    report_to: str
    """The address for reports of the service; empty: there is none."""
    timeout: float
    """Seconds for the service's answer."""
