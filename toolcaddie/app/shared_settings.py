"""Settings that all servers with the same database take from it: sources, policy, and limits of API keys.

They are the part of the settings that a running server can change. Whoever shares them puts the files that they name into the
database too, such as catalogs and rules. A server writes these files into a folder of its own and reads them there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from toolcaddie.app.entry_files import file_of, moved, moved_policy, policy_files
from toolcaddie.app.settings import PartSettings, Settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.key_limits import KeyLimits
from toolcaddie.util.replacing import replace

MOST_BYTES = 16 * 1024 * 1024
"""Largest size of all files together."""
_VERSION_DIGITS = 12


class SharedSettings(Struct, frozen=True, kw_only=True):
    """Settings with the contents of the files that they name."""

    at: float
    """The moment at which they were shared, in seconds since the epoch."""
    by: str
    """Whoever shared them."""
    catalogs: tuple[str, ...] = ()
    source: tuple[PartSettings, ...] = ()
    policy: PartSettings | None = None
    key_limits: KeyLimits = KeyLimits()
    files: Mapping[str, bytes] = {}
    """Contents of the files, by the names that stand in the settings."""

    @property
    def version(self) -> str:
        """A digest of what a server takes from here."""
        content = [self.catalogs, self.source, self.policy, self.key_limits, sorted(self.files.items())]
        return hashlib.sha256(msgspec.msgpack.encode(content)).hexdigest()[:_VERSION_DIGITS]


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(SharedSettings).decode


def bundle(settings: Settings, *, by: str, at: float) -> SharedSettings:
    """Returns the settings to share, with their files. Raises `ConfigError` if a file cannot be read or they are too large."""
    files: dict[str, bytes] = {}
    for name in _file_names(settings):
        try:
            files[name] = Path(name).read_bytes()
        except OSError as error:
            raise ConfigError(f"{name}: {error.strerror}; a file that the settings name must be readable") from error
    if (size := sum(map(len, files.values()))) > MOST_BYTES:
        raise ConfigError(
            f"the files that the settings name have {size:,} bytes together, and {MOST_BYTES:,} can be shared; put large ones "
            "on each machine, and name them in its own toolcaddie.toml"
        )
    return SharedSettings(
        at=at,
        by=by,
        catalogs=settings.catalogs,
        source=settings.source,
        policy=settings.policy,
        key_limits=settings.key_limits,
        files=files,
    )


def overlaid(local: Settings, shared: SharedSettings, folder: Path) -> Settings:
    """Returns the settings of a server with the shared ones in place of its own. Their files are written below `folder`."""
    places = {name: str(_written(folder, name, content)) for name, content in shared.files.items()}
    return replace(
        local,
        catalogs=tuple(str(moved(catalog, places)) for catalog in shared.catalogs),
        source=tuple(source for table in shared.source if isinstance(source := moved(table, places), PartSettings)),
        policy=moved_policy(shared.policy, places),
        key_limits=shared.key_limits,
    )


def _file_names(settings: Settings) -> Sequence[str]:
    """Returns the names of all files; what is a module, an address or a folder is omitted."""
    named = [*map(file_of, settings.catalogs), *map(file_of, settings.source)]
    catalogs = [name for name in named if name and _is_file(name)]
    return list(dict.fromkeys([*catalogs, *policy_files(settings.policy)]))


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def _written(folder: Path, name: str, content: bytes) -> Path:
    """Returns the place of a file with this content. Equal contents have one place, so a source with an unchanged file stays."""
    place = folder / hashlib.sha256(content).hexdigest() / Path(name).name
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.write_bytes(content)
    return place
