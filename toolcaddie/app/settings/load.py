"""Makes settings from a file and the environment. Any mistake is reported at start, with its line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, UnsetType

from toolcaddie.app.settings.channels import ChannelSettings, channel_settings_of
from toolcaddie.app.settings.environment import with_environment
from toolcaddie.app.settings.file import SettingsFile, read_file
from toolcaddie.app.settings.model import Age, CacheSettings, PartSettings, Settings
from toolcaddie.app.settings.schema import (
    COMPLETED_ELSEWHERE,
    DEFAULT_TYPES,
    DERIVED,
    LAID_OVER,
    NAME_ITS_VARIABLE,
    PART_LISTS,
    PARTS_BY_NAME,
    SINGLE_PARTS,
    bare,
    choices,
    complaint,
    complaint_and_path,
    dotted,
    file_schema,
    is_list_of_tables,
    is_table,
    named_tables,
    table_fields,
)
from toolcaddie.core.bounds import check_bounds
from toolcaddie.core.capabilities import row_of
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import PRESETS, Preset, preset
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.guards.proofs import PROOFS
from toolcaddie.parts import VARIABLE_PATTERN
from toolcaddie.registry import Registry
from toolcaddie.sources.arranged import Arrangement, arrangement_of
from toolcaddie.util.replacing import replace
from toolcaddie.util.tables import partial_table, set_values
from toolcaddie.util.zones import close_zones, zone_of

T = TypeVar("T")

_UNITS = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 7 * 86_400.0}
"""Seconds of each unit of a duration."""
_SECRETS = frozenset({"api_key", "apikey", "key", "password", "secret", "token"})
"""Keys of a part's settings that are refused in a file, because their values are secrets. The part takes the name of an
environment variable instead."""

_ADVICE: Mapping[tuple[str, ...], str] = {
    ("upstream", "model"): 'write it at the top of the file, above the first [table]: model = "provider:model"',
    ("source", "cron", "timezone"): "the time zone of jobs is zone in the table [jobs]",
    ("limits", "turns"): "the limit of executed tool calls is now limits.calls; write calls = 75 instead of turns = 75",
}
"""Advice for keys that are often written into the wrong table, or had another name in earlier versions. The keys of a part are
below its socket and type."""


def load_settings(
    path: Path | None = None, *, environ: Mapping[str, str] | None = None, registry: Registry | None = None
) -> Settings:
    """Returns the settings of a file; environment variables override them.

    Without `path` the file is `toolcaddie.toml` of the current folder; if there is none, the defaults count. `registry` has the
    parts that tables such as `[[source]]` name. Raises `ConfigError` naming the key, file and line, or the variable. An unknown
    variable that begins with TOOLCADDIE_ is not refused, because platforms set such variables; it is logged if it looks misspelt.
    """
    file, registry = read_file(path), registry or Registry()
    _refuse_unknown(file, file.data, file_schema(), ())
    _check_named_tables(file, file.data, file_schema(), ())
    in_file = _convert(file, file.data, file_schema(), ())
    _check_parts(file, registry)
    _check_file(file, _settings_of(in_file), registry)
    whole, origins = with_environment(in_file, os.environ if environ is None else environ)
    settings = _settings_of(whole)
    _check_names(file, settings, origins)
    _check_programs(file, settings, origins)
    _check_zone(file, settings, origins)
    check_bounds(settings.bounds)
    settings.traffic.places(settings.bounds)
    return _with_folders_in(Path() if path is None else path.parent, settings)


def effective_preset(settings: Settings) -> Preset:
    """Returns the preset of the settings with their overrides. Raises `ConfigError` for an invalid override."""
    base = preset(settings.preset)
    delivery, cache, page_size = settings.delivery.mode, settings.cache.mode, settings.catalog.page_size
    return replace(
        base,
        delivery=base.delivery if isinstance(delivery, UnsetType) else delivery,
        cache=base.cache if isinstance(cache, UnsetType) else cache,
        programs=settings.programs.offer or base.programs,
        page_size=base.page_size if isinstance(page_size, UnsetType) else page_size,
        selection=_laid_over(base.selection, "selection", settings.selection),
        budget=_laid_over(base.budget, "budget", settings.budget),
        limits=_laid_over(base.limits, "limits", settings.limits),
    )


def age_seconds(age: str) -> float | None:
    """Returns the seconds of an age such as "90d"; None for "off". Raises `ConfigError` for anything else."""
    try:
        checked = msgspec.convert(age, Age)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{age!r} is not an age; write a number and m, h, d or w, such as 90d") from error
    return None if checked == "off" else duration_seconds(checked)


def duration_seconds(duration: str) -> float:
    """Returns the seconds of a valid `Duration`."""
    return int(duration[:-1]) * _UNITS[duration[-1]]


def names_variable(text: str) -> bool:
    """Returns True if `text` can be the name of an environment variable, and does not look like the key itself."""
    return re.match(VARIABLE_PATTERN, text) is not None


# --- from the types of the file to settings


def _settings_of(whole: Struct) -> Settings:
    """Returns the settings from the decoded file (`whole`), whose tables have other types than the fields of `Settings`."""
    values = {name: getattr(whole, name) for name in whole.__struct_fields__}
    for name in LAID_OVER:
        values[name] = set_values(values[name])
    for name, kind in DERIVED.items():
        values[name] = kind(**set_values(values[name]))
    values["capabilities"] = tuple(map(row_of, values["capabilities"]))
    for name in PART_LISTS:
        values[name] = tuple(map(_part, values[name]))
    for name in SINGLE_PARTS:
        values[name] = None if values[name] is None else _part({**DEFAULT_TYPES.get(name, {}), **values[name]})
    return Settings(**values)


def _part(table: Mapping[str, Any]) -> PartSettings:
    """Returns a part from its table: `type` and `required` are settings of the table, all other keys are passed to the part's
    factory."""
    config = {key: value for key, value in table.items() if key not in ("type", "required")}
    return PartSettings(type=table["type"], required=table.get("required"), config=config)


def _laid_over(base: T, name: str, overrides: Mapping[str, Any]) -> T:
    """Returns `base` with the values of the table `name`, which override its fields."""
    if not overrides:
        return base
    written = {key: "off" if value is None else value for key, value in overrides.items()}
    try:
        return replace(base, **set_values(msgspec.convert(written, partial_table(type(base)))))
    except msgspec.ValidationError as error:
        raise ConfigError(f"settings.{name}: {error}") from error


def _with_folders_in(folder: Path, settings: Settings) -> Settings:
    """Returns the settings with the folders of personas and of tenants in that of the file, because a server may start
    anywhere."""
    tenants = settings.tenants
    if tenants.folder is not None:
        tenants = replace(tenants, folder=(folder / tenants.folder).as_posix())
    bots = {
        name: bot if bot.persona is None else replace(bot, persona=(folder / bot.persona).as_posix())
        for name, bot in settings.bots.items()
    }
    return replace(settings, bots=bots, tenants=tenants)


# --- checks


def _check_file(file: SettingsFile, settings: Settings, registry: Registry) -> None:
    """Raises `ConfigError` for mistakes that no type can express."""
    _check_names(file, settings, {})
    if settings.tool_config is not None:
        _check_tool_config(file, settings.tool_config)
    _check_providers(file, settings, registry)
    keep = settings.cache.keep
    # The default cache always exists, and listing the installed caches takes longer than all other checks together.
    if keep != CacheSettings().keep and keep not in (caches := registry.names("cache")):
        there = choices(keep, caches)
        raise ConfigError(f"{file.place(('cache', 'keep'))}: cache.keep: no cache {keep!r}; {there}")


def _refuse_unknown(file: SettingsFile, data: Any, kind: Any, path: tuple[str, ...]) -> None:
    """Raises `ConfigError` for a key that the type `kind` does not have, at any depth. `path`: the keys that lead to `data`."""
    columns = table_fields(kind)
    for key, value in _table(data).items():
        here = (*path, key)
        if key not in columns:
            remedy = _ADVICE.get(here) or choices(key, columns)
            raise ConfigError(f"{file.place(here)}: unknown key {dotted(here)!r}; {remedy}")
        declared = bare(columns[key])
        if is_table(declared):
            _refuse_unknown(file, value, declared, here)
        elif is_list_of_tables(declared) and isinstance(value, list) and is_table(declared.__args__[0]):
            for number, item in enumerate(value):
                _refuse_unknown(file, item, declared.__args__[0], (*here, str(number)))
        elif (inner := named_tables(declared)) is not None:
            for name, item in _table(value).items():
                _refuse_unknown(file, item, inner, (*here, name))


def _check_named_tables(file: SettingsFile, data: Any, kind: Any, path: tuple[str, ...]) -> None:
    """Raises `ConfigError` for a wrong value in a table such as `[bots.NAME]` of the table `data`, whose type is `kind`. Each
    such table is converted alone, because an error in the conversion of the whole omits its name. `path`: the keys that lead to
    `data`."""
    for table, column in table_fields(kind).items():
        if (inner := named_tables(bare(column))) is not None:
            for name, values in _table(_table(data).get(table)).items():
                _convert(file, values, inner, (*path, table, name))


def _convert(file: SettingsFile, data: Any, kind: type[T], path: tuple[str, ...]) -> T:
    """Returns `data` as a value of the type `kind`. Raises `ConfigError` with the line of a wrong value. `path`: the keys that
    lead to `data`."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        what, where = complaint_and_path(error)
        here = (*path, *where)
        raise ConfigError(f"{file.place(here)}: {dotted(here)}: {complaint(kind, where, what)}") from error


