"""Reads the MCP servers in the settings file of a client, such as a desktop application or an editor, and writes them as tables
of `toolcaddie.toml`. What has no counterpart there is named, and values that may be secrets are replaced by names of environment
variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from toolcaddie.core.errors import ConfigError
from toolcaddie.sources.mcp.dialects import document_of, server_of, servers_of
from toolcaddie.sources.mcp.server import may_be_secret

_KEYS = {"command", "args", "env", "cwd", "url", "headers", "headers_from", "token_env", "type", "disabled"}
_PLACEHOLDER = re.compile(r"(?:\$\{(?:env:|input:)?([A-Za-z_][A-Za-z0-9_-]*)\}|\{env:([A-Za-z_][A-Za-z0-9_]*)\})\Z")
"""A whole value that stands for a variable or for an answer of the user: `${NAME}`, `${env:NAME}`, `${input:name}`, or
`{env:NAME}`."""
LARGEST = 4 * 1024 * 1024


class Imported(Struct, frozen=True, kw_only=True):
    """The tables, and sentences about everything that could not be taken over."""

    tables: Sequence[Mapping[str, Any]] = ()
    remarks: Sequence[str] = ()
    variables: Sequence[str] = ()
    """Environment variables that must be set before the servers can be used."""


def read_servers(text: bytes, *, place: str) -> Imported:
    """Returns the tables for the servers of a file. Raises `ConfigError` if the file has no list of servers."""
    if len(text) > LARGEST:
        raise ConfigError(f"{place} has {len(text):,} bytes; it is no settings file of a client")
    servers = servers_of(document_of(text, place=place))
    if servers is None:
        raise ConfigError(
            f'{place} has no list of servers, such as {{"mcpServers": {{"files": {{"command": "npx"}}}}}}'
        )
    tables: list[Mapping[str, Any]] = []
    remarks: list[str] = []
    variables: dict[str, None] = {}
    names: set[str] = set()
    for name, entry in servers.items():
        if not isinstance(entry, Mapping):
            remarks.append(f"{name}: omitted, because it is not an object")
            continue
        table = _table(name, server_of(entry), names, remarks, variables)
        if table is not None:
            tables.append(table)
    return Imported(tables=tuple(tables), remarks=tuple(remarks), variables=tuple(variables))


def _table(
    name: str, entry: Mapping[str, Any], names: set[str], remarks: list[str], variables: dict[str, None]
) -> Mapping[str, Any] | None:
    if entry.get("disabled") is True:
        remarks.append(f"{name}: omitted, because it is disabled")
        return None
    table: dict[str, Any] = {"type": "mcp", "name": _free_name(name, names)}
    if table["name"] != name:
        remarks.append(f"{name}: its name here is {table['name']}")
    url = entry["url"] if isinstance(entry.get("url"), str) else None
    command = entry.get("command")
    if entry.get("type") == "sse":
        remarks.append(
            f"{name}: its transport is SSE, which is out of date; it works only if the address takes streamable HTTP"
        )
    if url is not None:
        table["url"] = url
        _secrets(name, "header", entry.get("headers"), table, "headers", variables, remarks)
        _named(entry, table, variables)
    elif isinstance(command, str | list) and command:
        words = [command] if isinstance(command, str) else command
        args = entry.get("args") or []
        if not all(isinstance(word, str) for word in (*words, *args)):
            remarks.append(f"{name}: omitted, because its command or args are not texts")
            return None
        table["command"], table["args"] = words[0], [*words[1:], *args]
        remarks += [
            f"{name}: an argument looks like a secret; give it by env_from instead" for word in args if _is_key(word)
        ]
        remarks += [
            f"{name}: the argument {word[:80]!r} has a placeholder of the client; write its value"
            for word in args
            if "${" in word
        ]
        if isinstance(entry.get("cwd"), str):
            table["cwd"] = entry["cwd"]
        _secrets(name, "variable", entry.get("env"), table, "env", variables, remarks)
    else:
        remarks.append(f"{name}: omitted, because it has neither a command nor a url")
        return None
    remarks += [f"{name}: {key!r} has no counterpart and is omitted" for key in entry if key not in _KEYS]
    return table


def _secrets(
    name: str,
    what: str,
    values: Any,
    table: dict[str, Any],
    key: str,
    variables: dict[str, None],
    remarks: list[str],
) -> None:
    """Puts plain values under `key`, and the names of variables for secrets under `key` with `_from`."""
    if not isinstance(values, Mapping):
        return
    plain: dict[str, str] = {}
    named: dict[str, str] = {}
    for each, value in values.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        placeholder = _PLACEHOLDER.match(text)
        if placeholder is None and not may_be_secret(each) and not _is_key(text):
            plain[each] = text
            continue
        variable = (
            _variable(placeholder[1] or placeholder[2], upper=False)
            if placeholder
            else _variable(each if what == "variable" else f"{name}_{each}")
        )
        named[each] = variable
        variables.setdefault(variable)
        if placeholder is None:
            remarks.append(
                f"{name}: the value of the {what} {each} may be a secret; put it into the variable {variable}"
            )
    if plain:
        table[key] = plain
    if named:
        table[f"{key}_from"] = named


def _named(entry: Mapping[str, Any], table: dict[str, Any], variables: dict[str, None]) -> None:
    """Adds the variables that the file names itself: a token, and values of headers."""
    headers = entry.get("headers_from")
    if isinstance(headers, Mapping):
        table["headers_from"] = {**table.get("headers_from", {}), **headers}
        variables.update(dict.fromkeys(map(str, headers.values())))
    if isinstance(entry.get("token_env"), str):
        table["token_env"] = entry["token_env"]
        variables.setdefault(entry["token_env"])


def _is_key(text: str) -> bool:
    return bool(re.match(r"(sk|pk|ghp|gho|github_pat|xox[bp]|Bearer)[-_ ]", text)) or bool(
        re.fullmatch(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9+/=_-]{24,}", text)
    )


def _variable(text: str, *, upper: bool = True) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:60] or "SECRET"
    return name.upper() if upper else name


def _free_name(name: str, names: set[str]) -> str:
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:36] or "server"
    free, number = base, 2
    while free in names:
        free, number = f"{base}-{number}", number + 1
    names.add(free)
    return free


def as_toml(tables: Sequence[Mapping[str, Any]]) -> str:
    """Returns the tables as text for `toolcaddie.toml`."""
    return "\n".join(
        "[[source]]\n" + "".join(f"{key} = {toml_of(value)}\n" for key, value in table.items()) for table in tables
    )


def toml_of(value: Any) -> str:
    """Returns a value as TOML, on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(key)} = {toml_of(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_of, value)) + "]"
    # A TOML text is a JSON text, except that it may not contain DEL.
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def toml_key(key: str) -> str:
    """Returns a key as TOML writes it."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_of(key)
