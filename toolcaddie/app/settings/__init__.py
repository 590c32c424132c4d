"""The settings of an operator: `toolcaddie.toml`, overridden by environment variables.

model.py        the settings as values
channels.py     the keys that all channels have
jobs.py         the table [jobs]
schema.py       the types of all tables of the file
file.py         TOML with line numbers, and the starter file
environment.py  variables such as TOOLCADDIE_SERVER_PORT
load.py         reads and checks file and environment
"""

from __future__ import annotations

from toolcaddie.app.settings.channels import ChannelSettings, channel_settings_of
from toolcaddie.app.settings.file import DEFAULT_FILE, starter_toml
from toolcaddie.app.settings.jobs import JobSettings
from toolcaddie.app.settings.load import (
    age_seconds,
    duration_seconds,
    effective_preset,
    load_settings,
    names_variable,
)
from toolcaddie.app.settings.model import (
    DEFAULT_DATABASE,
    ApprovalAnswer,
    ApprovalSettings,
    AuditSettings,
    CacheSettings,
    CatalogSettings,
    ClassifierSettings,
    DeliverySettings,
    EmbeddingSettings,
    FallbackSettings,
    GatewaySettings,
    Idempotency,
    Learning,
    Log,
    MCPSettings,
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
    "ApprovalAnswer",
    "ApprovalSettings",
    "AuditSettings",
    "CacheSettings",
    "CatalogSettings",
    "ChannelSettings",
    "ClassifierSettings",
    "DeliverySettings",
    "EmbeddingSettings",
    "FallbackSettings",
    "GatewaySettings",
    "Idempotency",
    "JobSettings",
    "Learning",
    "Log",
    "MCPSettings",
    "PartSettings",
    "Settings",
    "StorageSettings",
    "Upstream",
    "age_seconds",
    "channel_settings_of",
    "duration_seconds",
    "effective_preset",
    "load_settings",
    "names_variable",
    "starter_toml",
]
