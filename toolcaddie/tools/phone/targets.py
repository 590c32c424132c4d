"""Whom a call is for: a number, a contact, or the default number."""

from __future__ import annotations

from dataclasses import dataclass

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.tools.phone.contacts import Contacts, name_of
from toolcaddie.tools.phone.numbers import NumberError, e164, masked
from toolcaddie.util.suggest import close_names

_NAMED = 50
"""The largest number of contacts that an error lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Whom to call."""

    number: str
    name: str
    """The contact, or words for the default number; empty: the number itself was given."""

    @property
    def public(self) -> str:
        """The target as models, logs and the trail may see it."""
        return f"{self.name} ({masked(self.number)})" if self.name else masked(self.number)


class Targets:
    """Finds whom a call is for. `default`: the number that is called if none is named; None: there is none."""

    def __init__(self, contacts: Contacts, default: str | None) -> None:
        self._contacts = contacts
        self._default = default

    async def of(self, principal: Principal, contact: str, phone_number: str) -> Target:
        """Returns whom to call. Raises `RequestError` for a number that does not exist and for an unknown name."""
        if contact.strip() and phone_number.strip():
            raise RequestError("call needs either contact or phone_number, not both")
        wanted = contact.strip() or phone_number.strip()
        if wanted.startswith("+"):
            return Target(number=number_of(wanted, "contact"), name="")
        if not wanted:
            if self._default is None:
                raise RequestError("contact: name a contact or a number; there is no default number")
            return Target(number=self._default, name="the default number")
        name = name_of(wanted)
        number = (await self._contacts.all(principal)).get(name)
        if number is None:
            raise await self.unknown(principal, name)
        return Target(number=number, name=name)

    async def unknown(self, principal: Principal, name: str) -> RequestError:
        """Returns the error about a name that is no contact, with those that are."""
        names = sorted(await self._contacts.all(principal))
        if not names:
            return RequestError(f"there is no contact {name!r}, and no other one; add it with add_contact")
        shown = names if len(names) <= _NAMED else close_names(name, names) or names[:_NAMED]
        return RequestError(f"there is no contact {name!r}; the contacts are {', '.join(shown)}")


def number_of(text: str, parameter: str) -> str:
    """Returns the number in an argument in the form of E.164. Raises `RequestError`."""
    try:
        return e164(text)
    except NumberError as error:
        raise RequestError(f"{parameter}: {error}", param=parameter) from error
