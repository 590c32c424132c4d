"""The catalogs of tenants in a folder: the file `acme.toml` names the sources of the tenant `acme`, with `catalogs` and tables
`[[source]]` as in `toolcaddie.toml`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from toolcaddie.app.entry_files import file_of, moved
from toolcaddie.app.plugged import Entry, sources_of
from toolcaddie.app.settings import PartSettings, Settings, load_settings
from toolcaddie.app.settings.file import read_file
from toolcaddie.core.control import checked_tenant
from toolcaddie.core.errors import ConfigError, TenantCatalogError
from toolcaddie.core.events import SourceStatus
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.sources.tenant_parts import OwnSources, Tenants, owned_name
from toolcaddie.storage.scoped import ScopedStore
from toolcaddie.util.replacing import replace

_KEYS = ("catalogs", "source")
"""The keys that the file of a tenant may have."""
_SUFFIX = ".toml"
_OF_SERVER = frozenset({"authored", "cron", "host", "improve", "memory", "persona", "phone", "team"})
"""Sources that are made once for the bots of a server, or for its machine: other parts of the server look for them in its own
settings."""


def tenants_of(settings: Settings, registry: Registry, parts: Parts) -> Tenants | None:
    """Returns the tenants of the settings; None: they name no folder. Raises `ConfigError` if the folder does not exist."""
    if settings.tenants.folder is None:
        return None
    folder = Path(settings.tenants.folder)
    if not folder.is_dir():
        raise ConfigError(f"tenants.folder: there is no folder {str(folder)!r}; make it, or take the setting out")
    return Tenants(
        load=partial(_load, folder, settings, registry, parts),
        open=settings.tenants.open,
        replace_reserved=settings.catalog.replace_reserved,
        report=parts.emit,
    )


def at_tenant(settings: Settings, parts: Parts, tenant: str) -> tuple[Settings, Parts] | None:
    """Returns the settings with the sources of a tenant in place of the shared ones, and the services for these sources; None:
    the tenant has no file. Raises as `tenant_entries` does."""
    folder = settings.tenants.folder
    entries = None if folder is None else tenant_entries(Path(folder), tenant)
    return None if entries is None else (_with_entries(settings, entries), _parts_of(tenant, parts))


def tenant_entries(folder: Path, tenant: str) -> Sequence[Entry] | None:
    """Returns what the file of a tenant says of its sources; None: there is no such file. Relative paths are relative to the
    folder. Raises `TenantCatalogError` for a name that can have no file, and `ConfigError` for a mistake in the file."""
    try:
        path = _path_of(folder, tenant)
    except OSError as error:
        raise ConfigError(f"tenants.folder: {str(folder)!r} cannot be read: {error.strerror}") from error
    if path is None:
        return None
    for key in read_file(path).data:
        if key not in _KEYS:
            raise ConfigError(f"{path}: the file of a tenant has only catalogs and tables [[source]], and not {key!r}")
    own = load_settings(path, environ={})
    entries: Sequence[Entry] = (*own.catalogs, *own.source)
    for entry in entries:
        kind = entry if isinstance(entry, str) else entry.type
        if kind in _OF_SERVER:
            raise ConfigError(
                f"{path}: the tools {kind!r} are made once for all bots of a server; name them in the settings of the server"
            )
    return [_in_folder(folder, entry) for entry in entries]


def _path_of(folder: Path, tenant: str) -> Path | None:
    """Returns the file of a tenant; None: there is none. Raises `TenantCatalogError` for a name that cannot be that of a file,
    and `ConfigError` for one that differs from another one in upper and lower case only: some file systems would give both the
    same file."""
    try:
        checked_tenant(tenant)
    except ConfigError as error:
        raise TenantCatalogError(str(error)) from error
    own = tenant + _SUFFIX
    twins = [name for name in os.listdir(folder) if name.lower() == own.lower()]
    if any(name != own for name in twins):
        raise ConfigError(  # clients do not read this: that there is another tenant is no business of theirs
            f"the name of the tenant {tenant!r} differs from that of another one in upper and lower case only, so neither can "
            "have a catalog; whoever runs the server can rename one of them"
        )
    return folder / own if twins else None


def _load(folder: Path, settings: Settings, registry: Registry, parts: Parts, tenant: str) -> OwnSources | None:
    own = folder / (tenant + _SUFFIX)
    written = _changed_at(own)  # before it is read: what is written to it meanwhile counts as a change
    entries = tenant_entries(folder, tenant)
    if entries is None:
        return None
    named = partial(_stamps, entries)
    before = named()
    sources = sources_of(_with_entries(settings, entries), registry, _parts_of(tenant, parts))
    return OwnSources(sources=sources, is_current=lambda: _changed_at(own) == written and named() == before)


def _with_entries(settings: Settings, entries: Sequence[Entry]) -> Settings:
    catalogs = tuple(entry for entry in entries if isinstance(entry, str))
    return replace(
        settings, catalogs=catalogs, source=tuple(each for each in entries if isinstance(each, PartSettings))
    )


def _parts_of(tenant: str, parts: Parts) -> Parts:
    """Returns the services of the host for the sources of a tenant: what they store, report and pause is the tenant's own."""
    return replace(
        parts,
        store=None if parts.store is None else ScopedStore(parts.store, tenant),
        emit=partial(_report, tenant, parts.emit),
        breakers=None if parts.breakers is None else parts.breakers.below(tenant),
    )


def _report(tenant: str, emit: Callable[[SourceStatus], None], status: SourceStatus) -> None:
    emit(replace(status, source=owned_name(tenant, status.source)))


def _in_folder(folder: Path, entry: Entry) -> Entry:
    """Returns an entry whose file, if it names one by a relative path, is in the folder."""
    if isinstance(entry, str):
        has_file = entry.endswith(".jsonl") or entry.startswith("openapi:")
    else:
        has_file = entry.type in ("jsonl", "openapi")
    file = file_of(entry)
    if not has_file or not file or "://" in file:
        return entry
    return moved(entry, {file: (folder / file).as_posix()})


def _stamps(entries: Sequence[Entry]) -> Sequence[int]:
    """Returns when the files that the file of a tenant names were changed."""
    return [_changed_at(Path(file_of(entry) or "\0")) for entry in entries]


def _changed_at(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except (OSError, ValueError):
        return 0
