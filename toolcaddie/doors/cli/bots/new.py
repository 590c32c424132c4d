"""`toolcaddie bots new`: adds a bot to the settings file, with a folder of files to begin its persona."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path

import click

from toolcaddie.app.settings import DEFAULT_FILE
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.personas import GOALS, IDENTITY, MOTIVATIONS, SOUL
from toolcaddie.doors.cli.output import json_option, note, print_json
from toolcaddie.doors.cli.root import Common

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_FILES = (SOUL, IDENTITY, GOALS, MOTIVATIONS)


@click.command("new", epilog="\b\nExample:\n  toolcaddie bots new librarian --language es")
@click.argument("name")
@click.option("--language", type=click.Choice(["en", "es"]), default="en", show_default=True, help="Its language.")
@click.option(
    "--personas",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("personas"),
    show_default=True,
    help="The folder of all personas, beside the settings file; that of the bot is made in it.",
)
@json_option
@click.pass_obj
def new(common: Common, /, name: str, language: str, personas: Path, as_json: bool) -> None:
    """Add the bot NAME, with the files of its persona.

    Nothing that exists is changed: the table of the bot is added to the end of the settings file, which is made if it is missing.
    """
    if not _NAME.match(name):
        raise ConfigError(f"{name[:64]!r} is not a name for a bot; use letters, digits, - and _, such as 'librarian'")
    settings = common.config or Path(DEFAULT_FILE)
    folder = settings.parent / personas / name
    try:
        before = settings.read_text("utf-8") if settings.exists() else ""
        text, first = _with_bot(settings, before, name, personas / name, language)
        folder.mkdir(parents=True, exist_ok=True)
        written = [path for path in (folder / file for file in _FILES) if _write(path, name, language)]
        settings.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be written: {error.strerror}") from error
    if as_json:
        print_json({"bot": name, "settings": str(settings), "files": [str(path) for path in written]})
        return
    note(f"added [bots.{name}] to {settings}: describe it there, and edit its persona in {folder}")
    if first:
        note(
            f'requests that name no bot are refused: add --bot {name}, or set default_bot = "{name}" at the top of {settings}'
        )


def _with_bot(settings: Path, before: str, name: str, folder: Path, language: str) -> tuple[str, bool]:
    """Returns the text of the settings with the bot, and True if requests that name no bot are refused from now on. Raises
    `ConfigError` if the file has this bot, or cannot get a table at its end."""
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    text = f'{before}{gap}[bots.{name}]\ndescription = ""\npersona = "{folder.as_posix()}"\nlanguage = "{language}"\n'
    try:
        there = tomllib.loads(before)
        if name in there.get("bots", {}):
            raise ConfigError(f"{settings} already has the bot {name!r}, so nothing was added")
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{settings} cannot get a table [bots.{name}], so nothing was added: {error}") from error
    return text, "default_bot" not in there


def _write(path: Path, name: str, language: str) -> bool:
    """Writes a file of the persona. Returns False, and changes nothing, if it exists."""
    starter = files("toolcaddie.app").joinpath("persona_starters", language, path.name).read_text("utf-8")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(starter.replace("{name}", name))
    except FileExistsError:
        return False
    return True
