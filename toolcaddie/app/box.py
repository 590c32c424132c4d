"""The tools in the box: sources that ship with Toolcaddie and act on the world. None is used unless it is named."""

from __future__ import annotations

from collections.abc import Iterable

from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import did_you_mean

BOX = ("files", "exec", "web", "datetime", "authored")
ALL = "all"


def box_names(text: str) -> tuple[str, ...]:
    """Returns the sources that `files,exec` or `all` names. Raises `ConfigError` for any other name."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in (*BOX, ALL):
            raise ConfigError(f"the box has no {name!r}; {did_you_mean(name, (*BOX, ALL))}")
    return BOX if ALL in names else names


def with_box(settings: Settings, names: Iterable[str]) -> Settings:
    """Returns the settings with these sources of the box. A source that the settings name already keeps its own settings."""
    new = (name for name in names if not names_source(settings, name))
    return replace(settings, catalogs=(*settings.catalogs, *new))


def names_source(settings: Settings, name: str) -> bool:
    """Returns True if the settings have a source of this type."""
    return name in settings.catalogs or any(part.type == name for part in settings.source)
