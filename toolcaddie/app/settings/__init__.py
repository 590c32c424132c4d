"""What an operator sets: `toolcaddie.toml`, with the environment on top.

model        the values          file         TOML with lines, and the starter file
schema       their types         environment  TOOLCADDIE_SERVER_PORT and so on
load         all of it together
"""

from __future__ import annotations

from toolcaddie.app.settings.file import DEFAULT_FILE, starter_toml
from toolcaddie.app.settings.load import age_seconds, effective_preset, load_settings, names_variable
from toolcaddie.app.settings.model import (
    DEFAULT_DATABASE,
    CacheSettings,
    CatalogSettings,
    ClassifierSettings,
    DeliverySettings,
    EmbeddingSettings,
    FallbackSettings,
    Idempotency,
    Learning,
    Log,
    PartSettings,
    Settings,
    StorageSettings,
    Upstream,
)
from toolcaddie.app.settings.schema import LOOKS_LIKE_A_KEY

__all__ = [
    "DEFAULT_DATABASE",
    "DEFAULT_FILE",
    "LOOKS_LIKE_A_KEY",
    "CacheSettings",
    "CatalogSettings",
    "ClassifierSettings",
    "DeliverySettings",
    "EmbeddingSettings",
    "FallbackSettings",
    "Idempotency",
    "Learning",
    "Log",
    "PartSettings",
    "Settings",
    "StorageSettings",
    "Upstream",
    "age_seconds",
    "effective_preset",
    "load_settings",
    "names_variable",
    "starter_toml",
]
