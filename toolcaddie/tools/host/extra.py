"""Packages of Python that only the tools of a host need, and that are installed with the extra `host`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from toolcaddie.core.errors import HostError

_REMEDY = "install toolcaddie[host]"


class MissingExtraError(HostError):
    """A package of the extra `host` is not installed."""


def loaded(module: str, need: str) -> ModuleType:
    """Returns a module that is or uses such a package. `need` says who needs which: `D-Bus needs the package dbus-fast`. Raises
    `MissingExtraError`."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"{need}; {_REMEDY}") from error


def remedy_of(error: HostError, otherwise: str = "") -> str:
    """Returns what to do about a part of the machine that cannot be used: install the extra, or else `otherwise`."""
    return _REMEDY if isinstance(error, MissingExtraError) else otherwise
