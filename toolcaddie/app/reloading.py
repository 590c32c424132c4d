"""Changes the sources, the policy and the limits of API keys of a running process to those of new settings. `toolcaddie serve`
does so at the signal SIGHUP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from toolcaddie.app.entry_files import file_of, policy_files
from toolcaddie.app.plugged import Entry, sources_of
from toolcaddie.app.runtimes import policy_of
from toolcaddie.app.settings import PartSettings, Settings
from toolcaddie.core.key_limits import KeyLimits
from toolcaddie.parts import Parts
from toolcaddie.ports import Policy, ToolSource
from toolcaddie.registry import Registry
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.util.replacing import replace


class Changes(Struct, frozen=True, kw_only=True):
    """Names of the sources that a reload added, removed, or made again because their settings or their file had changed."""

    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    replaced: Sequence[str] = ()
    policy: bool = False
    """True if the policy was made again, because its settings or one of its files had changed."""
    tenants: Sequence[str] = ()
    """Tenants whose open catalogs were made again, because their files had changed."""


class _Loaded(Struct, frozen=True, kw_only=True):
    entry: Entry
    stamp: int
    """The time at which the file that the entry names was changed; 0: it names none."""
    name: str


class Reloading:
    """Knows from which settings the parts of `source` were made."""

    def __init__(self, source: CombinedSource, settings: Settings, registry: Registry, parts: Parts) -> None:
        self._source, self._registry, self._parts = source, registry, parts
        self._key_limits = settings.key_limits
        self._loaded = [
            _Loaded(entry=entry, stamp=_stamp(entry), name=name)
            for entry, name in zip(_entries(settings), source.part_names, strict=True)
        ]
        self._policy = _policy_stamps(settings)

    def key_limits(self) -> KeyLimits:
        """Returns the limits of API keys of the settings that were read last."""
        return self._key_limits

    async def reload(self, settings: Settings, change_policy: Callable[[Policy], None]) -> Changes:
        """Makes the sources that are new or changed in the settings, opens them, and closes those that are gone. Sources of
        Python modules stay, because modules are loaded once in a process. If the policy has changed, `change_policy` gets the
        new one.

        Raises `ConfigError` or `CatalogError`; then everything is as before.
        """
        stamps = _policy_stamps(settings)
        policy = None if stamps == self._policy else policy_of(settings, self._registry, self._parts)
        wanted = [(entry, _stamp(entry)) for entry in _entries(settings)]
        kept = [each for each in self._loaded if (each.entry, each.stamp) in wanted]
        present = [(each.entry, each.stamp) for each in kept]
        added = [(*each, self._made(settings, each[0])) for each in wanted if each not in present]
        old = [each.name for each in self._loaded if each not in kept]
        await self._source.change(add=[source for *_, source in added], remove=old)
        new = [_Loaded(entry=entry, stamp=stamp, name=source.name) for entry, stamp, source in added]
        self._loaded = [*kept, *new]
        if policy is not None:
            change_policy(policy)
            self._policy = stamps
        self._key_limits = settings.key_limits
        names = {each.name for each in new}
        return Changes(
            added=sorted(names.difference(old)),
            removed=sorted(set(old) - names),
            replaced=sorted(names.intersection(old)),
            policy=policy is not None,
        )

    def _made(self, settings: Settings, entry: Entry) -> ToolSource:
        catalogs, tables = ((entry,), ()) if isinstance(entry, str) else ((), (entry,))
        [source] = sources_of(replace(settings, catalogs=catalogs, source=tables), self._registry, self._parts)
        return source


def _entries(settings: Settings) -> list[Entry]:
    """Returns what the settings say of each source, in the order of `sources_of`."""
    return [*settings.catalogs, *settings.source]


def _policy_stamps(settings: Settings) -> tuple[PartSettings | None, Sequence[int]]:
    """Returns what the settings say of the policy, and when its files were changed."""
    return settings.policy, [_changed_at(file) for file in policy_files(settings.policy)]


def _stamp(entry: Entry) -> int:
    return _changed_at(file_of(entry) or "\0")


def _changed_at(file: str) -> int:
    try:
        return Path(file).stat().st_mtime_ns
    except (OSError, ValueError):
        return 0
