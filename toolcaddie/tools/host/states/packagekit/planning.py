"""Checks and completes the desired attributes of one package. What could not be undone is refused."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.packagekit.managers import Package
from toolcaddie.tools.host.states.packagekit.names import PACKAGE, PROTECTED, fits

_SETTING = "plugin.packagekit.packages"


def attributes(package: Package) -> JsonObject:
    """Returns the attributes of a package."""
    return {"installed": bool(package.installed), "version": package.installed, "candidate": package.candidate}


def planned(
    patterns: Sequence[str], name: str, desired: JsonObject | None, current: JsonObject | None
) -> JsonObject | None:
    """Returns all attributes after the change. Raises `RequestError`."""
    if not PACKAGE.fullmatch(name):
        raise RequestError(f"{name[:40]!r} is no name of a package: small letters, digits and + - . such as nginx")
    if not patterns:
        raise RequestError(f"{name}: no package may be changed; the operator allows some with {_SETTING}")
    if not fits(name, patterns):
        raise RequestError(f"{name} may not be changed: {_SETTING} of the settings does not name it")
    if current is None:
        if desired is None or desired.get("installed") is False:
            return None
        raise RequestError(f"{name}: no repository of this machine has such a package")
    after = _after(
        name, installed=desired is not None and desired.get("installed", current["installed"]), current=current
    )
    for key, value in (desired or {}).items():
        if key not in after:
            raise RequestError(f"{name}: a package has no attribute {key[:40]!r}; set installed")
        if value != after[key]:
            raise RequestError(f"{name}: {key} cannot be set to {str(value)[:40]!r}; it is {after[key]!r} then")
    return after


def _after(name: str, *, installed: object, current: JsonObject) -> JsonObject:
    if not isinstance(installed, bool):
        raise RequestError(f"{name}: installed is true or false")
    if installed == current["installed"]:
        return current
    if not installed:
        _check_removal(name, current)
    elif not current["candidate"]:
        raise RequestError(f"{name}: no repository of this machine has it")
    return {**current, "installed": installed, "version": current["candidate"] if installed else ""}


def _check_removal(name: str, current: JsonObject) -> None:
    if name in PROTECTED:
        raise RequestError(f"{name} is a required part of the system and is not removed")
    if current["version"] != current["candidate"]:
        candidate = f"only {current['candidate']}" if current["candidate"] else "no version of it"
        raise RequestError(
            f"{name}: the removal could not be undone: version {current['version']} is installed, and {candidate} can be "
            "downloaded"
        )
