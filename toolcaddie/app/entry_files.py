"""The files that the settings of sources and of the policy name, and the same settings with other places for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolcaddie.app.plugged import Entry
from toolcaddie.app.settings import PartSettings
from toolcaddie.util.replacing import replace

_OPENAPI = "openapi:"
"""Beginning of the short form of a source that reads an OpenAPI document."""
_KEYS = ("path", "document")
"""Settings of a source that name its file."""


def file_of(entry: Entry) -> str:
    """Returns the file that the settings of a source name, which may be an address or a module instead; empty: none."""
    if isinstance(entry, PartSettings):
        return next((str(entry.config[key]) for key in _KEYS if entry.config.get(key)), "")
    return entry.removeprefix(_OPENAPI)


def policy_files(policy: PartSettings | None) -> Sequence[str]:
    """Returns the files of rules that the settings of the policy name."""
    return [] if policy is None else [str(file) for file in policy.config.get("files", ())]


def moved(entry: Entry, places: Mapping[str, str]) -> Entry:
    """Returns the settings of a source with another place for its file, if `places` has one."""
    file = file_of(entry)
    if file not in places:
        return entry
    if isinstance(entry, PartSettings):
        key = next(key for key in _KEYS if entry.config.get(key))
        return replace(entry, config={**entry.config, key: places[file]})
    return (_OPENAPI if entry.startswith(_OPENAPI) else "") + places[file]


def moved_policy(policy: PartSettings | None, places: Mapping[str, str]) -> PartSettings | None:
    """Returns the settings of the policy with other places for its files, where `places` has them."""
    if policy is None or not (files := policy_files(policy)):
        return policy
    return replace(policy, config={**policy.config, "files": [places.get(file, file) for file in files]})
