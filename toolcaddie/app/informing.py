"""The webhook that tells people about questions."""

from __future__ import annotations

from collections.abc import Sequence

from yarl import URL

from toolcaddie.app.settings import ApprovalSettings
from toolcaddie.audit.redact import redact
from toolcaddie.core.errors import ConfigError
from toolcaddie.parts import Secrets
from toolcaddie.ports import Store
from toolcaddie.telemetry.webhook import ApprovalWebhook

SECRETS = Secrets()


def webhooks_of(settings: ApprovalSettings, store: Store) -> Sequence[ApprovalWebhook]:
    """Returns the webhook of the settings, if they name one. Raises `ConfigError` for an address or a secret that cannot be
    used."""
    if settings.webhook is None:
        return ()
    _check(settings.webhook)
    if settings.webhook_secret_env is None:
        raise ConfigError(
            "approvals.webhook needs a secret, so that the receiver can tell who sends; set approvals.webhook_secret_env to "
            "the name of the variable that has it"
        )
    secret = SECRETS.require(settings.webhook_secret_env, what="the secret of approvals.webhook")
    return (ApprovalWebhook(settings.webhook, secret, store, redact=redact),)


def _check(address: str) -> None:
    """Raises `ConfigError` unless requests can be sent to this address. The operator may name any host, also this machine."""
    try:
        url = URL(address)
    except ValueError as error:
        raise ConfigError(f"approvals.webhook {address!r} is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"approvals.webhook {address!r} must begin with http:// or https:// and name a host")
