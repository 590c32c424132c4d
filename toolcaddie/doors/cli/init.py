"""`toolcaddie init`: writes a settings file to start from."""

from __future__ import annotations

from pathlib import Path

import click

from toolcaddie.app.settings import DEFAULT_FILE, starter_toml
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import json_option, note, print_json


@click.command(name="init", epilog="\b\nExamples:\n  toolcaddie init\n  toolcaddie init --force --json")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def command(force: bool, as_json: bool) -> None:
    """Write a commented toolcaddie.toml into the current folder."""
    path = Path(DEFAULT_FILE)
    try:
        # "x" instead of a check beforehand: a file that appears in between is not overwritten.
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(starter_toml())
    except FileExistsError:
        raise ConfigError(f"{path} already exists; edit it, or overwrite it with --force") from None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; change to a folder in which you may write"
        ) from error
    if as_json:
        print_json({"path": str(path.resolve())})
        return
    echo(f"wrote {path}")
    note("Next: `toolcaddie serve` starts the gateway with it, `toolcaddie chat` talks to the model.")
