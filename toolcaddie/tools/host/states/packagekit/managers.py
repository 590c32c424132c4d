"""The interface of the two package managers of the plugin, and the rule for what a change may bring along."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from toolcaddie.core.errors import HostError
from toolcaddie.core.states import BackEnd
from toolcaddie.tools.host.words import words

MOST_PACKAGES = 500
"""The largest number of packages in the state."""
_SHOWN_NAMES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package that is installed or can be."""

    installed: str = ""
    """Its version; empty: it is not installed."""
    candidate: str = ""
    """The version that would be downloaded; empty: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Packages to install and to remove, each with its version. `is_ours`: whether the plugin's state has a package."""

    install: Mapping[str, str]
    remove: Mapping[str, str]
    is_ours: Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequences:
    """The names of all packages that a change would install, change to another version, and remove."""

    installed: Collection[str]
    updated: Collection[str] = ()
    removed: Collection[str] = ()


class PackageManager(Protocol):
    """Reads and changes the packages of a machine."""

    async def is_present(self) -> bool:
        """Returns True if this machine has it. Never raises an exception."""
        ...

    async def packages(self, patterns: Sequence[str]) -> Mapping[str, Package]:
        """Returns the packages whose names fit. Raises `HostError`."""
        ...

    async def change(self, wanted: Wanted) -> None:
        """Installs and removes packages, if nothing else changes but what they depend on. Raises `HostError`."""
        ...

    async def back_end(self) -> BackEnd:
        """Returns what it depends on. Never raises an exception."""
        ...

    async def close(self) -> None:
        """Closes its connections."""
        ...


def check_consequences(wanted: Wanted, consequences: Consequences) -> None:
    """Raises `HostError` if a change would reach further than what is wanted: only new dependencies may come along."""
    named = {*wanted.install, *wanted.remove}
    if removed := set(consequences.removed).difference(wanted.remove):
        raise HostError(f"nothing was done: this would also remove {_listed(removed)}")
    if updated := set(consequences.updated) - named:
        raise HostError(f"nothing was done: this would also bring {_listed(updated)} to another version")
    if ours := {name for name in consequences.installed if name not in named and wanted.is_ours(name)}:
        raise HostError(f"nothing was done: this would also install {_listed(ours)}; name it in the desired state too")


def check_number(names: Collection[str]) -> None:
    """Raises `HostError` if the patterns of the settings fit too many packages."""
    if len(names) > MOST_PACKAGES:
        raise HostError(
            f"the patterns of plugin.packagekit.packages fit {len(names)} packages, more than {MOST_PACKAGES}; "
            "the operator makes them narrower"
        )


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(words(name) for name in sorted(names)[:_SHOWN_NAMES])
    return shown if len(names) <= _SHOWN_NAMES else f"{shown} and {len(names) - _SHOWN_NAMES} more"