def _table(value: Any) -> Mapping[str, Any]:
    """Returns the value if it is a table, else an empty one: the conversion reports the wrong type."""
    return value if isinstance(value, Mapping) else {}


def _check_names(file: SettingsFile, settings: Settings, origins: Mapping[tuple[str, ...], str]) -> None:
    """Raises `ConfigError` for an unknown preset or default bot. `origins` has the environment variable that set a key."""
    if settings.preset not in PRESETS:
        there = choices(settings.preset, PRESETS)
        raise ConfigError(f"{_place(file, origins, 'preset')}: no preset {settings.preset!r}; {there}")
    bot, bots = settings.default_bot, settings.bots
    if bot is not None and bot not in bots:
        there = choices(bot, bots) if bots else "there are no bots; add a table [bots.NAME]"
        raise ConfigError(f"{_place(file, origins, 'default_bot')}: default_bot: there is no bot {bot!r}; {there}")


def _check_programs(file: SettingsFile, settings: Settings, origins: Mapping[tuple[str, ...], str]) -> None:
    """Raises `ConfigError` if programs are to be offered in every request, and nothing can run them."""
    if settings.programs.offer == "always" and settings.interpreter is None:
        place = _place(file, origins, "programs", "offer")
        raise ConfigError(f'{place}: programs.offer is "always", but nothing runs programs; add a table [interpreter]')


