"""Parts that other packages bring, found by their entry points. Ours come in by the same door."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from toolcaddie.core.errors import ConfigError
from toolcaddie.util.suggest import close_names

CATALOGS = "toolcaddie.catalogs"
RANKERS = "toolcaddie.rankers"
PROVIDERS = "toolcaddie.providers"
EMBEDDERS = "toolcaddie.embedders"
SINKS = "toolcaddie.sinks"
META_TOOLS = "toolcaddie.meta_tools"

GROUPS = (CATALOGS, RANKERS, EMBEDDERS, PROVIDERS, SINKS, META_TOOLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One entry point, and how loading it went."""

    name: str
    group: str
    target: str
    """`module:attribute`."""
    distribution: str
    version: str
    error: str | None = None
    """Why it cannot be used; None: it can."""


def discover(group: str) -> list[Plugin]:
    """Every plugin of a group, sorted by name, loaded to see whether it can be. A failing one is reported, never raised."""
    found: list[Plugin] = []
    taken: dict[str, str] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        error = f"the name is taken by {taken[point.name]}" if point.name in taken else _try(point)[1]
        taken.setdefault(point.name, point.value)
        found.append(_plugin(point, error))
    return found


def load(group: str, name: str) -> Any:
    """What a plugin's entry point names. Raises `ConfigError` if there is none of that name or it cannot be loaded."""
    points = sorted(entry_points(group=group, name=name), key=lambda point: point.value)
    if not points:
        names = sorted({point.name for point in entry_points(group=group)})
        raise ConfigError(f"no plugin {name!r} in {group}; {choices(name, names)}")
    value, error = _try(points[0])
    if error is not None:
        raise ConfigError(f"plugin {name!r} of {group} ({points[0].value}) cannot be loaded: {error}")
    return value


def _plugin(point: EntryPoint, error: str | None) -> Plugin:
    return Plugin(
        name=point.name,
        group=point.group,
        target=point.value,
        distribution=point.dist.name if point.dist else "",
        version=point.dist.version if point.dist else "",
        error=error,
    )


def _try(point: EntryPoint) -> tuple[Any, str | None]:
    try:
        return point.load(), None
    except Exception as error:  # noqa: BLE001  a stranger's code at import: whatever it does, the others still load
        return None, told(error)


def told(error: BaseException) -> str:
    """What went wrong in a stranger's code, and the last place of it that has a file; of code that cannot be read, that."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def choices(name: str, names: Sequence[str]) -> str:
    """The names there are, the likely one first."""
    close = close_names(name, names)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}there are {', '.join(names)}" if names else "there are none"
