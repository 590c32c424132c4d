"""Settings from environment variables, which override the file: `server.port` is `TOOLCADDIE_SERVER_PORT`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct

from toolcaddie.app.settings.schema import (
    Path,
    bare,
    complaint,
    complaint_and_path,
    file_schema,
    is_list_of_tables,
    is_table,
    table_fields,
)
from toolcaddie.core.errors import ConfigError
from toolcaddie.util.log import Logger
from toolcaddie.util.suggest import close_names

PREFIX = "TOOLCADDIE_"
"""Prefix of the variables. The items of a list are separated by commas."""

log = Logger(__name__)


def with_environment(settings: Struct, environ: Mapping[str, str]) -> tuple[Struct, Mapping[Path, str]]:
    """Returns the settings with the values of the environment in them, and the name of the variable that set each of these keys.

    Raises `ConfigError` naming the variable.
    """
    if not any(name.startswith(PREFIX) for name in environ):
        return settings, {}
    schema = file_schema()
    variables = {PREFIX + "_".join(path).upper(): (path, is_list) for path, is_list in _leaves(schema, ())}
    merged = msgspec.to_builtins(settings)
    origins: dict[Path, str] = {}
    for name in sorted(name for name in environ if name.startswith(PREFIX)):
        if name not in variables:
            _warn_of_likely_slip(name, variables)
            continue
        path, is_list = variables[name]
        value = _items(environ[name]) if is_list else environ[name]
        _check(name, path, value)
        origins[path] = name
        table = merged
        for step in path[:-1]:
            table = table.setdefault(step, {})
        table[path[-1]] = value
    return msgspec.convert(merged, schema, strict=False), origins


def _check(name: str, path: Path, value: Any) -> None:
    """Raises `ConfigError` naming the variable if its value is wrong. The value is converted alone, because an error in the
    conversion of all settings names only the key."""
    alone: Any = value
    for step in reversed(path):
        alone = {step: alone}
    try:
        msgspec.convert(alone, file_schema(), strict=False)
    except msgspec.ValidationError as error:
        what, where = complaint_and_path(error)
        raise ConfigError(f"environment variable {name}: {complaint(file_schema(), where, what)}") from error


def _warn_of_likely_slip(name: str, variables: Iterable[str]) -> None:
    """Logs an unknown variable if its name is similar to a known one. It is no error, because platforms set variables with the
    same prefix."""
    close = close_names(name.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in variables], limit=1)
    if close:
        log.warning("unknown_environment_variable", name=name, did_you_mean=PREFIX + close[0])


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _leaves(kind: Any, path: Path) -> Iterator[tuple[Path, bool]]:
    """Yields the path of each value that can be set, and True if it is a list."""
    for name, declared in table_fields(kind).items():
        here = (*path, name)
        if is_table(bare(declared)):
            yield from _leaves(bare(declared), here)
        elif get_origin(bare(declared)) is not dict and not is_list_of_tables(declared):
            # Tables by name and lists of tables cannot be set by a variable.
            yield here, any(get_origin(part) is tuple for part in (declared, *get_args(declared)))
