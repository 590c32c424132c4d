"""Messages of D-Bus as values, and the error of a call that a service refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.errors import ConfigError, HostError


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One call of a method of a service."""

    destination: str
    path: str
    interface: str
    member: str
    signature: str = ""
    body: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The values that a method returned, without the wrapping of variants, and the unique name of the service."""

    body: Sequence[Any]
    sender: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A signal of an object, and the unique name of the service that sent it."""

    sender: str
    path: str
    interface: str
    member: str
    body: Sequence[Any]


class DBusRefusedError(HostError):
    """A service answered a call with an error; `name` is its D-Bus name, such as `org.freedesktop.DBus.Error.AccessDenied`."""

    def __init__(self, message: str, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


def checked_address(address: str) -> str:
    """Returns the address of a bus; empty means the system bus. Raises `ConfigError` unless it is a socket of this machine."""
    if address and not address.startswith("unix:"):
        raise ConfigError(f"bus: {address!r} is no socket of this machine; write unix:path=..., or leave it out")
    return address
