"""`toolcaddie init`: writes a settings file to start from, or the files of a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from toolcaddie.app.settings import DEFAULT_FILE, starter_toml
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import json_option, note, print_json

_NEXT = "Next: `toolcaddie serve` starts the gateway with it, `toolcaddie chat` talks to the model."
_NEXT_BOTS = (
    "Next: `toolcaddie chat --bot therapist` talks to a bot, `toolcaddie bots list` shows what each may use.\n"
    'Without a real model, the practice model answers; it understands only English: "what time is it?"'
)


@click.command(
    name="init",
    epilog="\b\nExamples:\n  toolcaddie init\n  toolcaddie init --force --json\n  toolcaddie init --sample bots",
)
@click.option("--sample", type=click.Choice(["bots"]), help="Write a sample instead: two bots with their personas.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@json_option
def command(sample: str | None, force: bool, as_json: bool) -> None:
    """Write a commented toolcaddie.toml into the current folder."""
    contents = {Path(DEFAULT_FILE): starter_toml()} if sample is None else _sample(sample)
    if not force and (existing := next((path for path in contents if path.exists()), None)):
        raise _exists(existing)  # before any file of several is written
    for path, text in contents.items():
        _write(path, text, force=force)
    path = Path(DEFAULT_FILE)
    if as_json:
        several = {} if sample is None else {"files": [str(each.resolve()) for each in contents]}
        print_json({"path": str(path.resolve()), **several})
        return
    echo(f"wrote {path}" if sample is None else f"wrote {path} and {len(contents) - 1} files of personas")
    note(_NEXT if sample is None else _NEXT_BOTS)


def _sample(name: str) -> Mapping[Path, str]:
    """Returns the files of a sample with their texts, the settings first."""
    folder = files("toolcaddie.samples").joinpath(name)
    personas = dict(_texts(folder.joinpath("personas"), Path("personas")))
    return {Path(DEFAULT_FILE): folder.joinpath(DEFAULT_FILE).read_text("utf-8"), **personas}


def _texts(folder: Traversable, path: Path) -> Iterator[tuple[Path, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _texts(entry, path / entry.name)
        else:
            yield path / entry.name, entry.read_text("utf-8")


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # "x" instead of a check alone: a file that appears in between is not overwritten.
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; change to a folder in which you may write"
        ) from error


def _exists(path: Path) -> ConfigError:
    return ConfigError(f"{path} already exists; edit it, or overwrite it with --force")
