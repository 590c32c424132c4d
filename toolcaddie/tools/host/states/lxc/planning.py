"""Checks and completes the desired attributes of one container.

Whatever is changed must be possible to change back: a value that somebody else has set and that could not be set again stays.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.lxc.containers import CONFIG
from toolcaddie.util.text import visible_line

CONTAINER = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]{0,100}")
_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_URL = re.compile(r"https://[A-Za-z0-9.-]{1,200}(:\d{1,5})?(/[A-Za-z0-9._/-]{0,100})?", re.ASCII)
_CPU = re.compile(r"[1-9]\d{0,3}|\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)+|\d{1,4}-\d{1,4}", re.ASCII)
_MEMORY = re.compile(r"[1-9]\d{0,15}(B|[kMGTPE]B|[KMGTPE]iB)?|[1-9]\d?%|100%", re.ASCII)
_PROCESSES = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_BOOLEAN = re.compile(r"true|false")
_PATTERNS: Mapping[str, tuple[re.Pattern[str], str]] = MappingProxyType(
    {
        "limits.cpu": (_CPU, "a number such as 2, or CPUs such as 0-3"),
        "limits.memory": (_MEMORY, "a size such as 512MiB"),
        "limits.processes": (_PROCESSES, "a number such as 500"),
        "boot.autostart": (_BOOLEAN, "true or false"),
    }
)
_DESCRIPTION = 500
_READ_ONLY = ("image", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The images and profiles that the operator allows. `images`: the server of each, empty for an image of this machine."""

    images: Mapping[str, str]
    profiles: Collection[str]

    def __post_init__(self) -> None:
        place = "source 'host': plugin.lxc"
        for name, server in self.images.items():
            if not _IMAGE.fullmatch(name):
                raise ConfigError(f"{place}.images: {name!r} is no alias or fingerprint of an image, such as debian/12")
            if server and not _URL.fullmatch(server):
                raise ConfigError(
                    f"{place}.images: {server!r} is no server of images, such as https://images.example.org; "
                    "leave it empty for an image of this machine"
                )
        for name in self.profiles:
            if not _PROFILE.fullmatch(name):
                raise ConfigError(f"{place}.profiles: {name!r} is no name of a profile, such as default")


def planned(allowed: Allowed, name: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
    """Returns all attributes after the change. Raises `RequestError`."""
    if not CONTAINER.fullmatch(name):
        raise RequestError(
            f"{name[:40]!r} is no name of a container: it has up to 63 letters, digits and dashes, a letter first and no "
            "dash last"
        )
    if desired is None:
        _check_deletion(allowed, name, current)
        return None
    before = _created(allowed, name, desired) if current is None else current
    after = {**before, **desired}
    if unknown := set(after).difference(before):
        raise RequestError(f"{name}: a container has no attribute {min(unknown)[:40]!r}; it has {', '.join(before)}")
    if current is None:
        _check_all(allowed, name, after)
        return after
    for key in sorted(after):
        if after[key] != before[key]:
            _check_change(allowed, name, key, before, after)
    return after


def _check_deletion(allowed: Allowed, name: str, current: JsonObject | None) -> None:
    if current is None:
        return
    try:
        _check_all(allowed, name, current)
    except RequestError as error:
        raise RequestError(f"{name} cannot be deleted, because it could not be created again: {error}") from error


def _created(allowed: Allowed, name: str, desired: JsonObject) -> dict[str, Any]:
    """Returns the attributes of a new container of which nothing is known but its image."""
    if not allowed.images:
        raise RequestError(
            f"{name}: there is no such container, and the settings allow no image to create one; the operator names images "
            "in plugin.lxc.images"
        )
    if not desired.get("image"):
        raise RequestError(
            f"{name}: there is no such container; to create one, give its image: {_listed(allowed.images)}"
        )
    return {
        "running": True,
        "image": "",
        "profiles": ["default"] if "default" in allowed.profiles else [],
        "description": "",
        **dict.fromkeys(CONFIG, ""),
        "other": [],
    }


def _check_all(allowed: Allowed, name: str, attributes: Mapping[str, Any]) -> None:
    """Raises `RequestError` unless a container with these attributes could be created."""
    if attributes["other"]:
        raise RequestError(f"{name} has what this tool cannot set: {', '.join(attributes['other'][:5])}")
    if not isinstance(attributes["image"], str) or attributes["image"] not in allowed.images:
        raise RequestError(
            f"{name}: the image {str(attributes['image'])[:80]!r} is not allowed; allowed are {_listed(allowed.images)}"
        )
    for key in ("running", "profiles", "description", *CONFIG):
        _check_value(allowed, name, key, attributes[key])


def _check_change(allowed: Allowed, name: str, key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    if key in _READ_ONLY:
        raise RequestError(f"{name}: {key} cannot be changed; delete the container, and create it afterwards")
    if key == "running" and before["running"] and "ephemeral" in before["other"]:
        raise RequestError(f"{name} is ephemeral: stopping it would delete it")
    _check_value(allowed, name, key, after[key])
    try:
        _check_value(allowed, name, key, before[key])
    except RequestError as error:
        raise RequestError(f"{name}: its {key} stays, because it could not be set again: {error}") from error


def _check_value(allowed: Allowed, name: str, key: str, value: Any) -> None:
    """Raises `RequestError` unless an attribute may have this value."""
    if key == "running":
        _expect(isinstance(value, bool), name, key, value, "true or false")
    elif key == "profiles":
        _check_profiles(allowed, name, value)
    elif key == "description":
        fits = isinstance(value, str) and len(value) <= _DESCRIPTION and visible_line(value) == value
        _expect(fits, name, key, value, f"a line of up to {_DESCRIPTION} characters")
    else:
        pattern, words = _PATTERNS[key]
        _expect(isinstance(value, str) and (not value or bool(pattern.fullmatch(value))), name, key, value, words)


def _check_profiles(allowed: Allowed, name: str, profiles: Sequence[Any]) -> None:
    _expect(isinstance(profiles, list), name, "profiles", profiles, "a list of names")
    _expect(len(profiles) == len({str(each) for each in profiles}), name, "profiles", profiles, "names, each once")
    for profile in profiles:
        if profile not in allowed.profiles:
            raise RequestError(
                f"{name}: the profile {str(profile)[:80]!r} is not allowed; allowed are {_listed(allowed.profiles)}"
            )


def _expect(fits: bool, name: str, key: str, value: Any, words: str) -> None:
    if not fits:
        raise RequestError(f"{name}: {key} is {words}, not {str(value)[:80]!r}")


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:20]) or "none"
