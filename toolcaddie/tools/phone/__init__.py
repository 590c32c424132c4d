"""The tool `phone_call`, which calls people and reads a message aloud.

[[source]]
type = "phone"
from_number = "+525512345678"
default_number = "+525587654321"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.numbers import Seconds
from toolcaddie.parts import Parts, Variable
from toolcaddie.ports import Telephony
from toolcaddie.registry import Registry
from toolcaddie.tools.phone.calls import CallBook
from toolcaddie.tools.phone.contacts import Contacts, read_contacts
from toolcaddie.tools.phone.line import Line
from toolcaddie.tools.phone.numbers import NumberError, e164
from toolcaddie.tools.phone.rules import Rules
from toolcaddie.tools.phone.settings import NO_CALL_LIMITS, CallLimits
from toolcaddie.tools.phone.source import PhoneSource
from toolcaddie.tools.phone.targets import Targets

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,2}")
_VOICE = re.compile(r"[A-Za-z0-9._-]{0,64}")
_ADDRESS = re.compile(r"https?://[^\s<>\"#]{1,500}")


def phone(
    *,
    from_number: str,
    default_number: str | None = None,
    language: str = "es-MX",
    voice: str = "Polly.Mia",
    contacts_file: str | None = None,
    allowed_numbers: tuple[str, ...] = (),
    limits: CallLimits = NO_CALL_LIMITS,
    provider: str = "twilio",
    account_sid_env: Variable | None = None,
    auth_token_env: Variable | None = None,
    url: str | None = None,
    options: Mapping[str, Any] = {},
    report_to: str = "",
    timeout: Seconds = 20.0,
    parts: Parts,
    registry: Registry | None = None,
) -> PhoneSource:
    """Returns the source.

    `allowed_numbers`: numbers that are called without asking a person, whatever their country, by a run that has read nothing
    untrusted and in which a person takes part. `contacts_file`: contacts with which each bot of the tenant `default` begins.
    `report_to`: the public address at which the provider reports how calls went. `account_sid_env`, `auth_token_env`, `url` and
    `options` are settings of the provider. Raises `ConfigError`.
    """
    if parts.store is None:
        raise ConfigError("source 'phone': contacts and calls need a store; pass one, as in Parts(store=store)")
    if not _LANGUAGE.fullmatch(language) or not _VOICE.fullmatch(voice):
        raise ConfigError(
            f"source 'phone': language {language!r} or voice {voice!r} is none; write es-MX and Polly.Mia"
        )
    if report_to and not _ADDRESS.fullmatch(report_to):
        raise ConfigError(f"source 'phone': report_to is no address: {report_to!r}")
    caller = _checked("from_number", from_number)
    line = Line(
        caller=caller,
        language=language,
        voice=voice,
        report_to=report_to,
        timeout=timeout,
    )
    allowed = tuple(_checked("allowed_numbers", number) for number in allowed_numbers)
    rules = Rules(limits, caller=caller, allowed=allowed, clock=parts.clock)
    contacts = Contacts(parts.store, {} if contacts_file is None else read_contacts(contacts_file))
    default = None if default_number is None else _checked("default_number", default_number)
    named = {"account_sid_env": account_sid_env, "auth_token_env": auth_token_env, "url": url}
    settings = {**options, **{name: value for name, value in named.items() if value is not None}}
    telephony: Telephony = (registry or Registry()).make("telephony", provider, settings, parts)
    return PhoneSource(
        telephony,
        line=line,
        rules=rules,
        contacts=contacts,
        targets=Targets(contacts, default),
        book=CallBook(parts.store, limits),
    )


def _checked(setting: str, number: str) -> str:
    try:
        return e164(number)
    except NumberError as error:
        raise ConfigError(f"source 'phone': {setting} {number!r}: {error}") from error


__all__ = ["CallLimits", "PhoneSource", "phone"]
