"""Lets bots remember: what fits a message is looked up in their memory before they answer."""

from __future__ import annotations

from toolcaddie.app.settings import Settings
from toolcaddie.bots.requests import Recall, nothing_recalled
from toolcaddie.parts import Parts


def recall_of(settings: Settings, parts: Parts) -> Recall:
    """Returns what looks up memories; it finds none if the settings have no source `memory`."""
    return nothing_recalled
