"""Shows a part of another source's tools, under other names: `arranged`. Settings use it for the keys `include`, `exclude`,
`rename` and `prefix` of a table `[[source]]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import Tool
from toolcaddie.ports import OpenableSource, ToolSource
from toolcaddie.sources.altered import AlteredSource
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import did_you_mean

log = Logger(__name__)


class Arrangement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tools of a source that are shown, and their names. Patterns are shell patterns of the source's own names (`get_*`)."""

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    rename: Mapping[str, str] = {}
    """New names by the source's own names. A renamed tool gets no prefix."""
    prefix: str = ""
    """Begins every other name, followed by two underscores."""


def arrangement_of(config: Mapping[str, Any], factory: type[Struct]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits the settings of a source into those of its factory and those of `Arrangement`. A key that both know is the
    factory's. `factory`: the settings that the factory takes."""
    keys = set(Arrangement.__struct_fields__) - set(factory.__struct_fields__)
    ours = {key: value for key, value in config.items() if key in keys}
    return {key: value for key, value in config.items() if key not in ours}, ours


def arranged(
    source: ToolSource,
    *,
    include: Sequence[str] = ("*",),
    exclude: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    prefix: str = "",
) -> ToolSource:
    """Returns a source with some of the tools of another, under other names: `arranged(gym, include=["get_*"], prefix="gym")`.

    Raises `ConfigError` for a name or a pattern that fits no tool, and for two tools of one name. A source that connects to
    something has its tools only then, so its patterns are checked when it is opened.
    """
    arrangement = Arrangement(include=tuple(include), exclude=tuple(exclude), rename=rename or {}, prefix=prefix)
    view = (_OpenableArranged if isinstance(source, OpenableSource) else _Arranged)(source, arrangement)
    if not isinstance(source, OpenableSource):
        view.check()
    return view


class _Arranged(AlteredSource):
    def __init__(self, source: ToolSource, arrangement: Arrangement) -> None:
        super().__init__(source)
        self._arrangement = arrangement

    @property
    def required(self) -> bool:
        return getattr(self._source, "required", True)

    def categories(self) -> Sequence[Category]:
        names = {tool.category for tool in self.tools()}
        return [each for each in self._source.categories() if each.name in names]

    def check(self) -> None:
        """Raises `ConfigError` for a pattern or a name that fits no tool, and for two tools of one name."""
        names = [tool.name for tool in self._source.tools()]
        setting = self._arrangement
        for pattern in (*setting.include, *setting.exclude):
            if pattern != "*" and not any(fnmatchcase(name, pattern) for name in names):
                raise ConfigError(
                    f"source {self.name!r}: the pattern {pattern!r} fits none of its tools; {did_you_mean(pattern, names)}"
                )
        for name in setting.rename:
            if name not in names:
                raise ConfigError(
                    f"source {self.name!r}: rename names {name!r}, which is none of its tools; {did_you_mean(name, names)}"
                )
        holders: dict[str, str] = {}
        for tool in self._source.tools():
            if (
                _is_shown(tool.name, setting)
                and (other := holders.setdefault(self._name(tool), tool.name)) != tool.name
            ):
                raise ConfigError(
                    f"source {self.name!r}: its tools {other!r} and {tool.name!r} would both be called {self._name(tool)!r}; "
                    "rename one of them otherwise"
                )

    def _name(self, tool: Tool) -> str:
        prefix = self._arrangement.prefix
        return self._arrangement.rename.get(tool.name) or (f"{prefix}__{tool.name}" if prefix else tool.name)

    def _altered(self, before: Sequence[Tool]) -> tuple[Sequence[Tool], Mapping[str, Tool]]:
        own = [tool for tool in self._source.tools() if _is_shown(tool.name, self._arrangement)]
        return [self._renamed(tool) for tool in own], {self._name(tool): tool for tool in own}

    def _renamed(self, tool: Tool) -> Tool:
        name = self._name(tool)
        return tool if name == tool.name else replace(tool, name=name, original=tool.original or tool.name)


class _OpenableArranged(_Arranged):
    """Implements `OpenableSource`."""

    _source: Any

    async def open(self) -> None:
        await self._source.open()
        try:
            self.check()
        except ConfigError:
            await self._source.close()
            raise

    async def close(self) -> None:
        await self._source.close()


def _is_shown(name: str, setting: Arrangement) -> bool:
    included = any(fnmatchcase(name, pattern) for pattern in setting.include)
    return included and not any(fnmatchcase(name, pattern) for pattern in setting.exclude)