def _check_zone(file: SettingsFile, settings: Settings, origins: Mapping[tuple[str, ...], str]) -> None:
    """Raises `ConfigError` if the zone of jobs does not exist."""
    zone = settings.jobs.zone
    if zone is not None and zone_of(zone) is None:
        place = _place(file, origins, "jobs", "zone")
        raise ConfigError(f"{place}: jobs.zone: there is no time zone {zone[:100]!r}; {close_zones(zone)}")


def _place(file: SettingsFile, origins: Mapping[tuple[str, ...], str], *key: str) -> str:
    variable = origins.get(key)
    return file.place(key) if variable is None else f"environment variable {variable}"


def _check_providers(file: SettingsFile, settings: Settings, registry: Registry) -> None:
    """Raises `ConfigError` for a provider that is not installed, with the line that names it."""
    config = _table(settings.tool_config)
    fallback_key = next((key for key in ("fallback_provider", "fallbackProvider") if _table(config.get(key))), "")
    candidates = [
        (("upstream", "provider"), settings.upstream.provider),
        (("tool_config", fallback_key, "provider"), _table(config.get(fallback_key)).get("provider")),
        *((("fallback", str(at), "model"), each.model) for at, each in enumerate(settings.fallback)),
    ]
    references = [(path, text) for path, text in candidates if text]
    installed = registry.names("provider") if references else []
    for path, text in references:
        name = text.partition(":")[0] if path[0] == "fallback" else text
        if name not in installed:
            write = "write provider:model; " if path[0] == "fallback" and ":" not in text else ""
            what = f"{text!r} names no provider; {write}" if write else f"no provider {name!r}; "
            raise ConfigError(f"{file.place(path)}: {dotted(path)}: {what}{choices(name, installed)}")


def _check_parts(file: SettingsFile, registry: Registry) -> None:
    """Raises `ConfigError` for a part that is not installed, or a setting that its factory does not take, with the line."""
    for socket in PART_LISTS:
        for number, table in enumerate(file.data.get(socket, ())):
            _check_part(file, registry, socket, table, (socket, str(number)))
    for socket in SINGLE_PARTS:
        if socket in file.data:
            _check_part(file, registry, socket, {**DEFAULT_TYPES.get(socket, {}), **file.data[socket]}, (socket,))
    for socket in PARTS_BY_NAME:
        for name, config in file.data.get(socket, {}).items():
            _check_named(file, registry, socket, name, (socket, name))
            _check_config(file, registry, socket, name, config, (socket, name))


