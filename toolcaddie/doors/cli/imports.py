"""`toolcaddie import`: reads the MCP servers in the settings file of a client, or the settings of a multi-bot framework."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from toolcaddie.app.bot_files import is_bot_file
from toolcaddie.app.settings import DEFAULT_FILE
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.import_bots import import_bots
from toolcaddie.doors.cli.output import json_option, note, print_json
from toolcaddie.sources.mcp.desktop import LARGEST, Imported, as_toml, read_servers
from toolcaddie.sources.mcp.dialects import document_of


@click.command(
    name="import",
    epilog="\b\nExamples:\n"
    "  toolcaddie import ~/.cursor/mcp.json\n"
    "  toolcaddie import claude_desktop_config.json --append toolcaddie.toml\n"
    "  toolcaddie import config.json --check",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--append",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="SETTINGS",
    help="Add the tables to the end of this settings file instead of printing them.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(DEFAULT_FILE),
    show_default=True,
    help="For a file with bots: the settings file to write.",
)
@click.option("--check", is_flag=True, help="For a file with bots: print the settings, and write nothing.")
@click.option("--force", is_flag=True, help="For a file with bots: overwrite an existing settings file.")
@json_option
def command(file: Path, append: Path | None, output: Path, check: bool, force: bool, as_json: bool) -> None:
    """Write the MCP servers in a client's settings FILE as tables of toolcaddie.toml.

    Files of Claude Desktop, Cursor, Cline, Windsurf, VS Code, opencode, Zed and codex can be read.

    A file with bots (JSON with comments, `bots` and groups such as `webTools`) becomes a new toolcaddie.toml with the preset
    multibot. Each ${VAR} in it is replaced from the environment.

    What has no counterpart is named. Values that may be secrets are not copied: set the named environment variables.
    """
    text = file.read_bytes()
    document = document_of(text[:LARGEST], place=str(file))
    if is_bot_file(document):
        if append is not None:
            raise click.UsageError(
                "--append is for MCP servers; a file with bots becomes a whole settings file, see --output"
            )
        import_bots(document, file, output, check=check, force=force, as_json=as_json)
        return
    imported = read_servers(text, place=str(file))
    if append is not None:
        _append(append, imported)
    if as_json:
        print_json({"source": imported.tables, "remarks": imported.remarks, "variables": imported.variables})
    elif append is None:
        echo(as_toml(imported.tables), nl=False)
    for remark in imported.remarks:
        note(remark)
    if imported.variables and not as_json:
        note(f"set these environment variables: {', '.join(imported.variables)}")


def _append(path: Path, imported: Imported) -> None:
    """Adds the tables to a settings file. Raises `ConfigError` if it cannot be written."""
    try:
        before = path.read_text() if path.exists() else ""
        _check_names(path, before, imported)
        gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
        path.write_text(f"{before}{gap}{as_toml(imported.tables)}")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    note(f"added {len(imported.tables)} servers to {path}")


def _check_names(path: Path, before: str, imported: Imported) -> None:
    """Raises `ConfigError` if the settings file is not TOML, or has a source of one of these names."""
    try:
        tables = tomllib.loads(before).get("source", ())
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML, so nothing was added: {error}") from error
    names = {table.get("name") for table in tables if isinstance(table, dict)}
    taken = [str(table["name"]) for table in imported.tables if table["name"] in names]
    if taken:
        raise ConfigError(
            f"{path} already has the source {taken[0]!r}, so nothing was added; remove its table there, or print the new "
            "tables without --append and choose"
        )
