"""The rules of the operator that a call must keep, whoever approves it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection
from datetime import datetime as DateTime

from toolcaddie.tools.phone.numbers import country_of
from toolcaddie.tools.phone.settings import CallLimits, countries_of, quiet_hours_of, zone_of


class Rules:
    """Which numbers may be called, when, and with which messages. Raises `ConfigError` for wrong limits."""

    def __init__(
        self, limits: CallLimits, *, caller: str, allowed: Collection[str], clock: Callable[[], float]
    ) -> None:
        self.limits = limits
        self._allowed = frozenset(allowed)
        self._countries = countries_of(limits, country_of(caller))
        self._quiet = quiet_hours_of(limits)
        self._zone = zone_of(limits)
        self._clock = clock

    def is_allowed(self, number: str) -> bool:
        """Returns True if the operator lets this number be called without a question."""
        return number in self._allowed

    def problem(self, number: str, message: str) -> str:
        """Returns why a call may not be made now; empty: it may."""
        if not message:
            return "message: say what is to be read to the person who answers"
        if len(message) > self.limits.message_length:
            return f"message: it has {len(message)} characters; at most {self.limits.message_length} are read"
        country = country_of(number)
        if country not in self._countries and not self.is_allowed(number):
            return f"numbers of {country} may not be called here, only those of {', '.join(sorted(self._countries))}"
        if self._is_quiet():
            return (
                f"no calls are made from {self.limits.quiet_hours.replace('-', ' to ')} ({self.limits.timezone}), "
                "and it is within these hours now; call later"
            )
        return ""

    def day(self) -> str:
        """Returns the present day, such as 2026-05-03."""
        return self._now().date().isoformat()

    def _is_quiet(self) -> bool:
        if self._quiet is None:
            return False
        begin, end = self._quiet
        now = self._now().time()
        return begin <= now < end if begin <= end else now >= begin or now < end

    def _now(self) -> DateTime:
        return DateTime.fromtimestamp(self._clock(), self._zone)


def spoken(text: str) -> str:
    """Returns a message as it is read aloud: in one line, and without characters that nobody can hear, such as those that change
    the direction of a text. The person who approves a call sees exactly this."""
    heard = "".join(" " if unicodedata.category(sign).startswith(("C", "Z")) else sign for sign in text)
    return " ".join(heard.split())