def _check_part(
    file: SettingsFile, registry: Registry, socket: str, table: Mapping[str, Any], path: tuple[str, ...]
) -> None:
    """Raises `ConfigError` if the table of a part has no installed type, or settings that its factory does not take. `socket`:
    the kind of part; `path`: the keys that lead to the table."""
    name = table.get("type")
    if not isinstance(name, str):
        there = ", ".join(registry.names(socket)) or "none is installed"
        raise ConfigError(f"{file.place(path)}: {dotted(path)}: name its type, a text in quotes: {there}")
    _check_named(file, registry, socket, name, (*path, "type"))
    if not isinstance(table.get("required", True), bool):
        raise ConfigError(f"{file.place((*path, 'required'))}: {dotted((*path, 'required'))}: write true or false")
    if "required" in table and socket != "source":
        where = (*path, "required")
        raise ConfigError(f"{file.place(where)}: unknown key {dotted(where)!r}; only a source has this key")
    config = {key: value for key, value in table.items() if key not in ("type", "required")}
    _check_config(file, registry, socket, name, config, path)


def _check_named(file: SettingsFile, registry: Registry, socket: str, name: str, path: tuple[str, ...]) -> None:
    """Raises `ConfigError` if no part of that name is installed."""
    names = registry.names(socket)
    if name not in names:
        there = choices(name, names) if names else "none is installed; docs/settings.md says how a package brings one"
        raise ConfigError(f"{file.place(path)}: {dotted(path)}: no {socket.replace('_', ' ')} {name!r}; {there}")


def _known_keys(socket: str, kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    """Returns the types of all keys that the table of a part may have, those included that its factory does not take."""
    ours: Mapping[str, Any] = {"type": str} if socket in (*PART_LISTS, *SINGLE_PARTS) else {}
    if socket == "source":
        ours = {**ours, "required": bool, **table_fields(Arrangement)}
    if socket == "channel":
        ours = {**ours, **table_fields(ChannelSettings)}
    return {**ours, **table_fields(kind)}


def _check_config(
    file: SettingsFile, registry: Registry, socket: str, name: str, config: Mapping[str, Any], path: tuple[str, ...]
) -> None:
    """Raises `ConfigError` if the settings of a part have an unknown key, a wrong value, or a secret."""
    kind = registry.config_type(socket, name)
    ours: Mapping[str, Any] = {}
    if socket == "source":
        config, ours = arrangement_of(config, kind)
    if socket == "channel":
        config, common = channel_settings_of(config)
        _convert(file, common, ChannelSettings, path)
    if kind.__struct_config__.forbid_unknown_fields:
        known = _known_keys(socket, kind)
        for key in config:
            if key not in known and (remedy := _ADVICE.get((socket, name, key))):
                where = (*path, key)
                raise ConfigError(f"{file.place(where)}: unknown key {dotted(where)!r}; {remedy}")
        _refuse_unknown(file, config, msgspec.defstruct(name, list(known.items())), path)
    _convert(file, ours, Arrangement, path)
    headers = {("headers", key): value for key, value in _table(config.get("headers")).items() if key.lower() in PROOFS}
    secrets = {(key,): value for key, value in config.items() if key.lower() in _SECRETS}
    for place, value in (secrets | headers).items():
        if isinstance(value, str):
            where = (*path, *place)
            raise ConfigError(
                f"{file.place(where)}: {dotted(where)}: a key is never written into this file; {NAME_ITS_VARIABLE}"
            )
    if socket in COMPLETED_ELSEWHERE:
        kind = msgspec.defstruct(name, [column for column in table_fields(kind).items() if column[0] in config])
    _check_named_tables(file, config, kind, path)
    _convert(file, config, kind, path)


_WRONG_KEY = re.compile(r"toolConfig(?:\.(\w+))?: (?:unknown key )?'([^']+)'")


def _check_tool_config(file: SettingsFile, table: Mapping[str, Any]) -> None:
    """Raises `ConfigError` for a wrong key or value of `[tool_config]`, with its line."""
    try:
        ToolConfig.of(table)
    except ConfigError as error:
        match = _WRONG_KEY.match(str(error))
        where = ["tool_config"]
        if match is not None:
            where += [*([_spelled(match[1], table)] if match[1] else ()), match[2]]
        raise ConfigError(f"{file.place(where)}: {error}") from error
    for outer in table:
        for key in _table(table[outer]):
            if key in ("apiKey", "api_key"):
                raise ConfigError(
                    f"{file.place(('tool_config', outer, key))}: tool_config.{outer}.{key}: a key is never written into this "
                    "file; put it into the provider's own environment variable"
                )


def _spelled(name: str, table: Mapping[str, Any]) -> str:
    """Returns `name` in the spelling of the file, camelCase or snake_case."""
    return next((key for key in table if key.replace("_", "").lower() == name.lower()), name)
