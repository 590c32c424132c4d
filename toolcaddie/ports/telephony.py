"""Interfaces (sockets, which plugins fill) for telephone calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct


class CallOrder(Struct, frozen=True, kw_only=True):
    """A call to make: a number is rung, and a text is read to whoever answers."""

    to: str
    """In the form of E.164: `+525512345678`."""
    caller: str
    """The number that the called person sees, in the same form."""
    message: str
    language: str
    """Such as `es-MX`."""
    voice: str
    """In the words of the provider; empty: its default."""
    loop: int = 1
    """Number of times that the text is read."""
    seconds: int = 120
    """Length after which the call is ended."""
    report_to: str = ""
    """The address to which the provider reports how the call went; empty: nobody wants to know."""


class PlacedCall(Struct, frozen=True, kw_only=True):
    """A call that the provider has taken on."""

    id: str
    """The provider's own id."""


class RefusedCall(Struct, frozen=True, kw_only=True):
    """A call that was certainly not made."""

    reason: str


class CallReport(Struct, frozen=True, kw_only=True):
    """What a provider says of a call after it was placed."""

    id: str
    status: str
    """In the words of the provider, such as `completed`, `busy` or `no-answer`."""
    is_final: bool
    """True: the call is over."""
    seconds: int | None = None
    """Length of the call; None: unknown."""


class Telephony(Protocol):
    """Makes telephone calls."""

    @property
    def name(self) -> str: ...

    async def place(self, order: CallOrder, *, seconds: float) -> PlacedCall | RefusedCall:
        """Asks for a call, once: a request that may have reached the provider is never sent again. `seconds` is the time for the
        provider's answer, not the length of the call.

        Raises `OutboundError` if it is not known whether the call is made: the provider did not answer, or not in a way that says
        so.
        """
        ...

    def report(self, url: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> CallReport | None:
        """Reads what the provider has sent to the address `report_to` of an order. None: the provider did not send it, or it says
        nothing about a call. `url`: the address exactly as the provider knows it; `headers`: with names in small letters."""
        ...

    async def close(self) -> None: ...
