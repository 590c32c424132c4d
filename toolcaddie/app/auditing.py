"""The key that seals the trail."""

from __future__ import annotations

from toolcaddie.app.settings import AuditSettings
from toolcaddie.core.errors import ConfigError
from toolcaddie.parts import Secrets
from toolcaddie.storage.seals import MIN_KEY

SECRETS = Secrets()


def audit_key(settings: AuditSettings) -> bytes | None:
    """Returns the key that `audit.key_env` names; None: there is none. Raises `ConfigError`."""
    return None if settings.key_env is None else key_in(settings.key_env)


def key_in(variable: str) -> bytes:
    """Returns the key that an environment variable holds. Raises `ConfigError` if it is not set or too short."""
    key = SECRETS.require(variable, what="the key that seals the trail (audit.key_env)").encode()
    if len(key) < MIN_KEY:
        raise ConfigError(
            f"the key in {variable} has {len(key)} bytes; the key of the trail needs {MIN_KEY}; make one with "
            "`openssl rand -hex 32`"
        )
    return key


def note_secrets(settings: AuditSettings) -> None:
    """Adds the values of `audit.redact_env` to the known secrets. All other secrets are added when they are read."""
    for variable in settings.redact_env:
        SECRETS.get(variable)
