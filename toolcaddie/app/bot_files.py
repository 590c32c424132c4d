"""Reads the settings file of the multi-bot framework that the preset `multibot` reproduces, and makes our settings of it.

The file is JSON with comments. `${VAR}` stands for an environment variable, which must be set. The value of a secret is never
written: a secret that is `${VAR}` becomes the name of the variable. What has no counterpart is named, with the reason.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from msgspec import Struct

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.reserved import RESERVED_NAMES

_GROUPS: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    files(__package__).joinpath("bot_groups.toml").read_text("utf-8")
)
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SOURCES = (*dict.fromkeys(rules["source"] for rules in _GROUPS.values()), "memory")
"""The types of sources, in the order in which they are written. The tools of bots stand in this order."""
_BOT_KEYS = {"description": "description", "skills": "skills", "model": "model", "language": "language"}
_SOUL_FOLDERS = ("soulDir", "dir")
_LARGEST_SECONDS = 1_000
"""A `timeout` from here on is meant in milliseconds."""

Path = tuple[str, ...]


class BotFile(Struct, frozen=True, kw_only=True):
    """Settings of Toolcaddie, and sentences about everything that was not taken over."""

    settings: Mapping[str, Any]
    left_out: Sequence[Mapping[str, Any]] = ()
    """Sources of types that are not installed."""
    remarks: Sequence[str] = ()
    variables: Sequence[str] = ()
    """Environment variables that hold secrets."""


def is_bot_file(document: Any) -> bool:
    """Returns True if a document has bots or groups of tools of that framework."""
    return isinstance(document, Mapping) and (
        isinstance(document.get("bots"), list) or any(isinstance(document.get(name), Mapping) for name in _GROUPS)
    )


def read_bot_file(
    document: Mapping[str, Any], *, place: str, environ: Mapping[str, str], installed: Sequence[str]
) -> BotFile:
    """Returns the settings for a file. `installed`: types of sources. Raises `ConfigError`, with their places, for variables
    that are not set, and for a file whose bots cannot be read."""
    return _Reader(document, place=place, environ=environ, installed=installed).file()


class _Reader:
    """Reads one file."""

    def __init__(
        self, document: Mapping[str, Any], *, place: str, environ: Mapping[str, str], installed: Sequence[str]
    ) -> None:
        self._document = document
        self._place = place
        self._environ = environ
        self._installed = installed
        self._remarks: list[str] = []
        self._variables: dict[str, None] = {}
        self._values: dict[Path, Any] = {}
        self._missing: list[str] = []
        """Sentences about variables that have no value."""
        for path, value in _leaves(document, ()):
            self._values[path] = self._resolved(path, value)
        if self._missing:
            raise ConfigError(f"{place}: {'; '.join(self._missing)}")

    def file(self) -> BotFile:
        configs = self._configs()
        bots = self._bots(configs)
        result: dict[str, Any] = {"preset": "multibot"}
        if bots:
            result["default_bot"] = next(iter(bots))
        rounds = self._values.get(("webTools", "maxToolRounds"))
        if rounds is not None:
            result["limits"] = {"rounds": rounds}
        sources = [{"type": kind, **config} for kind, config in configs.items()]
        result["source"] = [source for source in sources if source["type"] in self._installed]
        left_out = [source for source in sources if source["type"] not in self._installed]
        for source in left_out:
            self._remarks.append(f"source {source['type']}: this version has no such source, so it is a comment")
        if bots:
            result["bots"] = bots
        return BotFile(
            settings=result, left_out=left_out, remarks=tuple(self._remarks), variables=tuple(self._variables)
        )

    def _configs(self) -> dict[str, dict[str, Any]]:
        """Returns the configuration of each source, by its type."""
        configs: dict[str, dict[str, Any]] = {}
        for name, rules in _GROUPS.items():
            if self._enabled(name):
                self._map_group(name, rules, configs.setdefault(rules["source"], {}))
        for key, value in self._document.items():
            if key not in _GROUPS and key != "bots":
                what = "its settings have" if isinstance(value, Mapping | list) else "it has"
                self._remarks.append(f"{key}: not taken over, because {what} no counterpart")
        if self._values.get(("soul", "search", "enabled")) is True and self._enabled("soul"):
            configs["memory"] = {}
        if self._enabled("processTools") and not self._enabled("exec"):
            del configs["exec"]
            self._remarks.append("processTools: not taken over, because process needs exec, which is not enabled")
        if len(self._bot_tables()) > 1:
            configs.setdefault("team", {})["collaboration"] = self._enabled("collaboration")
        elif "team" in configs:
            del configs["team"]
            self._remarks.append("collaboration: not taken over, because there is only one bot")
        return {kind: configs[kind] for kind in _SOURCES if kind in configs}

    def _enabled(self, group: str) -> bool:
        table = self._document.get(group)
        return isinstance(table, Mapping) and self._values.get((group, "enabled"), True) is True

    def _map_group(self, group: str, rules: Mapping[str, Any], config: dict[str, Any]) -> None:
        for path, value in self._values.items():
            key = ".".join(path[1:])
            if path[0] != group or key == "enabled" or key.endswith(".enabled") or key == "maxToolRounds":
                continue
            rule = rules.get(key)
            if rule is not None:
                _put(config, rule["to"], self._mapped(path, value, rule))
            elif not (group in ("soul", "improve") and key in _SOUL_FOLDERS):
                self._remarks.append(f"{group}.{key}: not taken over, because it has no counterpart")

    def _mapped(self, path: Path, value: Any, rule: Mapping[str, Any]) -> Any:
        if rule.get("secret"):
            return self._variable_of(path, rule["env"])
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        if numeric and (rule.get("ms") or (path[-1] == "timeout" and value >= _LARGEST_SECONDS)):
            return value / 1_000
        return value

    def _variable_of(self, path: Path, instead: str) -> str:
        """Returns the environment variable of a secret. One that stands in the file is not copied."""
        match = _VARIABLE.fullmatch(str(_at(self._document, path)))
        variable = match[1] if match else instead
        if not match:
            self._remarks.append(f"{'.'.join(path)}: a secret is not written; put it into the variable {variable}")
        self._variables[variable] = None
        return variable

    def _bot_tables(self) -> Sequence[Mapping[str, Any]]:
        tables = self._document.get("bots", [])
        if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
            raise ConfigError(f'{self._place}: bots must be a list of objects, such as [{{"id": "therapist"}}]')
        return tables

    def _bots(self, configs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        bots: dict[str, dict[str, Any]] = {}
        for number, table in enumerate(self._bot_tables()):
            name = self._values.get(("bots", str(number), "id"))
            if not isinstance(name, str) or not name or name in bots:
                raise ConfigError(f"{self._place}: bots[{number}].id must be a text of its own, not {str(name)[:64]!r}")
            bots[name] = self._bot(name, number, table)
            if "exec" in configs and not self._enabled("processTools"):
                disabled = bots[name].setdefault("disabled_tools", [])
                disabled.extend(["process"] if "process" not in disabled else [])
        return bots

    def _bot(self, name: str, number: int, table: Mapping[str, Any]) -> dict[str, Any]:
        bot: dict[str, Any] = {}
        for key in table:
            value = _at(table, (key,))
            if key == "id":
                continue
            if key == "disabledTools" and isinstance(value, list):
                bot["disabled_tools"] = [tool for tool in value if tool in RESERVED_NAMES]
                for tool in value:
                    if tool not in RESERVED_NAMES:
                        self._remarks.append(
                            f"bots.{name}.disabledTools: left out {str(tool)[:64]!r}, which is no built-in tool"
                        )
            elif key in _BOT_KEYS:
                bot[_BOT_KEYS[key]] = self._values.get(("bots", str(number), key), value)
            else:
                self._remarks.append(f"bots.{name}.{key}: not taken over, because it has no counterpart")
        folder = next(
            (f for group in ("soul", "improve") for key in _SOUL_FOLDERS if (f := self._values.get((group, key)))), None
        )
        if isinstance(folder, str):
            bot["persona"] = f"{folder.rstrip('/')}/{name}"
        return bot

    def _resolved(self, path: Path, value: Any) -> Any:
        """Returns a value in which each `${VAR}` is replaced, and remembers those that have no value."""
        if not isinstance(value, str):
            return value

        def variable(match: re.Match[str]) -> str:
            name = match[1]
            if not _NAME.match(name) or name not in self._environ:
                why = "is not set" if _NAME.match(name) else "is no name of a variable"
                self._missing.append(f"{'.'.join(path)}: the environment variable {name[:64]!r} {why}")
            return self._environ.get(name, "")

        return _VARIABLE.sub(variable, value)


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yields all values that are no objects, with their paths. A list of plain values is one value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*path, str(number)))
    else:
        yield path, value


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _put(config: dict[str, Any], to: str, value: Any) -> None:
    *tables, key = to.split(".")
    for table in tables:
        config = config.setdefault(table, {})
    config[key] = value
