"""Writes the settings file of the multi-bot framework as `toolcaddie.toml`, for `toolcaddie import`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcaddie.app.bot_files import BotFile, read_bot_file
from toolcaddie.app.settings import DEFAULT_FILE, load_settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import note, print_json
from toolcaddie.doors.texts import counted
from toolcaddie.registry import Registry
from toolcaddie.sources.mcp.desktop import as_toml, toml_key, toml_of


def import_bots(
    document: Mapping[str, Any], file: Path, output: Path, *, check: bool, force: bool, as_json: bool
) -> None:
    """Writes the settings, or with `check` only says what would be written. Raises `ConfigError` if the file exists."""
    imported = read_bot_file(document, place=str(file), environ=os.environ, installed=Registry().names("source"))
    text = settings_text(imported)
    _check_loads(text)
    if not check:
        _write(output, text, force=force)
    if as_json:
        print_json(
            {
                "path": None if check else str(output),
                "settings": imported.settings,
                "left_out": imported.left_out,
                "remarks": imported.remarks,
                "variables": imported.variables,
            }
        )
        return
    if check:
        echo(text, nl=False)
    for remark in imported.remarks:
        note(remark)
    if imported.variables:
        note(f"set these environment variables: {', '.join(imported.variables)}")
    if not check:
        bots = counted(len(imported.settings.get("bots", {})), "bot")
        chosen = "" if output == Path(DEFAULT_FILE) else f"--config {output} "
        note(f"wrote {output}: {bots}; `toolcaddie {chosen}bots list` shows their tools")


def settings_text(imported: BotFile) -> str:
    """Returns the settings as text of `toolcaddie.toml`."""
    settings = imported.settings
    lines = [f"{key} = {toml_of(settings[key])}\n" for key in ("preset", "default_bot") if key in settings]
    if "limits" in settings:
        lines.append("\n[limits]\n" + _lines(settings["limits"]))
    if settings["source"]:
        lines.append("\n" + as_toml(settings["source"]))
    lines += ["\n" + "".join(f"# {line}\n" for line in as_toml([source]).splitlines()) for source in imported.left_out]
    lines += [f"\n[bots.{toml_key(name)}]\n{_lines(bot)}" for name, bot in settings.get("bots", {}).items()]
    return "".join(lines)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{toml_key(key)} = {toml_of(value)}\n" for key, value in table.items())


def _check_loads(text: str) -> None:
    """Raises `ConfigError` if Toolcaddie itself would refuse the file, for example for a number that is out of range."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "toolcaddie.toml")
        path.write_text(text, "utf-8")
        try:
            load_settings(path, environ={})
        except ConfigError as error:
            raise ConfigError(f"a value cannot be taken over: {str(error).replace(folder + os.sep, '')}") from error


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(
            f"{path} already exists; name another file with --output, or overwrite it with --force"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
